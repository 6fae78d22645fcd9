"""`tinygrad-edu compress` and `decompress`: a model as a compressor."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from tinygrad_edu import lm

__all__ = ["Compress", "Decompress"]


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise lm.TextError(f"{file} cannot be read ({why}); give a file") from error


def _check_writable(output: Path) -> None:
    """What takes long is not to end with nowhere to go."""
    if output.is_dir():
        raise lm.ConfigError(f"--output is {output}, which is a folder; give the path of a file")
    if not output.parent.is_dir():
        raise lm.ConfigError(
            f"--output is {output}, but {output.parent} is not a folder; make it first, or give "
            "another path"
        )


@dataclass(frozen=True)
class Compress:
    """Compress a text with a model: what it predicts well takes few bits.

    Attributes:
        run_folder: the folder of a run, or a model that comes with the package: python-docs,
            grammar.
        file: the text, UTF-8.
        output: the file to write.
    """

    run_folder: Annotated[Path, tyro.conf.arg(name="run", metavar="RUN"), tyro.conf.Positional]
    file: Annotated[Path, tyro.conf.arg(metavar="FILE"), tyro.conf.Positional]
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])]

    def run(self) -> int:
        """Write it, and say what it takes beside other ways."""
        from tinygrad_edu.files import write_atomically
        from tinygrad_edu.text import TokenizerError

        _check_writable(self.output)
        try:
            content = _read(self.file).decode("utf-8")
        except UnicodeDecodeError as error:
            raise lm.TextError(f"{self.file} is not UTF-8 ({error.reason}); give a text") from error
        try:
            made = lm.compress(lm.load_trained(self.run_folder), content)
        except TokenizerError as error:
            raise lm.TextError(f"{self.file}: {error}") from error
        write_atomically(self.output, made.data)
        print(f"{self.file}: {made.text_bytes:,} bytes, {made.tokens:,} tokens")
        for name, size in (
            ("all tokens alike", made.uniform_bits / 8), ("zlib -9", made.zlib_bytes),
            ("lzma -9e", made.lzma_bytes), ("cross-entropy", made.ideal_bits / 8),
            ("this file", len(made.data)),
        ):  # fmt: skip
            share = f"{8 * size / made.text_bytes:>8.3f} bits/byte" if made.text_bytes else ""
            print(f"  {name:<17}{size:>13,.1f} bytes {share}".rstrip())
        print(f"{self.output}: read it with tinygrad-edu decompress {self.run_folder}")
        return 0


@dataclass(frozen=True)
class Decompress:
    """Read a text that `compress` wrote, with the same model, on the same machine.

    Attributes:
        run_folder: the folder of the run that wrote it.
        file: the compressed file.
        output: the file to write; without it the text is printed.
    """

    run_folder: Annotated[Path, tyro.conf.arg(name="run", metavar="RUN"), tyro.conf.Positional]
    file: Annotated[Path, tyro.conf.arg(metavar="FILE"), tyro.conf.Positional]
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None

    def run(self) -> int:
        """Write or print it."""
        from tinygrad_edu.files import write_atomically
        from tinygrad_edu.lm.display import printable

        if self.output is not None:
            _check_writable(self.output)
        data = _read(self.file)
        try:
            content = lm.decompress(lm.load_trained(self.run_folder), data)
        except lm.RunError as error:
            raise lm.RunError(f"{self.file}: {error}") from error
        if self.output is None:
            print(printable(content))
        else:
            write_atomically(self.output, content.encode("utf-8"))
            print(f"{self.output}: {len(content):,} characters")
        return 0
