"""Writes new text with a model: one token at a time, each drawn from what the model predicts.

What is drawn from are the model's probabilities, changed by `SamplingOptions` in this order, which
is that of Hugging Face's `generate`:

    logits -> repetition penalty -> temperature -> top-k -> top-p -> min-p -> probabilities

Each step sees what the one before has left, made to sum to 1 again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_edu.lm.data import stream
from tinygrad_edu.lm.errors import SamplingError

Ids = NDArray[np.int64]
Logits = NDArray[Any]
Probabilities = NDArray[np.float64]
Predict = Callable[[Ids], Logits]
"""Ids (B, T) to the logits (B, V) of the token after them."""
Randomness = np.random.Generator | Sequence[np.random.Generator]
"""One generator for all rows of a batch, or one for each (`sample_generators`)."""


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """How the next token is drawn.

    Attributes:
        temperature: divides the logits: below 1 the likely gets likelier; 0 takes the likeliest
            (of equals the smallest id).
        top_k: keep exactly the k likeliest (of equals the smaller ids); 0 or None keeps all, as
            does a k larger than the vocabulary.
        top_p: keep the fewest likeliest tokens whose probabilities reach this sum; 1 keeps all
            (Holtzman et al. 2020, nucleus sampling).
        min_p: drop what is less likely than this share of the likeliest one's probability; 0 drops
            nothing (Nguyen et al. 2024).
        repetition_penalty: what stands in the text already gets its logit divided by this where
            it is positive, and multiplied where it is negative; 1 changes nothing (Keskar et al.
            2019, CTRL, section 4.1. The paper divides whatever the sign, which would make a token
            with a negative logit likelier; its own code multiplies those, as all do since).

    Raises:
        SamplingError: a value outside these ranges.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < np.inf:
            raise SamplingError(
                f"the temperature is {self.temperature}; it must be 0 (always the likeliest token) "
                "or more"
            )
        whole = isinstance(self.top_k, int | np.integer | None)
        if not whole or (self.top_k or 0) < 0:
            raise SamplingError(
                f"top_k is {self.top_k}; it must be 1 or more, or 0 to keep every token"
            )
        if not 0 < self.top_p <= 1:
            raise SamplingError(
                f"top_p is {self.top_p}; it must be more than 0 and at most 1, which keeps every "
                "token"
            )
        if not 0 <= self.min_p < 1:
            raise SamplingError(
                f"min_p is {self.min_p}; it must be 0, which keeps every token, or more, and less "
                "than 1"
            )
        if not 0 < self.repetition_penalty < np.inf:
            raise SamplingError(
                f"the repetition penalty is {self.repetition_penalty}; it must be more than 0: "
                "above 1 repeats less, 1 changes nothing"
            )


PLAIN = SamplingOptions()
"""As the model predicts."""


def probabilities(
    logits: Logits, options: SamplingOptions = PLAIN, seen: Ids | None = None
) -> Probabilities:
    """What is drawn from: logits (B, V) to probabilities (B, V) that sum to 1, in float64.

    A pure function. `seen` (B, T) are the ids that stand in each row's text, which only the
    repetition penalty asks for; T may be 0.

    Raises:
        SamplingError: logits that are not finite.
    """
    scores = _finite(logits)
    if seen is not None and options.repetition_penalty != 1:
        scores = _penalised(scores, seen, options.repetition_penalty)
    if options.temperature == 0:
        likeliest = scores.argmax(axis=-1, keepdims=True)
        return np.asarray(np.arange(scores.shape[-1]) == likeliest, np.float64)
    with np.errstate(over="ignore"):
        above = scores - scores.max(axis=-1, keepdims=True)
        chances = _normalised(np.exp(above / options.temperature))
    if options.top_k or options.top_p < 1:
        likeliest_first = np.argsort(-scores, axis=-1, kind="stable")
        if options.top_k:
            first = np.arange(chances.shape[-1]) < options.top_k
            chances = _kept(chances, likeliest_first, np.broadcast_to(first, chances.shape))
        if options.top_p < 1:
            falling = np.take_along_axis(chances, likeliest_first, axis=-1)
            likelier = np.zeros_like(falling)  # the sum of those before each
            falling[:, :-1].cumsum(axis=-1, out=likelier[:, 1:])
            chances = _kept(chances, likeliest_first, likelier < options.top_p)
    if options.min_p > 0:
        enough = chances >= options.min_p * chances.max(axis=-1, keepdims=True)
        chances = _normalised(np.where(enough, chances, 0.0))
    return chances


def log_probabilities(logits: Logits) -> Probabilities:
    """ln of the softmax of logits (B, V), as the model predicts, in float64.

    Raises:
        SamplingError: logits that are not finite.
    """
    scores = _finite(logits)
    scores -= scores.max(axis=-1, keepdims=True)
    logarithms: Probabilities = scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))
    return logarithms


def _finite(logits: Logits) -> Probabilities:
    """A copy in float64, checked."""
    scores = np.array(logits, dtype=np.float64)
    if not np.isfinite(scores).all():
        raise SamplingError(
            "the model's logits are not all finite, so they say nothing about the next token; "
            "its training diverged: use an earlier checkpoint or train with a lower learning rate"
        )
    return scores


def _penalised(scores: Probabilities, seen: Ids, penalty: float) -> Probabilities:
    repeated = np.zeros(scores.shape, dtype=bool)
    np.put_along_axis(repeated, seen, True, axis=-1)
    largest = np.finfo(np.float64).max / 4  # differences of two stay finite
    with np.errstate(over="ignore"):
        changed = np.where(scores > 0, scores / penalty, scores * penalty)
    return np.where(repeated, changed, scores).clip(-largest, largest)


def _kept(
    chances: Probabilities, order: NDArray[np.intp], kept: NDArray[np.bool_]
) -> Probabilities:
    """Without those that are not `kept`, which is told in the `order` of each row."""
    mask = np.zeros(chances.shape, dtype=bool)
    np.put_along_axis(mask, order, kept, axis=-1)
    return _normalised(np.where(mask, chances, 0.0))


def _normalised(chances: Probabilities) -> Probabilities:
    whole: Probabilities = chances / chances.sum(axis=-1, keepdims=True)
    return whole


def draw(chances: Probabilities, generator: Randomness) -> Ids:
    """One id a row of probabilities (B, V); gives ids (B,), each row drawn on its own.

    Raises:
        SamplingError: several generators, but not one a row.
    """
    rows = len(chances)
    if isinstance(generator, np.random.Generator):
        uniform = generator.random((rows, 1))
    elif len(generator) == rows:
        uniform = np.array([[one.random()] for one in generator])
    else:
        raise SamplingError(
            f"{rows} rows are to be drawn with {len(generator)} generators; give one, or one a row"
        )
    cumulative = chances.cumsum(axis=-1)
    # A number below 1 times the end is below the end, rounded as well: 1 - 2⁻⁵³ takes away half a
    # unit in its last place at least. So what is drawn has a probability.
    drawn = uniform * cumulative[:, -1:]
    return np.asarray((cumulative <= drawn).sum(axis=-1), dtype=np.int64)


def next_token(
    logits: Logits,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    options: SamplingOptions | None = None,
    seen: Ids | None = None,
    generator: Randomness,
) -> Ids:
    """Draw one token a row from logits (B, V); gives ids (B,), each row drawn on its own.

    `options` stand in the place of `temperature` and `top_k`; `seen` as in `probabilities`.

    Raises:
        SamplingError: an option out of range, or logits that are not finite.
    """
    if options is None:
        options = SamplingOptions(temperature, top_k)
    return draw(probabilities(logits, options, seen), generator)


def sample_generators(seed: int, count: int) -> list[np.random.Generator]:
    """The random numbers of samples 0 to `count` - 1, each a stream of its own.

    That of one sample is the same whatever `count`, so that a sample drawn in a batch and the same
    drawn alone get the same numbers. (Their logits may differ in the last bit, as a matrix product
    of other shape adds in another order, and a draw very near an edge may then fall beyond it.)

    Raises:
        SamplingError: a negative seed.
    """
    if seed < 0:
        raise SamplingError(f"the seed is {seed}; it must be 0 or more")
    return [stream(seed, "samples", worker=sample) for sample in range(count)]


def check_ids(ids: Ids) -> None:
    """Raise `SamplingError` unless `ids` are integers (B, T), with a token to go on from."""
    if ids.shape[-1] == 0:
        raise SamplingError("the prompt is empty; give at least one token to go on from")
    if ids.ndim != 2 or ids.dtype.kind not in "iu":
        raise SamplingError(
            f"the prompt has shape {ids.shape} and dtype {ids.dtype}; give integer ids of shape "
            "(T,) or (B, T)"
        )


def continuations(
    predict: Predict,
    ids: Ids,
    *,
    max_new_tokens: int,
    block_size: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    options: SamplingOptions | None = None,
    generator: Randomness,
) -> Iterator[Ids]:
    """Yield (B,) new ids, `max_new_tokens` times, each drawn given all that came before it.

    `predict` is given the last `block_size` tokens, which is as far as the model sees; the
    repetition penalty looks at all there are, as Hugging Face's does. `options` stand in the place
    of `temperature` and `top_k`. What is given is checked at once, and not when the first token is
    asked for.

    Raises:
        SamplingError: an option out of range, a prompt that is none; with a token: logits that are
            not finite.
    """
    chosen = SamplingOptions(temperature, top_k) if options is None else options
    if max_new_tokens < 0:
        raise SamplingError(f"max_new_tokens is {max_new_tokens}; it must be 0 or more")
    check_ids(ids)

    def written(ids: Ids) -> Iterator[Ids]:
        for _ in range(max_new_tokens):
            chances = probabilities(predict(ids[:, -block_size:]), chosen, ids)
            new = draw(chances, generator)
            yield new
            ids = np.concatenate([ids, new[:, None]], axis=1)

    return written(ids)
