"""`tinygrad-edu prepare`: texts of any size into a folder of tokens to train from."""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from tinygrad_edu.text.token_writing import Progress


@dataclass(frozen=True)
class Prepare:
    """Turn texts of any size into tokens once, to train from without holding them in memory.

    What is stopped (Ctrl-C, a crash) goes on when the same command is given again. Train with
    train --corpus FOLDER.

    Attributes:
        files: the texts, UTF-8: files, patterns, folders, or the name of a corpus.
        output: the folder to write: tokens.bin, tokenizer.json, prepared.json.
        tokenizer: characters; bpe, learnt from the texts; or the path of a tokenizer:
            tokenizer.json, a .tiktoken file, a folder with vocab.json and merges.txt.
        vocab_size: tokens that bpe learns.
        validation_fraction: the share at the end of the texts that bpe does not learn from; give
            train the same.
        separator: a special token to put behind each text, such as '<|endoftext|>'; without one
            the texts are joined, as train joins them.
    """

    files: Annotated[tuple[str, ...], tyro.conf.arg(metavar="FILE"), tyro.conf.Positional]
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])]
    tokenizer: str = "characters"
    vocab_size: int = 1024
    validation_fraction: float = 0.1
    separator: str = ""

    def run(self) -> int:
        """Do it, with a live line on a terminal; 130 where Ctrl-C ended it."""
        from tinygrad_edu import text
        from tinygrad_edu.lm.config import TrainConfig
        from tinygrad_edu.lm.lock import held
        from tinygrad_edu.text.corpora import stream_corpus
        from tinygrad_edu.text.preparing import check_folder

        TrainConfig(vocab_size=self.vocab_size, validation_fraction=self.validation_fraction)
        stream_corpus(self.files).sizes()  # what cannot be read leaves no folder behind
        asked = text.Preparation(
            self.files, self.tokenizer, self.vocab_size, self.validation_fraction, self.separator
        )
        if self.tokenizer not in ("characters", "bpe"):
            text.load_tokenizer(self.tokenizer)
        check_folder(self.output)
        self.output.mkdir(parents=True, exist_ok=True)
        line = _LiveLine()
        with held(self.output, "prepared", "--output"):
            try:
                made = text.prepare(asked, self.output, line.told)
            except KeyboardInterrupt:
                line.close()
                print("Stopped. What is done is kept; the same command goes on with it.")
                return 130
            finally:
                line.close()
        header = made.file.header
        print(
            f"{self.output}: {header.count:,} tokens of {header.vocab_size:,} different ones, from "
            f"{made.characters:,} characters\nTo train from it:\n"
            f"  tinygrad-edu train --corpus {shlex.quote(str(self.output))}"
        )
        return 0


class _LiveLine:
    """How far it is: on a terminal one line that is written over, else a line every 30 seconds."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self.pause = 0.2 if self.live else 30.0
        self.last = time.monotonic()
        self.width = 0

    def told(self, progress: Progress) -> None:
        """Write it, where it is time to."""
        from tinygrad_edu.lm.display import duration

        now = time.monotonic()
        if now - self.last < self.pause:
            return
        self.last = now
        left = "" if progress.left is None else f", {duration(progress.left)} left"
        tokens = f", {progress.tokens:,} tokens" if progress.tokens else ""
        said = f"{progress.doing}: {progress.share:.0%}{tokens}{left}"
        if self.live:
            sys.stderr.write("\r" + said.ljust(self.width))
            self.width = len(said)
        else:
            sys.stderr.write(said + "\n")
        sys.stderr.flush()

    def close(self) -> None:
        """Wipe the line."""
        if self.live and self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            sys.stderr.flush()
            self.width = 0
