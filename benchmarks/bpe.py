"""Training and encoding with byte-level BPE, beside Hugging Face's tokenizers and tiktoken.

    python benchmarks/bpe.py FILE --peers-python PATH   # a Python that has both

FILE is a UTF-8 text. Training is from the text in memory to the learnt merges, `--vocab-size`
tokens in all (theirs by `train_from_iterator` over lines, with its default threads). Encoding is of
the whole text with the vocabulary that was learnt, with an empty cache at each step (emptied
outside the time); theirs by `encode_batch` over lines, tiktoken's by `encode_ordinary`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _rounds

PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""GPT-2's split, which both use."""


def _text(file: str, copies: int) -> str:
    return Path(file).read_text(encoding="utf-8") * copies


def train_ours(file: str, vocab_size: int, copies: int) -> Callable[[], Any]:
    """Our training."""
    from tinygrad_edu.text import train_bpe

    text = _text(file, copies)
    return lambda: train_bpe(text, vocab_size)


def train_tokenizers(file: str, vocab_size: int, copies: int) -> Callable[[], Any]:
    """Hugging Face's training."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    lines = _text(file, copies).splitlines(keepends=True)

    def step() -> Any:
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.train_from_iterator(lines, trainers.BpeTrainer(
            vocab_size=vocab_size, min_frequency=2, show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ))  # fmt: skip
        return made

    return step


def encode_ours(file: str, tokenizer: str, copies: int) -> Callable[[], Any]:
    """Our encoding, with an empty cache."""
    from tinygrad_edu.text import BPETokenizer

    text = _text(file, copies)
    made = BPETokenizer.load(tokenizer)

    def step() -> Any:
        return made.encode_ordinary(text)

    step.between = made._cache.clear  # type: ignore[attr-defined]
    return step


def encode_tokenizers(file: str, tokenizer: str, copies: int) -> Callable[[], Any]:
    """Hugging Face's encoding of all lines as a batch."""
    from tokenizers import Tokenizer

    lines = _text(file, copies).splitlines(keepends=True)
    made = [Tokenizer.from_file(tokenizer)]

    def between() -> None:
        made[0] = Tokenizer.from_file(tokenizer)

    def step() -> Any:
        return made[0].encode_batch(lines)

    step.between = between  # type: ignore[attr-defined]
    return step


def encode_tiktoken(file: str, tokenizer: str, copies: int) -> Callable[[], Any]:
    """tiktoken's encoding."""
    import base64

    import tiktoken

    text = _text(file, copies)
    lines = Path(tokenizer).with_suffix(".tiktoken").read_bytes().split(b"\n")
    ranks = {base64.b64decode(t): int(n) for t, n in (line.split() for line in lines if line)}
    made = tiktoken.Encoding("own", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})
    return lambda: made.encode_ordinary(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    _rounds.add_arguments(parser)
    parser.add_argument("file")
    parser.add_argument("--peers-python", default=sys.executable)
    parser.add_argument("--vocab-size", type=int, default=4096)
    parser.add_argument("--copies", type=int, default=1, help="the text so many times over")
    asked = parser.parse_args()
    file, python = str(Path(asked.file).resolve()), asked.peers_python
    training = {"file": file, "vocab_size": asked.vocab_size, "copies": asked.copies}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "tokenizer.json")
        from tinygrad_edu.text import save_tiktoken, train_bpe

        learnt = train_bpe(_text(file, 1), asked.vocab_size).tokenizer
        learnt.save(path)
        save_tiktoken(learnt, Path(path).with_suffix(".tiktoken"))
        encoding = {"file": file, "tokenizer": path, "copies": asked.copies}
        contenders = [
            _rounds.Contender("train ours", __file__, "train_ours", training),
            _rounds.Contender("train tokenizers", __file__, "train_tokenizers", training,
                              python=python, packages=["tokenizers"]),
            _rounds.Contender("encode ours", __file__, "encode_ours", encoding),
            _rounds.Contender("encode tokenizers", __file__, "encode_tokenizers", encoding,
                              python=python, packages=["tokenizers"]),
            _rounds.Contender("encode tiktoken", __file__, "encode_tiktoken", encoding,
                              python=python, packages=["tiktoken"]),
        ]  # fmt: skip
        marks = [
            _rounds.Mark("train ours", "train tokenizers", 1.0, 2.0),
            _rounds.Mark("encode ours", "encode tokenizers", 1.0, 2.0),
            _rounds.Mark("encode ours", "encode tiktoken", 0.3, 0.5),
        ]
        reached = _rounds.run(
            contenders, marks, rounds=asked.rounds, seconds=asked.seconds, seed=asked.seed,
            title=f"byte-level BPE, vocabulary {asked.vocab_size}",
        )  # fmt: skip
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
