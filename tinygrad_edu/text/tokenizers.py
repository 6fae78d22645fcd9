"""Any tokenizer, by its file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tinygrad_edu.text.bpe import BPETokenizer
from tinygrad_edu.text.bpe_files import load_gpt2, load_tiktoken
from tinygrad_edu.text.character_files import is_word_level, read_word_level
from tinygrad_edu.text.characters import FILE_TYPE, CharTokenizer
from tinygrad_edu.text.errors import TokenizerError

__all__ = ["Tokenizer", "digest_of", "load_tokenizer"]

Tokenizer = CharTokenizer | BPETokenizer


def digest_of(tokenizer: Tokenizer) -> bytes:
    """SHA-256 of what decides a tokenizer's ids, 32 bytes, whatever file it came from."""
    content: object = {"symbols": getattr(tokenizer, "symbols", None)}
    if isinstance(tokenizer, BPETokenizer):
        content = {
            "merges": tokenizer.merges,
            "special": sorted(tokenizer.special_tokens.items()),
            "pattern": tokenizer.pattern,
            **({} if tokenizer.ids is None else {"ids": tokenizer.ids}),
        }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).digest()


def load_tokenizer(path: str | Path) -> Tokenizer:
    """Read tokenizer.json (of characters, in our form or Hugging Face's, or byte-level BPE), a
    .tiktoken file, or a folder with tokenizer.json, or with vocab.json and merges.txt (encoder.json
    and vocab.bpe).

    Raises:
        TokenizerError: none of these.
    """
    path = Path(path)
    if path.is_dir():
        for vocab, merges in (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe")):
            if (path / vocab).exists() and (path / merges).exists():
                return load_gpt2(path / vocab, path / merges)
        if not (path / "tokenizer.json").exists():
            raise TokenizerError(
                f"the folder {path} holds neither tokenizer.json, nor vocab.json and merges.txt"
            )
        path = path / "tokenizer.json"
    if path.suffix == ".tiktoken":
        return load_tiktoken(path)
    content = _content(path)
    if is_word_level(content):
        return read_word_level(path)
    return CharTokenizer.load(path) if _of_characters(content) else BPETokenizer.load(path)


def _content(path: Path) -> object:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None  # its own loader says what is wrong with it


def _of_characters(content: object) -> bool:
    return (
        not isinstance(content, dict)
        or content.get("type") == FILE_TYPE
        or ("model" not in content)
    )
