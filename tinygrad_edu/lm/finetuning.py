"""Fine-tuning: a trained model learns to answer, from conversations.

A run of its own, with all that other runs have (checkpoints, Ctrl-C, patience, curve): its lessons
are conversations of which only the answers are scored (`chat_examples`), its first weights those of
a base. All weights learn, or adapters beside a base that stays as it is (`nn.add_lora`); then a
checkpoint holds the adapters alone, and the run names its base by path and digest.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tinygrad_edu import nn
from tinygrad_edu.lm import allocator, checkpoint, shipped
from tinygrad_edu.lm.adapters import base_digest, save_adapter
from tinygrad_edu.lm.chat import answer
from tinygrad_edu.lm.chat_examples import Division, Examples, Padded, divide, examples_of
from tinygrad_edu.lm.chat_template import check_tokenizer, prompt
from tinygrad_edu.lm.conversations import read_conversations
from tinygrad_edu.lm.cost import parameters_by_group, step_cost
from tinygrad_edu.lm.data import Split, stream
from tinygrad_edu.lm.errors import ConfigError, ConversationError, RunError
from tinygrad_edu.lm.finetune_config import FinetuneConfig
from tinygrad_edu.lm.finetune_plan import FinetunePlan
from tinygrad_edu.lm.going_on import newest_state, remarks
from tinygrad_edu.lm.interrupt import limited_threads
from tinygrad_edu.lm.learner import Learner
from tinygrad_edu.lm.lock import held
from tinygrad_edu.lm.machine import blas
from tinygrad_edu.lm.material import Material, anchored, opening
from tinygrad_edu.lm.pace import Clock
from tinygrad_edu.lm.reporting import Reporter, Result
from tinygrad_edu.lm.resuming import changed_rate, check_left, checked
from tinygrad_edu.lm.safetensors_files import write_safetensors
from tinygrad_edu.lm.sampling import SamplingOptions
from tinygrad_edu.lm.session import Session
from tinygrad_edu.lm.trained import MODEL_CONFIG, Trained, describe_model, load_trained

ADAPTER = "adapter"
"""The folder of a finished run that holds its adapter in PEFT's layout."""


@dataclass(frozen=True)
class Prepared:
    """What fine-tuning is going to learn, ready to look at.

    Attributes:
        config: with the sizes of the base, its digest, and a number of steps.
        base: the model to start from.
        examples: all that is left to learn from.
        division: what is trained on, and what is held out.
        sha256: of the files.
    """

    config: FinetuneConfig
    base: Trained
    examples: Examples
    division: Division
    sha256: str


def prepare(config: FinetuneConfig) -> Prepared:
    """Read the base and the conversations.

    Raises:
        RunError: no base, or another one than the run was started with.
        ConversationError: a file with a broken row, or nothing left to learn from.
        ConfigError: sizes, which are the base's.
    """
    if not config.base:
        raise ConfigError("no base was given; name the folder of a run, or a model that is shipped")
    try:
        base = load_trained(config.base)
    except RunError as error:
        if not config.base_sha256:
            raise
        raise RunError(
            f"the base of this run cannot be read: {error}; where it has moved, name it: "
            "finetune BASE --resume RUN"
        ) from error
    check_tokenizer(base.tokenizer)
    digest = base_digest(base.model)
    if config.base_sha256 not in ("", digest):
        raise RunError(
            f"{config.base} is not the base that this run was started with, or it has changed "
            f"since: its digest begins with {digest[:8]}, and not with {config.base_sha256[:8]}"
        )
    rows = read_conversations(config.corpus).rows
    examples = examples_of(rows, base.tokenizer, base.model.config.block_size)
    division = divide(examples.found, config.validation_fraction)
    config = dataclasses.replace(config.of(base.config), base_sha256=digest)
    if config.epochs is not None:
        a_step = config.batch_size * config.accumulate
        steps = math.ceil(config.epochs * len(division.training) / a_step)
        config = dataclasses.replace(config, steps=steps, epochs=None)
    return Prepared(config, base, examples, division, _digest_of(config.corpus))


def finetune(
    given: FinetuneConfig | Prepared,
    reporter: Reporter | None = None,
    clock: Clock = time.perf_counter,
) -> Result:
    """Fine-tune a base, in a run folder of its own.

    Raises:
        as `prepare`, and as `lm.train`.
    """
    prepared = given if isinstance(given, Prepared) else prepare(given)
    config = _kept(prepared.config)
    prepared = dataclasses.replace(prepared, config=config)
    name = f"{Path(config.corpus[0]).stem}-tuned"
    with checkpoint.new_run(config, name) as run:
        checkpoint.write_config(run, config)
        prepared.base.tokenizer.save(run / checkpoint.TOKENIZER)
        describe_model(run, prepared.base.model)
        return _run(run, prepared, reporter or Reporter(), clock)


def resume_finetuning(
    run: str | Path,
    config: FinetuneConfig | None = None,
    reporter: Reporter | None = None,
    clock: Clock = time.perf_counter,
) -> Result:
    """Go on with a fine-tuning run that was interrupted; it ends with the same bits as one that
    was not.

    `config`, where given, is the run's own with some of `lm.config.CHANGEABLE` changed: more
    `steps` or `epochs`, say, or a `base` or conversations that have moved.

    Raises:
        RunError: no such run, nothing left to do, a base or conversations that have changed or are
            not there.
        ConfigError: an option that cannot change.
    """
    run = Path(run)
    saved = checkpoint.read_config(run)
    if not isinstance(saved, FinetuneConfig):
        raise RunError(f"{run} is no fine-tuning run; go on with it with train --resume {run}")
    saved = dataclasses.replace(saved, warmup_steps=saved.warmup)
    with held(run):
        state = newest_state(run)
        progress = state.progress if state else None
        asked = checked(run, saved, config or saved, progress)
        gone = [path for path in asked.corpus if not Path(path).exists()]
        if gone:
            raise RunError(
                f"the conversations of {run} are not there: {', '.join(gone)}; where they have "
                "moved, name them with --data"
            )
        prepared = prepare(asked)
        if progress and progress.text_sha256 != prepared.sha256:
            raise RunError(
                f"the conversations of {run} are not those that it was started with; put "
                f"{', '.join(asked.corpus)} back as it was, name those with --data, or start a new "
                "run"
            )
        check_left(run, prepared.config, progress)
        prepared = dataclasses.replace(prepared, config=_kept(prepared.config))
        return _run(run, prepared, reporter or Reporter(), clock, saved, state)


def _run(
    run: Path, prepared: Prepared, reporter: Reporter, clock: Clock,
    saved: FinetuneConfig | None = None, state: checkpoint.Checkpoint | None = None,
) -> Result:  # fmt: skip
    config, model = prepared.config, prepared.base.model
    with limited_threads(1):
        tuned = config.tune_allocator and allocator.tune()
        adapter = adapters_of(model, config)
        model.train()
        lessons = Padded(
            prepared.division, config.batch_size * config.accumulate, config.batch_size,
            config.seed,
        )  # fmt: skip
        learner = Learner(config, model, lessons)
        with closing(learner):
            workers = learner.workers.count, learner.workers.kind
            plan = FinetunePlan(
                config=config, run=run, text=", ".join(Path(p).name for p in config.corpus),
                characters=sum(
                    len(m.content) for e in prepared.examples.found
                    for m in e.conversation.messages
                ),
                symbols=prepared.base.tokenizer.vocab_size,
                training_tokens=lessons.training_targets,
                validation_tokens=lessons.validation_targets,
                groups=parameters_by_group(model),
                cost=step_cost(model.config, config.batch_size),
                workers=workers, blas=blas(), allocator_tuned=tuned,
                remarks=(*prepared.examples.remarks, *remarks(state, run, workers)),
                examples=(len(prepared.division.training), len(prepared.division.held_out)),
                trained=sum(p.size for p in model.parameters() if p.requires_grad),
            )  # fmt: skip
            if saved is not None:
                progress = state.progress if state else None
                plan = dataclasses.replace(plan, changed_rate=changed_rate(saved, config, progress))
            session = _Session(plan, learner, _material(prepared), reporter, clock)
            session.prepared = prepared
            session.restore(state)
            if saved is not None:
                checkpoint.write_config(run, config)
            result = session.run_to_end()
    if adapter and not result.interrupted:
        save_adapter(adapter, run / ADAPTER, config.base)
    return result


def adapters_of(model: nn.Module, config: FinetuneConfig) -> nn.LoRA | None:
    """Give a model the adapters that the options ask for; None where all its weights learn.

    Raises:
        ConfigError: no layer of that name, or a rank that is too large.
    """
    if not config.lora_rank:
        return None
    try:
        return nn.add_lora(
            model, config.lora_rank, config.lora_alpha, config.lora_targets,
            generator=stream(config.seed, "weights"),
        )  # fmt: skip
    except ValueError as error:
        raise ConfigError(f"--lora-rank and --lora-targets do not fit: {error}") from error


class _Session(Session):
    """A session whose samples are answers to the first conversation that is held out."""

    prepared: Prepared
    about = (*Session.about, MODEL_CONFIG)

    def describe(self, folder: Path) -> None:
        super().describe(folder)
        describe_model(folder, self.prepared.base.model)

    def sample(self) -> str:
        division = self.prepared.division
        messages = (*division.held_out, *division.training)[0].conversation.messages
        first = next(i for i, message in enumerate(messages) if message.role == "assistant")
        asked = messages[:first]
        tokenizer = self.material.tokenizer
        pieces = answer(
            self.learner.model, tokenizer, prompt(tokenizer, asked), self.config.sample_length,
            SamplingOptions(temperature=0.0), stream(self.config.seed, "samples"),
        )  # fmt: skip
        return f"{asked[-1].content}\n> {''.join(pieces)}"


def _material(prepared: Prepared) -> Material:
    nothing = np.zeros(0, np.int64)
    tokenizer = prepared.base.tokenizer
    return Material(
        name=", ".join(prepared.config.corpus), characters=0, sha256=prepared.sha256,
        tokenizer=tokenizer, split=Split(nothing, nothing),
        opening=tokenizer.encode(opening(tokenizer))[0],
        token_bytes=np.array([len(tokenizer.token_bytes(i)) for i in range(tokenizer.vocab_size)]),
    )  # fmt: skip


def merge(run: str | Path, folder: str | Path) -> Path:
    """Write the model of a fine-tuning run, its adapters put into the weights, as a folder that
    needs its base no more and is read wherever a run is.

    Raises:
        RunError: no fine-tuning run, or a folder that holds something.
    """
    run, folder = Path(run), Path(folder)
    config = checkpoint.read_config(run)
    if not isinstance(config, FinetuneConfig):
        raise RunError(f"{run} is no fine-tuning run, so there is nothing to merge")
    trained = load_trained(run)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder} exists and is not an empty folder; give another with --output")
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: value.numpy() for name, value in trained.model.state_dict().items()}
    write_safetensors(folder / checkpoint.MODEL, weights, {"format": "tinygrad_edu"})
    trained.tokenizer.save(folder / checkpoint.TOKENIZER)
    describe_model(folder, trained.model)
    checkpoint.write_config(folder, dataclasses.replace(config, lora_rank=0))
    return folder


def _kept(config: FinetuneConfig) -> FinetuneConfig:
    """As they are now: another directory, or other steps, must not change them on resume."""
    return dataclasses.replace(
        config, corpus=anchored(config.corpus), base=_anchored(config.base),
        warmup_steps=config.warmup,
    )  # fmt: skip


def _anchored(base: str) -> str:
    return base if base in shipped.names() else str(Path(base).absolute())


def _digest_of(paths: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        try:
            digest.update(Path(path).read_bytes())
        except OSError as error:
            raise ConversationError(f"{path} cannot be read ({error.strerror})") from error
    return digest.hexdigest()
