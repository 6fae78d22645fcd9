"""The tokenizer of the package `glassllm`, with the methods that ours have.

Nothing of the package is copied: where it is installed, its own tokenizer encodes and decodes.
"""

from __future__ import annotations

import importlib
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_edu.lm.errors import RunError
from tinygrad_edu.lm.glassllm import weights_folder
from tinygrad_edu.text import TokenizerError

__all__ = ["MODELS", "GlassTokenizer", "load_glass_tokenizer"]

MODELS = {"glassllm-en": "en", "glassllm-pt": "pt"}
"""The names of its models, as a command takes them, and their languages."""


class GlassTokenizer:
    """The package's own tokenizer (BPE of characters), with the methods that ours have.

    Args:
        inner: a `glassllm.Tokenizer`.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        special = len(inner.vocab) - len(inner.alphabet) - len(inner.merges)
        self._special = set(inner.vocab[:special])

    @property
    def vocab_size(self) -> int:
        """Tokens in all."""
        return int(self._inner.vocab_size)

    @property
    def symbols(self) -> str:
        """The characters that it knows, in the order of their ids."""
        return "".join(self._inner.alphabet)

    def encode(self, text: str) -> list[int]:
        """The ids of a text in Unicode's NFC.

        Raises:
            TokenizerError: a symbol that it does not know (its own would be given as <unk>).
        """
        ids = [int(i) for i in self._inner.encode(text)]
        if self._inner.unk_id in ids:
            known = {*self.symbols, " "}
            unknown = sorted({c for c in unicodedata.normalize("NFC", text) if c not in known})
            raise TokenizerError(
                f"{', '.join(map(repr, unknown))} is not among the {len(known)} symbols of this "
                "tokenizer; leave it out"
            )
        return ids

    def encode_array(self, text: str) -> NDArray[np.int64]:
        """As `encode`, as an array."""
        return np.array(self.encode(text), dtype=np.int64)

    def decode(self, ids: Sequence[int] | NDArray[np.integer[Any]]) -> str:
        """The text of ids; special tokens have none."""
        return "".join(self.token_bytes(int(i)).decode("utf-8") for i in ids)

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token, in UTF-8; none of a special one.

        Raises:
            TokenizerError: there is no such id.
        """
        if not 0 <= token < self.vocab_size:
            raise TokenizerError(
                f"{token} is not a token: this vocabulary has the ids 0 to {self.vocab_size - 1}"
            )
        if self._inner.vocab[token] in self._special:
            return b""
        return str(self._inner.decode([token])).encode("utf-8")

    def stream(self) -> GlassStream:
        """A decoder for ids that come one by one."""
        return GlassStream(self)


class GlassStream:
    """Ids to text, token by token: each is whole characters."""

    def __init__(self, tokenizer: GlassTokenizer) -> None:
        self._tokenizer = tokenizer

    def feed(self, token: int) -> str:
        """The token's text."""
        return self._tokenizer.decode([token])

    def flush(self) -> str:
        """Nothing."""
        return ""


def load_glass_tokenizer(language: str, folder: str | Path | None = None) -> GlassTokenizer:
    """The tokenizer of a language.

    Args:
        language: "en" or "pt".
        folder: of LANGUAGE.tokenizer.json; by default the installed package's.

    Raises:
        RunError: the package is not installed; the file is missing or is none of its tokenizers.
    """
    where = weights_folder() if folder is None else Path(folder)
    path = where / f"{language}.tokenizer.json"
    try:
        return GlassTokenizer(importlib.import_module("glassllm").Tokenizer.load(path))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path} is no tokenizer of glassllm's ({error!r})") from error
