"""A tokenizer of characters as Hugging Face's `tokenizer.json`: a model WordLevel, each word one
symbol. `tokenizers` and `transformers` give the same ids; a symbol that it does not know is an
error there as here, as it has no token for what is unknown.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tinygrad_edu.files import write_atomically
from tinygrad_edu.text.characters import CharTokenizer
from tinygrad_edu.text.errors import TokenizerError

__all__ = ["is_word_level", "read_word_level", "save_word_level"]

_EVERY_SYMBOL = r"[\s\S]"  # `.` leaves line breaks out


def save_word_level(tokenizer: CharTokenizer, path: str | Path) -> None:
    """Write what `tokenizers.Tokenizer.from_file` reads."""
    content: dict[str, Any] = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Split", "pattern": {"Regex": _EVERY_SYMBOL}, "behavior": "Isolated",
            "invert": False,
        },
        "post_processor": None, "decoder": {"type": "Fuse"},
        "model": {
            "type": "WordLevel", "unk_token": "<unk>",
            "vocab": {symbol: i for i, symbol in enumerate(tokenizer.symbols)},
        },
    }  # fmt: skip
    write_atomically(Path(path), json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def is_word_level(content: Any) -> bool:
    """Whether a tokenizer.json is of this kind."""
    model = content.get("model") if isinstance(content, dict) else None
    return isinstance(model, dict) and model.get("type") == "WordLevel"


def read_word_level(path: str | Path) -> CharTokenizer:
    """Read what `save_word_level` wrote.

    Raises:
        TokenizerError: words of several symbols, ids with gaps, or text that is changed or split in
            another way before.
    """
    content = json.loads(Path(path).read_bytes())
    split, vocab = content.get("pre_tokenizer"), content["model"].get("vocab")
    pattern = split.get("pattern") if isinstance(split, dict) else None
    if content.get("normalizer") is not None or pattern != {"Regex": _EVERY_SYMBOL}:
        raise TokenizerError(
            f"{path} is of whole words (WordLevel), or changes the text before; of that kind only "
            "a tokenizer of single symbols is read"
        )
    if not isinstance(vocab, dict) or set(vocab.values()) != set(range(len(vocab))):
        raise TokenizerError(f"{path} does not number its symbols from 0 without gaps")
    return CharTokenizer(sorted(vocab, key=vocab.__getitem__))
