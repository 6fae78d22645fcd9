"""`tinygrad-edu tokenizer`: train one, encode, decode, and look at tokens."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tinygrad_edu.text import (
    BPETokenizer,
    TokenizerError,
    load_tokenizer,
    train_bpe,
)
from tinygrad_edu.text.bpe_training import Progress
from tinygrad_edu.text.tokens_shown import ShownTokens, bytes_per_token, shown_merges

__all__ = ["decode", "encode", "show", "train"]


def _bpe(path: Path) -> BPETokenizer:
    found = load_tokenizer(path)
    if not isinstance(found, BPETokenizer):
        raise TokenizerError(f"{path} is a tokenizer of characters, whose tokens are its symbols")
    return found


def train(
    files: Sequence[Path], vocab_size: int, output: Path, special: Sequence[str],
    min_frequency: int,
) -> int:  # fmt: skip
    """Train on files and write tokenizer.json; the exit code, 130 where Ctrl-C ended it."""
    live = sys.stderr.isatty()

    def told(progress: Progress) -> None:
        if live:
            sys.stderr.write(
                f"\r{progress.merges:,} of {progress.wanted:,} merges, {progress.left:.0f} s left  "
            )
            sys.stderr.flush()

    learned = train_bpe(
        (_text_of(file) for file in files), vocab_size, special_tokens=special,
        min_frequency=min_frequency, progress=told,
    )  # fmt: skip
    if live:
        sys.stderr.write("\r" + " " * 60 + "\r")
    learned.tokenizer.save(output)
    tokenizer = learned.tokenizer
    why = f" ({learned.reason})" if learned.reason else ""
    print(
        f"{output}: {tokenizer.vocab_size:,} tokens, {len(tokenizer.merges):,} merges from "
        f"{learned.chunks:,} different chunks{why}"
    )
    return 130 if learned.reason == "interrupted" else 0


def _text_of(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise TokenizerError(
            f"{file} is not UTF-8 (byte {error.start}): save it as UTF-8, as tokens are its bytes"
        ) from error


def encode(tokenizer: Path, text: str) -> None:
    """Print the ids of a text."""
    print(" ".join(map(str, _bpe(tokenizer).encode(text, disallowed_special=()))))


def decode(tokenizer: Path, ids: Sequence[int]) -> None:
    """Print the text of ids."""
    print(_bpe(tokenizer).decode(list(ids)))


def show(
    tokenizer: Path, text: str, word: str, beside: Path | None, files: Sequence[Path]
) -> None:
    """Print a text in tokens, a word's merges, and bytes per token of texts, beside another
    tokenizer's.
    """
    made = _bpe(tokenizer)
    shown = ShownTokens.of(made, text)
    print(shown.coloured() if sys.stdout.isatty() else shown.plain())
    size = len(text.encode("utf-8", "replace"))
    count = max(1, len(shown.ids))
    print(f"{len(shown.ids)} tokens, {size} bytes: {size / count:.2f} bytes per token")
    if word:
        print(f"\n{shown_merges(made, word)}")
    if beside is None and not files:
        return
    both = {tokenizer.name: made}
    if beside is not None:
        name = beside.name if beside.name != tokenizer.name else str(beside)
        both[name] = _bpe(beside)
    texts = {"TEXT": text} | {str(file): _text_of(file) for file in files}
    print()
    print("\n".join(bytes_per_token(both, texts)))
