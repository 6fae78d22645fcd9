"""`tinygrad-edu finetune` and `merge`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from tinygrad_edu import lm
from tinygrad_edu.cli.codes import BY_SIGNAL, FINISHED, UNSEEN
from tinygrad_edu.lm.finetune_config import default_rate, read_finetune_config
from tinygrad_edu.lm.finetuning import ADAPTER


@dataclass(frozen=True)
class Finetune:
    """Let a trained model learn to answer, from conversations.

    Only what the assistant says, and the mark that ends it, is learnt. All weights learn, or with
    --lora-rank adapters beside a base that stays as it is.

    Attributes:
        base: the folder of a run, one in Hugging Face's layout, or a model that comes with the
            package.
        data: .jsonl or .json files, a conversation a row: {"messages": [{"role": "user",
            "content": …}, …]}, or {"instruction": …, "input": …, "output": …}.
        resume: go on with the fine-tuning run in this folder, with its options; those given here
            replace them.
        config: take the options from this config.toml; those given here replace them.
        run_folder: the folder of the run; by default the next free one under runs/.
        lora_rank: of the adapters; 0 trains all weights.
        lora_alpha: their scale is alpha/rank.
        lora_targets: names or patterns of the layers that get one.
        epochs: how often to read the conversations.
        steps: updates in all, in the place of epochs.
        batch_size: conversations at a time.
        accumulate: batches whose gradients are added up for one step.
        learning_rate: by default 5e-4, or with adapters 5e-3.
        weight_decay: AdamW's, on matrices only.
        validation_fraction: the share of the conversations that is held out; equal ones are on one
            side.
        validation_interval: steps from one validation, with an answer, to the next.
        patience: validations that may be no better before training stops; 0 never stops.
        sample_length: tokens of the answer at each validation.
        seed: decides adapters and order.
        threads: workers that share each batch; 0 takes one a core.
    """

    base: Annotated[str, tyro.conf.arg(metavar="BASE"), tyro.conf.Positional] = ""
    data: tuple[str, ...] = ()
    resume: Path | None = None
    config: Path | None = None
    run_folder: Annotated[Path | None, tyro.conf.arg(name="run")] = None
    lora_rank: int = 0
    lora_alpha: float = 16.0
    lora_targets: tuple[str, ...] = ("*",)
    epochs: float | None = None
    steps: int = 0
    batch_size: int = 8
    accumulate: int = 1
    learning_rate: float = 0.0
    weight_decay: float = 0.0
    validation_fraction: float = 0.1
    validation_interval: int = 50
    patience: int = 0
    sample_length: int = 60
    seed: int = 1
    threads: int = 0

    def run(self) -> int:
        """Show one example with its mask, fine-tune, and say what was saved."""
        from rich.console import Console

        from tinygrad_edu.lm.chat_shown import share, shown
        from tinygrad_edu.lm.display import TerminalReporter

        reporter = TerminalReporter()
        options = self._options()
        if self.resume is not None:
            result = lm.resume_finetuning(self.resume, options, reporter)
        else:
            if not options.base or not self.data:
                raise lm.ConfigError(
                    "a base and --data are needed: tinygrad-edu finetune BASE --data chat.jsonl"
                )
            prepared = lm.prepare_finetuning(options)
            example = prepared.division.training[0].kept
            console = Console(highlight=False)
            console.print(f"One example, learnt is what stands between >> and <<: {share(example)}")
            console.print(shown(prepared.base.tokenizer, example))
            console.print()
            result = lm.finetune(prepared, reporter)
        if result.interrupted:
            return BY_SIGNAL + (result.signal or 0)
        _say_what_was_saved(result.run)
        return UNSEEN if reporter.lost else FINISHED

    @classmethod
    def default(cls, resume: Path | None, config: Path | None) -> Finetune:
        """The command before anything else is given: the options of the run or file named."""
        inherited = _inherited(resume, config)
        if inherited is None:
            return cls()
        same = {name: getattr(inherited, name) for name in _SAME}
        if inherited.learning_rate == default_rate(inherited.lora_rank):
            same["learning_rate"] = 0.0  # so that it goes with --lora-rank
        return cls(data=inherited.corpus, resume=resume, config=config, **same)

    def _options(self) -> lm.FinetuneConfig:
        """The run's or the file's, with what was given in their place."""
        given: dict[str, Any] = {name: getattr(self, name) for name in _SAME}
        given["run"] = self.run_folder
        if self.data:
            given["corpus"] = self.data
        inherited = _inherited(self.resume, self.config)
        return inherited.changed(**given) if inherited else lm.FinetuneConfig(**given)


_SAME = (
    "base", "lora_rank", "lora_alpha", "lora_targets", "epochs", "steps", "batch_size",
    "accumulate", "learning_rate", "weight_decay", "validation_fraction", "validation_interval",
    "patience", "sample_length", "seed", "threads",
)  # fmt: skip
"""Options that have one name here and in `lm.FinetuneConfig`."""


def _inherited(resume: Path | None, config: Path | None) -> lm.FinetuneConfig | None:
    """The options to start from, where a run or a file was named."""
    if resume is not None and config is not None:
        raise lm.ConfigError("--resume and --config were both given; a run has its own config")
    if config is not None:
        return read_finetune_config(config)
    if resume is None:
        return None
    found = lm.read_config(resume)
    if not isinstance(found, lm.FinetuneConfig):
        raise lm.RunError(f"{resume} is no fine-tuning run; go on with it with train --resume")
    return found


def _say_what_was_saved(run: Path) -> None:
    """The files with their sizes, and the two commands that use them."""
    files = [run / "model.safetensors", run / ADAPTER / "adapter_model.safetensors"]
    for path in files:
        if path.exists():
            print(f"saved {path}: {path.stat().st_size:,} bytes")
    print(f"talk with it:  tinygrad-edu chat {run}")
    print(f"one model:     tinygrad-edu merge {run} --output FOLDER")


@dataclass(frozen=True)
class Merge:
    """Put the adapters of a fine-tuning run into its model's weights.

    Attributes:
        run_folder: the folder of the run.
        output: the folder to write, which is read wherever a run is: sample, chat, export.
    """

    run_folder: Annotated[Path, tyro.conf.arg(name="run", metavar="RUN"), tyro.conf.Positional]
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])]

    def run(self) -> int:
        """Write it."""
        folder = lm.merge(self.run_folder, self.output)
        print(f"{folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}")
        print(f"talk with it:  tinygrad-edu chat {folder}")
        return FINISHED
