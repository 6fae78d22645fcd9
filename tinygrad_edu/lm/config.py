"""What a training run is made of: one dataclass, which is the command's options and `config.toml`.

The file is flat TOML, one `name = value` a line. `tomllib` of the standard library reads it; it has
no writer, so a small one for the types used here stands below.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ClassVar, Union, get_args, get_origin, get_type_hints

from tinygrad_edu.lm.errors import ConfigError


@dataclass(frozen=True)
class TrainConfig:
    """How a model is trained; the defaults take about a minute on two cores.

    Attributes:
        corpus: what to learn from: `python-docs`, paths of UTF-8 text files, or the folder of a
            text that `prepare` turned into tokens.
        tokenizer: `characters`; `bpe`, learnt from the training part; or the path of a tokenizer:
            tokenizer.json, a .tiktoken file, a folder with vocab.json and merges.txt.
        vocab_size: tokens that `bpe` learns.
        run: the folder of the run; by default the next free one under `runs/`.
        seed: decides weights, batches and samples; the same seed gives the same run.
        architecture: `gpt` (GPT-2's shape) or `llama` (RMSNorm, rotary positions, SwiGLU).
        num_layers: transformer blocks.
        num_heads: attention heads a block; they share `embed_dim` evenly.
        num_kv_heads: of a llama, heads of keys and values, each shared by several of queries; 0
            for as many as `num_heads`.
        hidden_dim: of a llama, the width of its MLPs; 0 for 8/3 of `embed_dim`.
        tied_head: of a llama, whether the head is the token embedding.
        embed_dim: numbers that stand for one token.
        block_size: the longest context, in tokens.
        dropout: chance that an activation is zeroed while training.
        bias: of a gpt, whether linear layers and norms have a bias; a llama has none.
        order: `windows` begin anywhere by chance; `epochs` read every token once before any is
            read again.
        batch_size: windows of `block_size` tokens at a time.
        accumulate: batches whose gradients are added up for one step, in the memory of one.
        steps: updates in all.
        epochs: how often to read the training text; it takes the place of `steps`.
        minutes: about how long to train, measured before the start; it takes the place of `steps`.
        flops: arithmetic to spend, in floating-point operations of the matrix products; it takes
            the place of `steps`.
        learning_rate: the highest one, reached after the warm-up.
        schedule: of the learning rate after the warm-up: `cosine` or `linear` to the end; `wsd`,
            which is stable, then goes down in the last steps; `constant`.
        decay_fraction: the share of the steps, at the end, in which `wsd` goes down.
        min_learning_rate: where the schedule ends; by default a tenth of `learning_rate`.
        warmup_steps: steps in which the learning rate climbs to its highest; by default 100, or a
            tenth of `steps` where that is less.
        weight_decay: AdamW's decay, on matrices only (not on biases and norms).
        betas: AdamW's decay rates of the averages of the gradient and of its square.
        clip_norm: the longest gradient that is used as it is; 0 never clips.
        validation_fraction: the share of the text, at its end, that is held out; 0 for none.
        validation_interval: steps from one validation, with a sample, to the next.
        max_validation_tokens: of a longer held-out part a validation reads so many tokens, in
            windows spread evenly over it; 0 reads all.
        patience: validations in a row that may be no better than the best before them; then
            training stops. The model that is kept is the best one. 0 never stops, and keeps the
            last.
        min_delta: nats by which a validation has to be better for `patience` to begin anew.
        overfit_one_batch: read the batch of step 0 at every step: a check that the model can learn
            at all.
        checkpoint_interval: steps from one checkpoint to the next.
        keep_checkpoints: how many of the newest are kept; should one be damaged, the run goes on
            from the one before.
        sample_length: tokens of the sample at each validation; 0 for none.
        curve: draw loss.svg at each validation.
        report: write report.html at the end: curves, samples, attention, embeddings, time.
        tensorboard: also log for TensorBoard, into the folder tensorboard of the run.
        debug: where a loss or gradient is not finite, find the operation in which that began.
        threads: workers that share each batch, with one BLAS thread each; 0 takes one a core.
        processes: let the workers be processes where the system has them (Linux), not threads.
        tune_allocator: let glibc keep freed memory (no effect on other systems).
    """

    corpus: tuple[str, ...] = ("python-docs",)
    tokenizer: str = "characters"
    vocab_size: int = 1024
    run: Path | None = None
    seed: int = 1
    architecture: str = "gpt"
    num_layers: int = 4
    num_heads: int = 4
    num_kv_heads: int = 0
    hidden_dim: int = 0
    tied_head: bool = True
    embed_dim: int = 128
    block_size: int = 64
    dropout: float = 0.0
    bias: bool = True
    order: str = "windows"
    batch_size: int = 12
    accumulate: int = 1
    steps: int = 2000
    epochs: float | None = None
    minutes: float | None = None
    flops: float | None = None
    learning_rate: float = 2e-3
    schedule: str = "cosine"
    decay_fraction: float = 0.2
    min_learning_rate: float | None = None
    warmup_steps: int | None = None
    weight_decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.99)
    clip_norm: float = 1.0
    validation_fraction: float = 0.1
    validation_interval: int = 250
    max_validation_tokens: int = 0
    patience: int = 0
    min_delta: float = 0.0
    overfit_one_batch: bool = False
    checkpoint_interval: int = 250
    keep_checkpoints: int = 2
    sample_length: int = 200
    curve: bool = True
    report: bool = True
    tensorboard: bool = False
    debug: bool = False
    threads: int = 0
    processes: bool = True
    tune_allocator: bool = True

    def __post_init__(self) -> None:
        """Take one path for several and a string for a path, as `text.load_corpus` does; check."""
        given: Any = self.corpus
        sources = (given,) if isinstance(given, str | Path) else given
        object.__setattr__(self, "corpus", tuple(map(str, sources)))
        if self.run is not None:
            object.__setattr__(self, "run", Path(self.run))
        check(self)

    command: ClassVar[str] = "train"
    """What reads these options."""

    @property
    def model_name(self) -> str:
        """The architecture as it is written in a sentence."""
        return {"gpt": "GPT", "llama": "Llama"}[self.architecture]

    @property
    def tokens_per_step(self) -> int:
        """Predictions that one update learns from."""
        return self.batch_size * self.accumulate * self.block_size

    @property
    def warmup(self) -> int:
        """Steps of warm-up."""
        return min(100, self.steps // 10) if self.warmup_steps is None else self.warmup_steps

    @property
    def final_learning_rate(self) -> float:
        """Where the schedule ends."""
        if self.min_learning_rate is None:
            return self.learning_rate / 10
        return self.min_learning_rate


LIMITS = ("epochs", "minutes", "flops")
"""Options that take the place of `steps`, one of them at most."""

CHANGEABLE = (
    "base",
    "corpus",
    "run",
    "steps",
    "epochs",
    "minutes",
    "flops",
    "learning_rate",
    "schedule",
    "decay_fraction",
    "min_learning_rate",
    "warmup_steps",
    "clip_norm",
    "validation_interval",
    "max_validation_tokens",
    "patience",
    "min_delta",
    "checkpoint_interval",
    "keep_checkpoints",
    "sample_length",
    "curve",
    "report",
    "tensorboard",
    "debug",
    "threads",
    "processes",
    "tune_allocator",
)
"""Options that may differ when a run is resumed: none changes its batches or the weights' shapes.

(The text, or the base of a fine-tuned run, may have another path; that it is the same is seen from
its sha256.)
"""


def fixed_options(config: TrainConfig) -> dict[str, Any]:
    """The options that a run keeps for good, as JSON has them."""
    values = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if name not in CHANGEABLE
    }


Bounds = tuple[float, float]
_LARGEST = sys.float_info.max
_POSITIVE: Bounds = (math.ulp(0.0), _LARGEST)
_BOUNDS: dict[str, Bounds] = {
    "vocab_size": (256, _LARGEST),
    "seed": (0, _LARGEST),
    "num_layers": (1, _LARGEST),
    "num_heads": (1, _LARGEST),
    "num_kv_heads": (0, _LARGEST),
    "hidden_dim": (0, _LARGEST),
    "embed_dim": (1, _LARGEST),
    "block_size": (1, _LARGEST),
    "dropout": (0, math.nextafter(1, 0)),
    "batch_size": (1, _LARGEST),
    "accumulate": (1, _LARGEST),
    "steps": (0, _LARGEST),
    "epochs": _POSITIVE,
    "minutes": _POSITIVE,
    "flops": _POSITIVE,
    "decay_fraction": (0, 1),
    "learning_rate": _POSITIVE,
    "min_learning_rate": (0, _LARGEST),
    "warmup_steps": (0, _LARGEST),
    "weight_decay": (0, _LARGEST),
    "betas": (0, math.nextafter(1, 0)),
    "clip_norm": (0, _LARGEST),
    "validation_fraction": (0, math.nextafter(1, 0)),
    "validation_interval": (1, _LARGEST),
    "max_validation_tokens": (0, _LARGEST),
    "patience": (0, _LARGEST),
    "min_delta": (0, _LARGEST),
    "checkpoint_interval": (1, _LARGEST),
    "keep_checkpoints": (1, _LARGEST),
    "sample_length": (0, _LARGEST),
    "threads": (0, _LARGEST),
}
_CHOICES = {
    "architecture": ("gpt", "llama"),
    "order": ("windows", "epochs"),
    "schedule": ("cosine", "linear", "wsd", "constant"),
}
_BOUND_WORDS = {
    _LARGEST: "",
    1: " and at most 1",
    math.nextafter(1, 0): " and less than 1",
}


def check(config: TrainConfig) -> None:
    """Raise `ConfigError` where a value cannot be meant, naming the option and what it may be."""
    for name, bounds in _BOUNDS.items():
        value = getattr(config, name)
        for number in value if isinstance(value, tuple) else (value,):
            if number is not None and not (bounds[0] <= number <= bounds[1]):
                raise ConfigError(f"{_option(name)} is {number}; it must be {_words(bounds)}")
    for name, choices in _CHOICES.items():
        if getattr(config, name) not in choices:
            raise ConfigError(
                f"{_option(name)} is {getattr(config, name)!r}; it must be one of "
                f"{', '.join(choices)}"
            )
    limits = [name for name in LIMITS if getattr(config, name) is not None]
    if len(limits) > 1:
        raise ConfigError(
            f"{' and '.join(map(_option, limits))} were given; each says how long to train, so "
            "give one of them"
        )
    if not config.corpus:
        raise ConfigError("--corpus is empty; give python-docs or one path or more")
    if config.embed_dim % config.num_heads:
        raise ConfigError(
            f"--embed-dim {config.embed_dim} is not a multiple of --num-heads "
            f"{config.num_heads}; the heads share it evenly"
        )
    if config.num_kv_heads and config.num_heads % config.num_kv_heads:
        raise ConfigError(
            f"--num-heads {config.num_heads} is not a multiple of --num-kv-heads "
            f"{config.num_kv_heads}; each of these serves as many of those"
        )
    _check_architecture(config)
    if config.final_learning_rate > config.learning_rate:
        raise ConfigError(
            f"--min-learning-rate {config.final_learning_rate:g} is above --learning-rate "
            f"{config.learning_rate:g}; the schedule falls from the one to the other"
        )
    _check_patience(config)


def _check_architecture(config: TrainConfig) -> None:
    if config.architecture == "gpt":
        given = [name for name in ("num_kv_heads", "hidden_dim") if getattr(config, name)]
        words = [f"{_option(name)} {getattr(config, name)}" for name in given]
        words += [] if config.tied_head else ["--no-tied-head"]
        if words:
            raise ConfigError(
                f"{words[0]} was given for a gpt, which has no such option; leave it out, or add "
                "--architecture llama"
            )
    elif config.embed_dim // config.num_heads % 2:
        raise ConfigError(
            f"--embed-dim {config.embed_dim} and --num-heads {config.num_heads} make heads of "
            f"width {config.embed_dim // config.num_heads}; a llama's have an even one, as rotary "
            "positions turn numbers in pairs"
        )


def _check_patience(config: TrainConfig) -> None:
    if config.patience and not config.validation_fraction:
        raise ConfigError(
            f"--patience {config.patience} waits for validations, but --validation-fraction 0 "
            "holds nothing out; leave one of the two out"
        )
    if config.patience and config.overfit_one_batch:
        raise ConfigError(
            f"--patience {config.patience} was given with --overfit-one-batch, whose validations "
            "are to get worse; leave one of the two out"
        )


def _words(bounds: Bounds) -> str:
    low = "more than 0" if bounds is _POSITIVE else f"{bounds[0]:g} or more"
    return low + _BOUND_WORDS[bounds[1]]


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def shown(value: Any) -> str:
    """An option's value as config.toml and the command line have it, for a message."""
    return _toml_value(tuple(value) if isinstance(value, list) else value)


def to_toml(config: TrainConfig) -> str:
    """The config as TOML; an option that is None is left out, as TOML has no null."""
    reader = f"`tinygrad-edu {config.command} --config FILE`"
    lines = [f"# The options of this run; {reader} reads them."]
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if value is not None:
            lines.append(f"{field.name} = {_toml_value(value)}")
    return "\n".join(lines) + "\n"


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _toml_float(value)
    if isinstance(value, str | Path):
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    raise TypeError(f"no TOML form is written here for a {type(value).__name__}")


def _toml_float(value: float) -> str:
    """Shortest digits that read back as the same float; TOML wants a point or an exponent."""
    text = repr(value)
    return text if any(mark in text for mark in ".en") else text + ".0"


def from_toml(text: str, source: str = "the config") -> TrainConfig:
    """Read what `to_toml` wrote, or a person. `source` names it in errors.

    Raises:
        ConfigError: not TOML, an unknown option (the nearest is named), a value of another type.
    """
    table = _table(text, source)
    if "base" in table:  # a run that was fine-tuned
        from tinygrad_edu.lm.finetune_config import FinetuneConfig

        return from_mapping(table, source, FinetuneConfig)
    return from_mapping(table, source)


def _table(text: str, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source} is not valid TOML: {error}") from error


def read_config_file(path: str | Path) -> TrainConfig:
    """The options in a TOML file.

    Raises:
        ConfigError: it cannot be read, or `from_toml` cannot make a config of it.
    """
    return from_toml(_content(path), source=str(path))


def read_table(path: str | Path) -> dict[str, Any]:
    """A TOML file's names and values.

    Raises:
        ConfigError: it cannot be read, or is not TOML.
    """
    return _table(_content(path), str(path))


def _content(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the config {path} cannot be read: {error}") from error


def from_mapping(
    table: Mapping[str, Any], source: str = "the config", kind: type[TrainConfig] = TrainConfig
) -> TrainConfig:
    """A config from names and values; names not given keep their defaults."""
    every = get_type_hints(kind)
    hints = {field.name: every[field.name] for field in dataclasses.fields(kind)}
    values: dict[str, Any] = {}
    for name, value in table.items():
        if name not in hints:
            raise ConfigError(f"{source} has an unknown option {name!r}{_nearest(name, hints)}")
        values[name] = _coerce(value, hints[name], name, source)
    return kind(**values)


def _nearest(name: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.0)
    return f"; the nearest one is {close[0]!r}"


def _coerce(value: Any, hint: Any, name: str, source: str) -> Any:
    """`value` as the annotated type: lists become tuples, whole numbers floats, strings paths."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    for kind in kinds:
        if get_origin(kind) is tuple and isinstance(value, list):
            inner = get_args(kind)
            variadic = inner[-1] is Ellipsis
            if variadic or len(inner) == len(value):
                return tuple(_coerce(item, inner[0], name, source) for item in value)
        elif kind is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        elif kind is Path and isinstance(value, str):
            return Path(value)
        elif kind is not NoneType and type(value) is kind:
            return value
    wanted = " or ".join(_kind_name(kind) for kind in kinds if kind is not NoneType)
    raise ConfigError(f"{source} has {name} = {value!r}; expected {wanted}")


_KIND_NAMES: dict[Any, tuple[str, str]] = {
    str: ("a string", "strings"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("true or false", "booleans"),
    Path: ("a path", "paths"),
}


def _kind_name(kind: Any) -> str:
    if get_origin(kind) is not tuple:
        return _KIND_NAMES[kind][0]
    inner = get_args(kind)
    number = "" if inner[-1] is Ellipsis else f"{len(inner)} "
    return f"a list of {number}{_KIND_NAMES[inner[0]][1]}"


def worker_count(config: TrainConfig) -> int:
    """The workers that share a batch: as many as asked for or one a core, each with a window."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(config.threads or cores or 1, config.batch_size)
