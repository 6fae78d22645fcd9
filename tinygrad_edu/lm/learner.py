"""What one step of training is: a batch, its gradient, and a move of every weight against it.

Everything random in it is a function of the seed and the step (`lm.data.stream`), so a learner
needs no other memory than its weights, the optimizer's averages and the number of steps made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygrad_edu import Tensor, optim
from tinygrad_edu.autograd.profiling import section
from tinygrad_edu.lm.config import TrainConfig, worker_count
from tinygrad_edu.lm.data import Tokens, stream
from tinygrad_edu.lm.gpt import GPT, GPTConfig
from tinygrad_edu.lm.language_model import LanguageModel
from tinygrad_edu.lm.lessons import Batch, Lessons, targets_in
from tinygrad_edu.lm.llama import Llama, LlamaConfig
from tinygrad_edu.lm.safetensors_files import Arrays
from tinygrad_edu.optim.clip import norm_of
from tinygrad_edu.parallel import Workers, make_workers, split_batch


def model_config(config: TrainConfig, vocab_size: int) -> GPTConfig | LlamaConfig:
    """The model's sizes, which the options and the tokenizer fix between them."""
    shared: dict[str, Any] = {
        "vocab_size": vocab_size,
        "block_size": config.block_size,
        "num_layers": config.num_layers,
        "num_heads": config.num_heads,
        "embed_dim": config.embed_dim,
        "dropout": config.dropout,
    }
    if config.architecture == "gpt":
        return GPTConfig(bias=config.bias, **shared)
    return LlamaConfig(
        num_kv_heads=config.num_kv_heads,
        hidden_dim=config.hidden_dim,
        tied_head=config.tied_head,
        **shared,
    )


def new_model(
    config: TrainConfig, vocab_size: int, generator: np.random.Generator | None = None
) -> GPT | Llama:
    """The model that the options describe, with the starting weights of the run's seed, or of a
    `generator`.
    """
    source = stream(config.seed, "weights") if generator is None else generator
    sizes = model_config(config, vocab_size)
    return GPT(sizes, source) if isinstance(sizes, GPTConfig) else Llama(sizes, source)


def make_optimizer(model: LanguageModel, config: TrainConfig) -> optim.AdamW:
    """AdamW of what is not frozen, with decay for matrices only: pulling a bias or a norm to 0 has
    no merit.
    """
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in trained if p.ndim >= 2]
    vectors = [p for p in trained if p.ndim < 2]
    return optim.AdamW(
        [
            {"params": matrices, "weight_decay": config.weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ],
        lr=config.learning_rate,
        betas=config.betas,
    )


def schedule_of(config: TrainConfig) -> optim.schedules.Schedule:
    """Linear warm-up, then `config.schedule`; a warm-up longer than the run is simply cut off by
    its end.
    """
    highest, final = config.learning_rate, config.final_learning_rate
    rest = max(1, config.steps - config.warmup)
    schedules = optim.schedules
    if config.schedule == "wsd":
        falling = min(rest, round(config.decay_fraction * config.steps))
        return schedules.warmup_stable_decay(
            highest, config.warmup, config.warmup + rest, falling, final
        )
    if config.schedule == "constant":
        after = schedules.constant(highest)
    elif config.schedule == "linear":
        after = schedules.linear(highest, rest, final)
    else:
        after = schedules.cosine(highest, rest, final)
    return schedules.warmup(after, config.warmup)


@dataclass(frozen=True, slots=True)
class Gradient:
    """The mean loss of a batch, in nats, and the norm of its gradient before clipping."""

    loss: float
    norm: float

    @property
    def finite(self) -> bool:
        """Whether a step with it leaves the weights numbers."""
        return math.isfinite(self.loss) and math.isfinite(self.norm)


def loss_of(
    model: LanguageModel, ids: Any, targets: Any, seed: int, step: int, worker: int, turn: int
) -> Tensor:
    """(At the top of a module, so that another process can be told to run it.)"""
    if model.config.dropout:
        fresh = stream(seed, "dropout", step, worker, turn)
        model.generator.bit_generator.state = fresh.bit_generator.state
    return model.loss(ids, targets)


class Learner:
    """A model, its optimizer, its lessons, and how many steps have been made."""

    def __init__(self, config: TrainConfig, model: LanguageModel, lessons: Lessons) -> None:
        self.config = config
        self.lessons = lessons
        self.model = model
        self.optimizer = make_optimizer(self.model, config)
        self.schedule = schedule_of(config)
        self.step = 0
        self._worked_out: Gradient | None = None
        self.workers: Workers[LanguageModel] = make_workers(
            self.model, worker_count(config), self.optimizer, processes=config.processes,
            mpi=config.parallel == "mpi",
        )  # fmt: skip

    def close(self) -> None:
        """End the workers."""
        self.workers.close()

    def weights(self) -> Arrays:
        """What training changes, as NumPy arrays: the weights that are not frozen."""
        frozen = {n for n, p in self.model.named_parameters() if not p.requires_grad}
        state = self.model.state_dict()
        return {name: value.numpy() for name, value in state.items() if name not in frozen}

    def load_weights(self, weights: Arrays) -> None:
        """Take what `weights` gave.

        Raises:
            StateDictError, ValueError: some are missing, left over or of another shape.
        """
        own = {name: value.numpy() for name, value in self.model.state_dict().items()}
        frozen = {name: own[name] for name in own.keys() - self.weights().keys()}
        self.model.load_state_dict({**frozen, **weights})

    def optimizer_bytes(self) -> int:
        """What the optimizer's averages take now."""
        arrays = (a for state in self.optimizer.state.values() for a in state.values())
        return sum(a.nbytes for a in arrays if hasattr(a, "nbytes"))

    def learning_rate(self) -> float:
        """Of the next step, as the schedule has it."""
        return self.schedule(self.step)

    def gradient(self) -> Gradient:
        """Forward, loss, backward and clip on the next step's batch; no weight moves yet.

        It is worked out once a step, however often it is asked for.
        """
        if self._worked_out is None:
            self._worked_out = self._work_out()
        return self._worked_out

    @section("data")
    def batch(self) -> Batch:
        """The inputs and targets of the next step; always the first ones where those are all."""
        return self.lessons.batch(0 if self.config.overfit_one_batch else self.step)

    def _work_out(self) -> Gradient:
        jobs, shares = self.jobs(*self.batch())
        loss = self.workers(loss_of, jobs, shares)
        with section("clip"):
            norm = self.workers.clip_grad_norm_(self.config.clip_norm or math.inf)
        return Gradient(loss, norm)

    def jobs(self, ids: Tokens, targets: Tokens) -> tuple[list[Any], list[list[float]]]:
        """What each worker reads, in turns of about `batch_size / workers` rows, and the weight of
        each turn: its share of all targets, so that each target weighs the same.
        """
        config, whole = self.config, targets_in(targets)
        jobs, shares = [], []
        parts = split_batch((ids, targets), min(self.workers.count, len(ids)))
        for worker, rows in enumerate(parts):
            turns = split_batch(rows, min(config.accumulate, len(rows[0])))
            scored = [(turn, part) for turn, part in enumerate(turns) if targets_in(part[1])]
            if scored:
                jobs.append([(*part, config.seed, self.step, worker, i) for i, part in scored])
                shares.append([targets_in(part[1]) / whole for _, part in scored])
        return jobs, shares

    def gradient_norms(self) -> dict[str, float]:
        """The norm of each part's gradient, as `gradient` worked it out, before clipping.

        Parts are the model's own modules, and each block by itself: "blocks.0".
        """
        found = self.gradient()
        limit = self.config.clip_norm
        clipped = found.norm / limit if 0 < limit < found.norm else 1.0
        squares: dict[str, float] = {}
        for name, parameter in self.model.named_parameters():
            if parameter.grad is not None:
                first, _, rest = name.partition(".")
                part = f"{first}.{rest.partition('.')[0]}" if first == "blocks" else first
                squares[part] = squares.get(part, 0.0) + norm_of(parameter.grad.data) ** 2
        return {part: clipped * math.sqrt(square) for part, square in squares.items()}

    @section("optimizer")
    def move(self) -> None:
        """Make the step with the gradient that `gradient` worked out."""
        rate = self.learning_rate()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.workers.step(self.optimizer)
        self.optimizer.zero_grad()
        self._worked_out = None
        self.step += 1
