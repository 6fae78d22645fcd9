"""Writes new text with a model: one token at a time, each drawn from what the model predicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_edu.lm.errors import SamplingError

Ids = NDArray[np.int64]
Logits = NDArray[Any]


def check_options(temperature: float, top_k: int | None, max_new_tokens: int = 0) -> None:
    """Raise `SamplingError` for options that mean nothing, naming the option and its range."""
    if not 0 <= temperature < np.inf:
        raise SamplingError(
            f"the temperature is {temperature}; it must be 0 (always the likeliest token) or more"
        )
    if top_k is not None and top_k < 0:
        raise SamplingError(f"top_k is {top_k}; it must be 1 or more, or 0 to keep every token")
    if max_new_tokens < 0:
        raise SamplingError(f"max_new_tokens is {max_new_tokens}; it must be 0 or more")


def check_ids(ids: Ids) -> None:
    """Raise `SamplingError` unless `ids` are integers (B, T), with a token to go on from."""
    if ids.shape[-1] == 0:
        raise SamplingError("the prompt is empty; give at least one token to go on from")
    if ids.ndim != 2 or ids.dtype.kind not in "iu":
        raise SamplingError(
            f"the prompt has shape {ids.shape} and dtype {ids.dtype}; give integer ids of shape "
            "(T,) or (B, T)"
        )


def next_token(
    logits: Logits,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    generator: np.random.Generator,
) -> Ids:
    """Draw one token a row from logits (B, V); gives ids (B,), each row drawn on its own.

    `temperature` divides the logits: below 1 the likely gets likelier, and 0 takes the likeliest.
    `top_k` keeps exactly the k likeliest (of equals, the smaller id); 0 or None keeps all.

    Raises:
        SamplingError: an option out of range, or logits that are not finite.
    """
    check_options(temperature, top_k)
    scores = np.array(logits, dtype=np.float64)
    if not np.isfinite(scores).all():
        raise SamplingError(
            "the model's logits are not all finite, so no token can be drawn; "
            "its training diverged: use an earlier checkpoint or train with a lower learning rate"
        )
    if temperature == 0:
        return np.asarray(scores.argmax(axis=-1), dtype=np.int64)
    if top_k:
        likeliest_first = np.argsort(-scores, axis=-1, kind="stable")
        np.put_along_axis(scores, likeliest_first[:, top_k:], -np.inf, axis=-1)
    scores -= scores.max(axis=-1, keepdims=True)
    with np.errstate(over="ignore"):
        cumulative = np.exp(scores / temperature).cumsum(axis=-1)
    drawn = generator.random((len(scores), 1)) * cumulative[:, -1:]
    return np.asarray((cumulative <= drawn).sum(axis=-1), dtype=np.int64)


def continuations(
    predict: Callable[[Ids], Logits],
    ids: Ids,
    *,
    max_new_tokens: int,
    block_size: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    generator: np.random.Generator,
) -> Iterator[Ids]:
    """Yield (B,) new ids, `max_new_tokens` times, each drawn given all that came before it.

    `predict` maps ids (B, T) to the logits (B, V) of the token after them; it is given the last
    `block_size` tokens, which is as far as the model sees. What is given is checked at once, and
    not when the first token is asked for.
    """
    check_options(temperature, top_k, max_new_tokens)
    check_ids(ids)

    def draw(ids: Ids) -> Iterator[Ids]:
        for _ in range(max_new_tokens):
            ids = ids[:, -block_size:]
            logits = predict(ids)
            new = next_token(logits, temperature=temperature, top_k=top_k, generator=generator)
            yield new
            ids = np.concatenate([ids, new[:, None]], axis=1)

    return draw(ids)
