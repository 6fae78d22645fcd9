"""The command `tinygrad-edu`: reads arguments, calls the room that does the work, prints errors.

An error of ours is one line, `tinygrad-edu: ...`, without a traceback; what we did not foresee
keeps its traceback.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = "tinygrad-edu"
DESCRIPTION = "An autograd engine one can see through, from two floats to a language model."
OURS = (
    "tinygrad_edu.lm.",
    "tinygrad_edu.text.",
    "tinygrad_edu.demos",
    "tinygrad_edu.parallel.",
    "tinygrad_edu.drawing.",
    "tinygrad_edu.learn.",
    "tinygrad_edu.cli.",
)
"""Rooms whose errors are about what the user gave; those of other rooms are mistakes of ours."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv`, by default the process's own; gives the exit code.

    0 done, 1 training diverged, 2 bad input, 130 ended by Ctrl-C and 143 by SIGTERM (a
    training run is saved first), 141 trained to the end while nobody read the output any more.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    _never_fail_to_print()
    from tinygrad_edu.cli.codes import BAD_INPUT, BY_SIGNAL, DIVERGED, FINISHED

    try:
        code: int = parse(arguments).run()
    except SystemExit as stop:  # argparse's way to end: help was printed, or an option was wrong
        return stop.code if isinstance(stop.code, int) else BAD_INPUT
    except KeyboardInterrupt:
        print(f"\n{PROGRAM}: stopped", file=sys.stderr)
        return BY_SIGNAL + signal.SIGINT
    except BrokenPipeError:  # whoever read our output, `head` say, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINISHED
    except MemoryError as error:
        reason = f" ({error})" if str(error) else ""
        print(
            f"{PROGRAM}: out of memory{reason}; train with a smaller --batch-size, --block-size "
            "or --embed-dim",
            file=sys.stderr,
        )
        return BAD_INPUT
    except OSError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return BAD_INPUT
    except Exception as error:
        if not type(error).__module__.startswith(OURS):
            raise
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return DIVERGED if isinstance(error, ArithmeticError) else BAD_INPUT
    return code


@dataclass(frozen=True)
class _Source:
    """The two options of `train` and `finetune` that say where the others come from."""

    resume: Path | None = None
    config: Path | None = None


def parse(arguments: list[str]) -> Any:
    """The command that `arguments` name, as an instance of its dataclass.

    `train --resume RUN` starts from the run's options, so these are read first and the rest after;
    so does `finetune`.
    """
    import tyro

    from tinygrad_edu.cli.commands import Command, Train
    from tinygrad_edu.cli.finetuning import Finetune
    from tinygrad_edu.cli.optional import optional_values

    settings: dict[str, Any] = {
        "prog": PROGRAM,
        "description": DESCRIPTION,
        "registry": optional_values(),
    }
    if arguments[:1] in (["train"], ["finetune"]):
        found, _ = tyro.cli(
            _Source, args=arguments[1:], return_unknown_args=True, add_help=False, **settings
        )
        if arguments[0] == "train":
            train = Train(resume=found.resume, config=found.config)
            settings["default"] = Train(train.inherited(), found.resume, found.config)
        else:
            settings["default"] = Finetune.default(found.resume, found.config)
    flat = (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes)
    return tyro.cli(Command, args=arguments, config=flat, **settings)


def _never_fail_to_print() -> None:
    """On a console that lacks a symbol show a question mark rather than stop."""
    for output in (sys.stdout, sys.stderr):
        reconfigure = getattr(output, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
