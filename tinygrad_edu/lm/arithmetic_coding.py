"""Arithmetic coding: symbols into as many bits as their probabilities say, whole numbers only.

The symbols so far stand for an interval; each next one narrows it to its share. Bits are written as
soon as both ends agree on them, so two registers are enough. (Witten, Neal & Cleary 1987,
"Arithmetic coding for data compression", with registers of 64 bits in place of 16: a code is longer
than Σ -log₂(share) by 2 bits at most, and about 2⁻³⁰ of a bit a symbol.)

A share is given as counts: a symbol has those from `start` to `end` of `total`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["LARGEST_TOTAL", "Decoder", "Encoder"]

_BITS = 64
_WHOLE = 1 << _BITS
_HALF, _QUARTER = _WHOLE // 2, _WHOLE // 4
LARGEST_TOTAL = 1 << 32
"""More counts than this would make the shares less exact; a quarter of the registers is the end."""


class _Interval:
    """Both ends, `high` included, and how they move; what bit comes is for the heirs."""

    def __init__(self) -> None:
        self._low, self._high = 0, _WHOLE - 1

    def _narrow(self, start: int, end: int, total: int) -> None:
        if not 0 <= start < end <= total <= LARGEST_TOTAL:
            raise ValueError(
                f"a symbol was given the counts {start} to {end} of {total}; each needs one count "
                f"at least, of {LARGEST_TOTAL} in all"
            )
        width = self._high - self._low + 1
        self._high = self._low + width * end // total - 1
        self._low += width * start // total

    def _step(self) -> str:
        """Which part both ends lie in, doubled to fill the whole again: "0", "1", "middle"; or ""
        where they are far enough apart.
        """
        if self._high < _HALF:
            part, offset = "0", 0
        elif self._low >= _HALF:
            part, offset = "1", _HALF
        elif self._low >= _QUARTER and self._high < _HALF + _QUARTER:
            part, offset = "middle", _QUARTER
        else:
            return ""
        self._low = 2 * (self._low - offset)
        self._high = 2 * (self._high - offset) + 1
        return part


class Encoder(_Interval):
    """Symbols in, bytes out: `encode` each, then `finish`."""

    def __init__(self) -> None:
        super().__init__()
        self._bits: list[str] = []
        self._undecided = 0

    def encode(self, start: int, end: int, total: int) -> None:
        """Add a symbol with the counts `start` to `end` of `total`.

        Raises:
            ValueError: no count, or more than `LARGEST_TOTAL`.
        """
        self._narrow(start, end, total)
        while part := self._step():
            if part == "middle":  # the next bit decides these, which are its opposite
                self._undecided += 1
            else:
                self._write(part)

    def _write(self, bit: str) -> None:
        self._bits.append(bit + ("1" if bit == "0" else "0") * self._undecided)
        self._undecided = 0

    def finish(self) -> bytes:
        """The code of all symbols; zeros that a decoder reads beyond it change nothing."""
        if self._low or self._high < _WHOLE - 1 or self._undecided:
            self._undecided += 1
            self._write("0" if self._low < _QUARTER else "1")
        bits = "".join(self._bits)
        padded = bits + "0" * (-len(bits) % 8)
        return int(padded or "0", 2).to_bytes(len(padded) // 8, "big")


class Decoder(_Interval):
    """Bytes in, symbols out, given the shares that the encoder was given."""

    def __init__(self, code: bytes) -> None:
        super().__init__()
        self._code, self._read = code, 0
        self._value = 0
        for _ in range(_BITS):
            self._value = 2 * self._value + self._next_bit()

    def decode(self, ends: NDArray[np.int64]) -> int:
        """The next symbol, of those whose counts end at `ends` (V,), which rises up to the total.

        A code that was made with other shares gives some symbol; to notice is for who has a digest.
        """
        total = int(ends[-1])
        width = self._high - self._low + 1
        count = ((self._value - self._low + 1) * total - 1) // width
        symbol = int(np.searchsorted(ends, count, side="right"))
        self._narrow(int(ends[symbol - 1]) if symbol else 0, int(ends[symbol]), total)
        while part := self._step():
            offset = {"0": 0, "1": _HALF, "middle": _QUARTER}[part]
            self._value = 2 * (self._value - offset) + self._next_bit()
        return symbol

    def _next_bit(self) -> int:
        place, self._read = self._read, self._read + 1
        if place >= 8 * len(self._code):
            return 0
        return self._code[place // 8] >> (7 - place % 8) & 1
