"""The commands as dataclasses: their fields are the options, their docstrings the help.

tyro makes the command line from them. What a command does is one call into the room that does it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from tinygrad_edu import lm
from tinygrad_edu.cli.chatting import ChatCommand
from tinygrad_edu.cli.codes import BY_SIGNAL, FINISHED, UNSEEN
from tinygrad_edu.cli.compression import Compress, Decompress
from tinygrad_edu.cli.exporting import Export
from tinygrad_edu.cli.finetuning import Finetune, Merge
from tinygrad_edu.cli.lr_range import LrRange
from tinygrad_edu.cli.preparing import Prepare
from tinygrad_edu.cli.report import Report
from tinygrad_edu.cli.sampling import Sample
from tinygrad_edu.cli.scoring import Eval


@dataclass(frozen=True)
class Train:
    """Train a small language model on text, into a run folder under runs/.

    Without options it learns Python's own documentation, in about a minute.

    Ctrl-C or SIGTERM saves it. With its output closed (`| head`) it goes on: 141.

    Attributes:
        resume: go on with the run in this folder, with its options; those given here replace them.
        config: take the options from this config.toml; those given here replace them.
        profile: say where the time and memory of one step go, by module and operation, and train
            nothing.
    """

    options: Annotated[lm.TrainConfig, tyro.conf.arg(name="")] = field(
        default_factory=lm.TrainConfig
    )
    resume: Path | None = None
    config: Path | None = None
    profile: bool = False

    def inherited(self) -> lm.TrainConfig:
        """The options to start from: those of the run or file named, else the defaults."""
        if self.resume is not None and self.config is not None:
            raise lm.ConfigError("--resume and --config were both given; a run has its own config")
        if self.resume is not None:
            return lm.read_config(self.resume)
        if self.config is not None:
            return lm.read_config_file(self.config)
        return lm.TrainConfig()

    def run(self) -> int:
        """Train, shown in the terminal; where that is closed, to the end nevertheless."""
        from tinygrad_edu.lm.display import TerminalReporter

        if self.profile:
            print(lm.profile_step(self.options).table())
            return FINISHED
        reporter = TerminalReporter()
        if self.resume is not None:
            result = lm.resume(self.resume, self.options, reporter)
        else:
            result = lm.train(self.options, reporter)
        if result.interrupted:
            return BY_SIGNAL + (result.signal or 0)
        return UNSEEN if reporter.lost else FINISHED


@dataclass(frozen=True)
class Demo:
    """Run a demo by its number, or list them.

    Attributes:
        number: which one; without it all are listed.
    """

    number: Annotated[int | None, tyro.conf.arg(metavar="N"), tyro.conf.Positional] = None

    def run(self) -> int:
        """Run the demo, or print one line a demo."""
        from tinygrad_edu import demos

        if self.number is not None:
            demos.run(self.number)
            return FINISHED
        for demo in demos.list_demos():
            print(f"{demo.number:>3}  {demo.title} ({demo.seconds} s)")
        return FINISHED


@dataclass(frozen=True)
class Draw:
    """Draw an expression, or the result of a script, as a picture or a tree.

    `draw 'tanh(a*b)' --set a=2 b=-3 -o f.svg` draws the expression; `draw train.py` runs the script
    and draws its variable loss.

    Attributes:
        what: an expression of numbers, names, + - * / ** and functions such as tanh; or the path of
            a script, ending in .py.
        set: NAME=NUMBER for each name of the expression.
        output: the file to write: .svg, .png, .pdf, .dot or .html. Without it a tree is printed.
        name: the script's variable to draw.
        backward: show gradients: run the backward pass, unless the script has.
        collapse: what is folded: auto, none, all, a number of levels to open, or a fraction such as
            0.5.
        direction: LR or TB: left to right, or top to bottom.
        overlay: colours by this.
    """

    what: Annotated[str, tyro.conf.arg(metavar="WHAT"), tyro.conf.Positional]
    set: tuple[str, ...] = ()
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    name: str = ""
    backward: bool = True
    collapse: str = "auto"
    direction: Literal["LR", "TB"] = "LR"
    overlay: Literal["gradient", "nan", "memory", "flops", "error"] | None = None

    def run(self) -> int:
        """Write the file, or print the tree."""
        from tinygrad_edu.cli import draw

        options: dict[str, Any] = {"direction": self.direction, "overlay": self.overlay}
        options["collapse"] = draw.collapse_of(self.collapse)
        made = draw.drawing_of(self.what, self.set, self.name, self.backward, options)
        if self.output is None:
            print(made.tree())
        else:
            print(f"{made.save(self.output)}: {made!r}")
        return FINISHED


@dataclass(frozen=True)
class Debug:
    """Run a script, then step through the backward pass of its result, forward and back.

    n is the next event, rn the one before, b and c stop where something happens, h helps. If the
    script fails, the prompt opens where it did.

    Attributes:
        script: the script to run.
        arguments: what it finds in sys.argv.
        name: the variable to step from; without it loss, or the last result of one number.
    """

    script: Annotated[Path, tyro.conf.arg(metavar="SCRIPT"), tyro.conf.Positional]
    arguments: Annotated[tuple[str, ...], tyro.conf.arg(metavar="ARG"), tyro.conf.Positional] = ()
    name: str = ""

    def run(self) -> int:
        """Run it and prompt."""
        from tinygrad_edu.cli.debug import debug_script

        return debug_script(self.script, self.name, self.arguments)


@dataclass(frozen=True)
class Quiz:
    """Answer questions on a backward pass: numbers, formulas, shapes, before they are shown.

    Attributes:
        what: an expression such as 'tanh(a*b)', or the path of a script, ending in .py.
        set: NAME=NUMBER for each name of the expression.
        name: the script's variable to start from.
        seed: another seed asks other questions.
        questions: how many at most.
    """

    what: Annotated[str, tyro.conf.arg(metavar="WHAT"), tyro.conf.Positional]
    set: tuple[str, ...] = ()
    name: str = ""
    seed: int = 0
    questions: int = 10

    def run(self) -> int:
        """Ask and grade in the terminal."""
        from tinygrad_edu.cli.learn import put_questions

        put_questions(self.what, self.set, self.name, self.seed, self.questions)
        return FINISHED


@dataclass(frozen=True)
class Worksheet:
    """Write a worksheet: a backward pass with blanks, and a key apart.

    Attributes:
        what: an expression such as 'tanh(a*b)', or the path of a script, ending in .py.
        set: NAME=NUMBER for each name of the expression.
        output: the Markdown file to write; the key stands beside it, as .key.md.
        name: the script's variable to start from.
        blanks: the share of formulas and numbers that is left blank.
        seed: another seed leaves others blank.
        drawing: also write a drawing of the graph, and show it in the sheet.
    """

    what: Annotated[str, tyro.conf.arg(metavar="WHAT"), tyro.conf.Positional]
    set: tuple[str, ...] = ()
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("worksheet.md")
    name: str = ""
    blanks: float = 0.5
    seed: int = 0
    drawing: bool = False

    def run(self) -> int:
        """Write the files, and say which."""
        from tinygrad_edu.cli.learn import write_worksheet

        written = write_worksheet(
            self.what, self.set, self.name, self.output, blanks=self.blanks, seed=self.seed,
            drawing=self.drawing,
        )  # fmt: skip
        print(", ".join(map(str, written)))
        return FINISHED


@dataclass(frozen=True)
class HuntCommand:
    """Hunt a bug: a backward pass with one mistake in it.

    Attributes:
        level: from 1, a product of a sum, to 28, a head of attention, and beyond.
        seed: another seed hides it elsewhere.
    """

    level: Annotated[int, tyro.conf.arg(metavar="LEVEL"), tyro.conf.Positional] = 1
    seed: int = 0

    def run(self) -> int:
        """Look, check and answer in the terminal."""
        from tinygrad_edu.cli.learn import hunt

        hunt(self.level, self.seed)
        return FINISHED


@dataclass(frozen=True)
class TrainTokenizer:
    """Learn a byte-level BPE vocabulary from text files.

    Attributes:
        files: the texts, UTF-8.
        vocab_size: tokens in all: 256 bytes, merges and special tokens.
        output: where tokenizer.json is written, which other tools read as well.
        special: special tokens, such as '<|endoftext|>'.
        min_frequency: how often a pair has to be met to be joined.
    """

    files: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="FILE"), tyro.conf.Positional]
    vocab_size: int = 4096
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("tokenizer.json")
    special: tuple[str, ...] = ("<|endoftext|>",)
    min_frequency: int = 2

    def run(self) -> int:
        """Train and write the file; Ctrl-C writes what was learnt so far."""
        from tinygrad_edu.cli.tokenizer import train

        return train(
            self.files, self.vocab_size, self.output, self.special, self.min_frequency
        )


@dataclass(frozen=True)
class Encode:
    """Print the ids of a text.

    Attributes:
        tokenizer: tokenizer.json, a .tiktoken file, or a folder with vocab.json and merges.txt.
        text: what to encode; special tokens in it are ordinary text.
    """

    tokenizer: Annotated[Path, tyro.conf.arg(metavar="TOKENIZER"), tyro.conf.Positional]
    text: Annotated[str, tyro.conf.arg(metavar="TEXT"), tyro.conf.Positional]

    def run(self) -> int:
        """Print them, with a space between."""
        from tinygrad_edu.cli.tokenizer import encode

        encode(self.tokenizer, self.text)
        return FINISHED


@dataclass(frozen=True)
class Decode:
    """Print the text of ids.

    Attributes:
        tokenizer: tokenizer.json, a .tiktoken file, or a folder with vocab.json and merges.txt.
        ids: the ids.
    """

    tokenizer: Annotated[Path, tyro.conf.arg(metavar="TOKENIZER"), tyro.conf.Positional]
    ids: Annotated[tuple[int, ...], tyro.conf.arg(metavar="ID"), tyro.conf.Positional]

    def run(self) -> int:
        """Print it."""
        from tinygrad_edu.cli.tokenizer import decode

        decode(self.tokenizer, self.ids)
        return FINISHED


@dataclass(frozen=True)
class ShowTokens:
    """Show a text in tokens, each in a colour of its own.

    Attributes:
        tokenizer: tokenizer.json, a .tiktoken file, or a folder with vocab.json and merges.txt.
        text: what to show.
        word: also show how this word is joined, a merge a line.
        beside: another tokenizer, to compare bytes per token.
        files: texts to count bytes per token of as well, such as one a language.
    """

    tokenizer: Annotated[Path, tyro.conf.arg(metavar="TOKENIZER"), tyro.conf.Positional]
    text: Annotated[str, tyro.conf.arg(metavar="TEXT"), tyro.conf.Positional]
    word: str = ""
    beside: Path | None = None
    files: tuple[Path, ...] = ()

    def run(self) -> int:
        """Print it."""
        from tinygrad_edu.cli.tokenizer import show

        show(self.tokenizer, self.text, self.word, self.beside, self.files)
        return FINISHED


TokenizerAction = (
    Annotated[TrainTokenizer, tyro.conf.subcommand("train")]
    | Annotated[Encode, tyro.conf.subcommand("encode")]
    | Annotated[Decode, tyro.conf.subcommand("decode")]
    | Annotated[ShowTokens, tyro.conf.subcommand("show")]
)


@dataclass(frozen=True)
class Tokenizer:
    """Train a tokenizer, encode and decode with one, look at its tokens."""

    action: TokenizerAction

    def run(self) -> int:
        """Do what was asked."""
        return self.action.run()


@dataclass(frozen=True)
class Info:
    """Say what is installed and what computes, and what is missing and how to get it."""

    def run(self) -> int:
        """Print one fact a line."""
        from tinygrad_edu.cli.info import HEADING, facts

        for heading, fact in facts():
            print(f"{heading:<{HEADING}}{fact}")
        return FINISHED


Command = (
    Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Sample, tyro.conf.subcommand("sample")]
    | Annotated[Eval, tyro.conf.subcommand("eval")]
    | Annotated[Compress, tyro.conf.subcommand("compress")]
    | Annotated[Decompress, tyro.conf.subcommand("decompress")]
    | Annotated[Finetune, tyro.conf.subcommand("finetune")]
    | Annotated[ChatCommand, tyro.conf.subcommand("chat")]
    | Annotated[Merge, tyro.conf.subcommand("merge")]
    | Annotated[Demo, tyro.conf.subcommand("demo")]
    | Annotated[Draw, tyro.conf.subcommand("draw")]
    | Annotated[Debug, tyro.conf.subcommand("debug")]
    | Annotated[Quiz, tyro.conf.subcommand("quiz")]
    | Annotated[Worksheet, tyro.conf.subcommand("worksheet")]
    | Annotated[HuntCommand, tyro.conf.subcommand("hunt")]
    | Annotated[Prepare, tyro.conf.subcommand("prepare")]
    | Annotated[Tokenizer, tyro.conf.subcommand("tokenizer")]
    | Annotated[Export, tyro.conf.subcommand("export")]
    | Annotated[Report, tyro.conf.subcommand("report")]
    | Annotated[LrRange, tyro.conf.subcommand("lr-range")]
    | Annotated[Info, tyro.conf.subcommand("info")]
)
