"""A language model as a compressor: a text in as many bits as the model finds it surprising.

An arithmetic coder (`arithmetic_coding`) takes -log₂ p bits for a token of probability p, so a text
takes its cross-entropy under the model and a few bits; who predicts well compresses well (Shannon
1948). To read the text back the same model predicts the same tokens in the same order.

*What a token is predicted from*: the token that samples begin with, then the text so far; when that
has filled the block, its older half is forgotten, so that kept keys and values serve half a block.

*The probabilities are turned into whole numbers*, and those have to be the same on both sides, to
the bit. They are on one machine with one NumPy and BLAS and as many threads; elsewhere a logit may
differ in its last bit. So the file holds digests of the model and of the text: what would come out
as nonsense is refused instead. A checksum of the file itself tells damage from other arithmetic,
before anything is worked out.
"""

from __future__ import annotations

import hashlib
import lzma
import math
import struct
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tinygrad_edu.lm.adapters import base_digest
from tinygrad_edu.lm.arithmetic_coding import Decoder, Encoder
from tinygrad_edu.lm.errors import RunError
from tinygrad_edu.lm.material import opening
from tinygrad_edu.lm.sampling import probabilities
from tinygrad_edu.lm.trained import Trained
from tinygrad_edu.text.tokenizers import digest_of

MAGIC = b"tged-ac2"
_START = struct.Struct("<8sI")
"""Magic; the CRC-32 of all that follows."""
_FACTS = struct.Struct("<Q8s8s")
"""Tokens; the first bytes of the SHA-256 of the model and of the text."""
HEADER_BYTES = _START.size + _FACTS.size
_COUNTS = 1 << 31
"""Counts that are shared out by probability; each token has one more, so that none has none."""


@dataclass(frozen=True)
class Compressed:
    """A text as a file, and what it is to be compared with.

    Attributes:
        data: the file: a header of 36 bytes, and the code.
        tokens: of the text.
        text_bytes: of the text in UTF-8.
        ideal_bits: Σ -log₂ p, what no code on these probabilities can go below on average.
        uniform_bits: what the tokens take where all are equally likely.
        zlib_bytes, lzma_bytes: of the text, at their best levels.
    """

    data: bytes
    tokens: int
    text_bytes: int
    ideal_bits: float
    uniform_bits: float
    zlib_bytes: int
    lzma_bytes: int

    @property
    def bits_per_byte(self) -> float:
        """Of the whole file; nan of an empty text."""
        return 8 * len(self.data) / self.text_bytes if self.text_bytes else math.nan


class _Predictor:
    """Counts for the next token, given the tokens so far, in the order that both sides follow."""

    def __init__(self, trained: Trained) -> None:
        self._predict = trained.predictor()
        self._block = trained.model.config.block_size
        self._seen = trained.tokenizer.encode(opening(trained.tokenizer))[:1]

    def ends(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(V,) where the counts of each token end, and the probabilities they were made of."""
        chances = probabilities(self._predict(np.array([self._seen])))[0]
        return np.cumsum(np.floor(chances * _COUNTS).astype(np.int64) + 1), chances

    def add(self, token: int) -> None:
        """Go on by a token."""
        if len(self._seen) == self._block:
            self._seen = self._seen[self._block - self._block // 2 :]
        self._seen = [*self._seen, token]


def compress(trained: Trained, text: str) -> Compressed:
    """Write a text as `decompress` reads it.

    Raises:
        TokenizerError: it has symbols that the model never saw; they are named.
        SamplingError: the model's logits are not finite.
    """
    raw = text.encode("utf-8")
    tokens = [int(token) for token in trained.tokenizer.encode_array(text)] if text else []
    encoder, predictor, bits = Encoder(), _Predictor(trained), 0.0
    for token in tokens:
        ends, chances = predictor.ends()
        start = int(ends[token - 1]) if token else 0
        encoder.encode(start, int(ends[token]), int(ends[-1]))
        bits -= math.log2(max(float(chances[token]), 2.0**-1074))
        predictor.add(token)
    facts = _FACTS.pack(len(tokens), _model_digest(trained), hashlib.sha256(raw).digest()[:8])
    body = facts + encoder.finish()
    return Compressed(
        data=_START.pack(MAGIC, zlib.crc32(body)) + body, tokens=len(tokens),
        text_bytes=len(raw), ideal_bits=bits,
        uniform_bits=len(tokens) * math.log2(trained.tokenizer.vocab_size),
        zlib_bytes=len(zlib.compress(raw, 9)),
        lzma_bytes=len(lzma.compress(raw, preset=9 | lzma.PRESET_EXTREME)),
    )  # fmt: skip


def decompress(trained: Trained, data: bytes) -> str:
    """The text that `compress` wrote with the same model.

    Raises:
        RunError: no such file, one that is damaged or of another model, or a text that does not
            come out as it was, predicted with other bits than it was written with.
    """
    if not data.startswith(MAGIC):
        raise RunError("the file was not written by tinygrad-edu compress; give one that was")
    checksum = int.from_bytes(data[len(MAGIC) : _START.size], "little")
    if len(data) < HEADER_BYTES or zlib.crc32(data[_START.size :]) != checksum:
        raise RunError(
            "the file is cut short or damaged: its checksum is another; compress the text again"
        )
    count, model, digest = _FACTS.unpack_from(data, _START.size)
    if model != _model_digest(trained):
        raise RunError(
            "the file was compressed with another model or tokenizer; name the run that wrote it"
        )
    decoder, predictor = Decoder(data[HEADER_BYTES:]), _Predictor(trained)
    tokens: list[int] = []
    for _ in range(count):
        tokens.append(decoder.decode(predictor.ends()[0]))
        predictor.add(tokens[-1])
    raw = b"".join(map(trained.tokenizer.token_bytes, tokens))
    if hashlib.sha256(raw).digest()[:8] != digest:
        raise RunError(
            "the text does not come out as it was: the file is whole, so this machine's arithmetic "
            "differs in its last bits from that which wrote it; decompress it there"
        )
    return raw.decode("utf-8")


def _model_digest(trained: Trained) -> bytes:
    both = base_digest(trained.model).encode() + digest_of(trained.tokenizer)
    return hashlib.sha256(both).digest()[:8]
