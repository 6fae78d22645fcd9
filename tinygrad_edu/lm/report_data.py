"""All that a run's report shows, gathered from its folder and measured on its model; no HTML yet.

What is kept is bounded, whatever the run: so many points of a curve, samples, tokens. A page has
about 3 MB at most.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_edu import text
from tinygrad_edu.lm import checkpoint
from tinygrad_edu.lm.config import TrainConfig
from tinygrad_edu.lm.errors import RunError, TextError
from tinygrad_edu.lm.finetune_config import FinetuneConfig
from tinygrad_edu.lm.history import History, log_rows
from tinygrad_edu.lm.language_model import LanguageModel
from tinygrad_edu.lm.learner import new_model
from tinygrad_edu.lm.lessons import IGNORED, Lessons
from tinygrad_edu.lm.material import read_material
from tinygrad_edu.lm.patience import Best, after
from tinygrad_edu.lm.report_attention import attention_weights
from tinygrad_edu.lm.report_charts import thinned
from tinygrad_edu.lm.report_embeddings import neighbours, principal_plane
from tinygrad_edu.lm.report_time import Spent, StepCost, spent, step_cost
from tinygrad_edu.lm.samples_file import Sample, read_samples
from tinygrad_edu.lm.trained import Trained, load_trained
from tinygrad_edu.lm.verdict import verdict
from tinygrad_edu.lm.vocabulary import bytes_of

MOST_SAMPLES, LONGEST_SAMPLE = 40, 4000
MOST_NORMS = 60
"""Validations whose gradient norms are shown."""
MOST_TOKENS, MOST_WEIGHTS = 32, 150_000
"""Of the text whose attention is shown, and of the numbers of all heads."""
COUNTED = 200_000
"""Tokens of the training text in which the frequent ones are looked for."""
DRAWN, LISTED, NEAREST = 120, 24, 5
"""Frequent tokens in the plane, and in the list with their nearest neighbours."""


@dataclass(frozen=True)
class Attention:
    """Where the heads look in a text.

    Attributes:
        tokens: the text's, readable.
        paths: of the attention modules.
        weights: (H, T, T) of each.
        cut: tokens of the text that had no room.
    """

    tokens: list[str]
    paths: list[str]
    weights: list[NDArray[np.float64]]
    cut: int


@dataclass(frozen=True)
class Embeddings:
    """Frequent tokens before and after training.

    Attributes:
        tokens: ids; the first `LISTED` have neighbours too.
        labels: readable.
        kinds: letter, capital, digit, space, sign, other.
        counts: in the text that was looked through; empty where there was none.
        before, after: (N, 2), on the plane of the trained ones.
        shares: of the variance of the trained ones, along its axes.
        nearest_before, nearest_after: by token, (label, cosine).
    """

    tokens: list[int]
    labels: list[str]
    kinds: list[str]
    counts: list[int]
    before: NDArray[np.float64]
    after: NDArray[np.float64]
    shares: tuple[float, float]
    nearest_before: list[list[tuple[str, float]]]
    nearest_after: list[list[tuple[str, float]]]


@dataclass(frozen=True)
class ReportData:
    """See the module."""

    run: Path
    config: TrainConfig
    parameters: int
    symbols: int
    rows: list[dict[str, Any]]
    history: History
    verdict: tuple[str, ...]
    environment: dict[str, str]
    samples: list[Sample]
    attention: Attention | None
    embeddings: Embeddings | None
    spent: Spent | None
    cost: StepCost


def gather(
    run: Path,
    shown: str | None = None,
    lessons: Lessons | None = None,
    said: Sequence[str] | None = None,
    trained: Trained | None = None,
) -> ReportData:
    """Read a run folder, look at its model.

    Args:
        run: the folder.
        shown: the text whose attention is shown; by default the held-out text's beginning.
        lessons: what the run learns from; by default they are read again, if the text is there.
        said: the verdict at the end of the training; by default what the log alone can say.
        trained: the run's model; by default it is loaded.

    Raises:
        RunError: no run there, or files of it that are damaged or missing.
        TokenizerError: `shown` has a symbol that the model never saw.
    """
    trained = trained or load_trained(run)
    config, tokenizer, model = trained.config, trained.tokenizer, trained.model
    rows = [row for _, row in log_rows(run / checkpoint.METRICS)]
    history = History()
    for row in rows:
        history.add(row)
    progress = _progress(run)
    lessons = lessons or _lessons(config, tokenizer, progress)
    return ReportData(
        run=run,
        config=config,
        parameters=sum(parameter.size for parameter in model.parameters()),
        symbols=tokenizer.vocab_size,
        rows=rows,
        history=history,
        verdict=tuple(said) if said is not None else _verdict(config, history),
        environment=progress.environment if progress else {},
        samples=_samples(run),
        attention=_attention(trained, shown, lessons),
        embeddings=_embeddings(trained, lessons),
        spent=spent(rows),
        cost=step_cost(config, tokenizer.vocab_size),
    )


def _progress(run: Path) -> checkpoint.Progress | None:
    try:
        return checkpoint.load_checkpoint(run).progress
    except RunError:
        return None


def _lessons(
    config: TrainConfig, tokenizer: text.Tokenizer, progress: checkpoint.Progress | None
) -> Lessons | None:
    """What the run learnt from; None where that is gone or no longer the same."""
    try:
        material = read_material(config, tokenizer)
    except (text.CorpusError, text.TokenizerError, TextError, OSError):
        return None
    if progress and progress.text_sha256 != material.sha256:
        return None
    return material.lessons(config)


def _verdict(config: TrainConfig, history: History) -> tuple[str, ...]:
    """As far as the log tells: not how the source of the text compares, window by window."""
    best: Best | None = None
    for step, loss in history.validations:
        best = after(best, step, loss, 0, config.min_delta)
    stopped = best is not None and best.exhausted(config.patience)
    return verdict(
        config, history, best=best, stopped_early=stopped and history.steps[-1:] != [config.steps],
        excess=None, batch_floor=None,
    )  # fmt: skip


def _samples(run: Path) -> list[Sample]:
    found = read_samples(run / checkpoint.SAMPLES)
    kept = [found[i] for i in thinned(len(found), MOST_SAMPLES)]
    return [
        dataclasses.replace(sample, text=sample.text[:LONGEST_SAMPLE] + "…")
        if len(sample.text) > LONGEST_SAMPLE
        else sample
        for sample in kept
    ]


# The model.


def _attention(trained: Trained, shown: str | None, lessons: Lessons | None) -> Attention | None:
    config, tokenizer = trained.config, trained.tokenizer
    if shown is not None:
        ids = tokenizer.encode_array(shown)
        if not len(ids):
            raise TextError("--text is empty; give some text to show the attention of")
    elif (first := next(lessons.held_out(), None) if lessons else None) is not None:
        ids = first[0][0]
    elif lessons is not None:
        ids = lessons.batch(0)[0][0]
    else:
        ids = np.arange(min(tokenizer.vocab_size, MOST_TOKENS))
    heads = config.num_layers * config.num_heads
    room = max(2, math.isqrt(MOST_WEIGHTS // heads))
    kept = ids[: min(MOST_TOKENS, config.block_size, room)]
    found = attention_weights(trained.model, kept[None, :])
    if not found:
        return None
    return Attention(
        tokens=[label(tokenizer, int(token)) for token in kept],
        paths=list(found),
        weights=[weights[0] for weights in found.values()],
        cut=len(ids) - len(kept) if shown is not None else 0,
    )


def _embeddings(trained: Trained, lessons: Lessons | None) -> Embeddings | None:
    tokenizer = trained.tokenizer
    start = first_model(trained).token_embedding.weight.detach().numpy()
    end = trained.model.token_embedding.weight.detach().numpy()
    if min(end.shape) < 3:
        return None
    counts = _counts(lessons, len(end))
    tokens = frequent(counts, DRAWN)
    plane = principal_plane(end[tokens])
    listed = tokens[:LISTED]

    def named(found: list[list[tuple[int, float]]]) -> list[list[tuple[str, float]]]:
        return [[(label(tokenizer, other), cosine) for other, cosine in row] for row in found]

    labels = [label(tokenizer, token) for token in tokens]
    return Embeddings(
        tokens=tokens,
        labels=labels,
        kinds=[kind_of(tokenizer, token) for token in tokens],
        counts=[int(counts[token]) for token in tokens] if lessons else [],
        before=plane.project(start[tokens]),
        after=plane.project(end[tokens]),
        shares=plane.shares,
        nearest_before=named(neighbours(start, listed, NEAREST)),
        nearest_after=named(neighbours(end, listed, NEAREST)),
    )


def _counts(lessons: Lessons | None, symbols: int) -> NDArray[np.int64]:
    """(V,): how often each token comes in the first batches of a training; zeros without one."""
    counts = np.zeros(symbols, np.int64)
    seen = 0
    for step in itertools.count():
        if lessons is None or seen >= COUNTED or step >= 1000:
            break
        ids, targets = lessons.batch(step)
        read = ids[(targets != IGNORED) & (ids >= 0) & (ids < symbols)]
        counts += np.bincount(read, minlength=symbols)
        seen += ids.size
    return counts


def frequent(counts: NDArray[np.int64], most: int) -> list[int]:
    """The `most` tokens that come most often; of equals the smaller id first."""
    return [int(token) for token in np.argsort(-counts, kind="stable")[:most]]


def label(tokenizer: text.Tokenizer, token: int) -> str:
    """A token to be read: spaces and line breaks as signs, what is no text as <hex>."""
    piece = bytes_of(tokenizer, token)
    if piece is None:
        return f"<no token {token}>"
    try:
        whole = piece.decode("utf-8")
    except UnicodeDecodeError:
        return "".join(f"<{byte:02x}>" for byte in piece)
    signs = {" ": "␣", "\n": "⏎", "\t": "⇥"}
    return "".join(
        signs.get(c, c if c.isprintable() else f"<{ord(c):02x}>") for c in whole
    )


def kind_of(tokenizer: text.Tokenizer, token: int) -> str:
    """The class of a token by its first symbol that is no space."""
    whole = (bytes_of(tokenizer, token) or b"").decode("utf-8", "replace")
    first = whole.strip()[:1]
    if not first:
        return "space"
    category = unicodedata.category(first)
    if category in ("Lu", "Lt"):
        return "capital"
    return {"L": "letter", "N": "digit", "P": "sign", "S": "sign"}.get(category[0], "other")


def first_model(trained: Trained) -> LanguageModel:
    """The model as it was before the first step: with the weights of the run's seed, or of the base
    that was fine-tuned.
    """
    if isinstance(trained.config, FinetuneConfig):
        return load_trained(trained.config.base).model
    return new_model(trained.config, trained.tokenizer.vocab_size)
