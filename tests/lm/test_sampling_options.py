"""What is drawn from: the filters, each against its definition, and their order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinygrad_edu import lm
from tinygrad_edu.lm.sampling import draw, probabilities

LOGITS = st.lists(st.floats(-1e3, 1e3) | st.sampled_from([0.0, 1.0, 2.0]), min_size=1, max_size=9)
OPTIONS = st.builds(
    lm.SamplingOptions,
    temperature=st.sampled_from([0.0, 5e-324, 0.5, 1.0, 3.0, 1e300]),
    top_k=st.sampled_from([None, 0, 1, 2, 5, 100]),
    top_p=st.sampled_from([1e-9, 0.3, 0.5, 0.9, 1.0]),
    min_p=st.sampled_from([0.0, 0.1, 0.5, 0.999]),
    repetition_penalty=st.sampled_from([1e-300, 0.5, 1.0, 1.3, 1e300]),
)


def of(logits: list[float], seen: list[int] | None = None, **options: Any) -> np.ndarray:
    ids = None if seen is None else np.array([seen], dtype=np.int64)
    return probabilities(np.array([logits]), lm.SamplingOptions(**options), ids)[0]


def softmax(logits: Any) -> np.ndarray:
    powers = np.exp(np.asarray(logits) - np.max(logits))
    return np.asarray(powers / powers.sum())


@given(LOGITS, OPTIONS, st.data())
def test_whatever_the_options_something_is_kept_and_sums_to_one(
    logits: list[float], options: lm.SamplingOptions, data: st.DataObject
) -> None:
    ids = st.integers(0, len(logits) - 1)
    seen = np.array([data.draw(st.lists(ids, max_size=5))], dtype=np.int64)
    found = probabilities(np.array([logits]), options, seen)
    assert (found >= 0).all() and found.sum() == pytest.approx(1, abs=1e-12)
    kept = np.count_nonzero(found)
    assert 1 <= kept <= (options.top_k or len(logits))
    token = draw(found, np.random.default_rng(0))
    assert found[0, token[0]] > 0


@given(LOGITS, st.integers(1, 12))
def test_top_k_keeps_exactly_k_though_they_tie(logits: list[float], k: int) -> None:
    found = of(logits, top_k=k, temperature=1e3)  # so hot that nothing vanishes
    wanted = sorted(range(len(logits)), key=lambda i: (-logits[i], i))[:k]
    assert set(np.flatnonzero(found)) == set(wanted)
    np.testing.assert_allclose(
        found[wanted], softmax(np.array(logits)[wanted] / 1e3), rtol=1e-9
    )


@given(LOGITS, st.floats(1e-6, 1.0))
def test_top_p_keeps_the_smallest_set_that_reaches_p(logits: list[float], p: float) -> None:
    whole = softmax(logits)
    kept = np.flatnonzero(of(logits, top_p=p))
    rounding = 1e-12
    assert whole[kept].sum() >= p - rounding
    assert whole[kept].sum() - whole[kept].min() < p + rounding  # one fewer would not do
    others = np.delete(whole, kept)
    assert others.size == 0 or others.max() <= whole[kept].min() + rounding


@given(LOGITS, st.floats(0, 0.999))
def test_min_p_drops_what_is_less_likely_than_a_share_of_the_likeliest(
    logits: list[float], share: float
) -> None:
    whole = softmax(logits)
    kept = set(np.flatnonzero(of(logits, min_p=share)))
    for i, chance in enumerate(whole):
        if abs(chance - share * whole.max()) > 1e-12:
            assert (i in kept) == (chance >= share * whole.max() and chance > 0)


@given(LOGITS, OPTIONS)
def test_every_filter_only_takes_away(logits: list[float], options: lm.SamplingOptions) -> None:
    """More filters keep a subset, and the ratios of what is kept are those of the softmax."""
    temperature = options.temperature or 1.0
    plain = of(logits, temperature=temperature)
    cut = of(
        logits, temperature=temperature, top_k=options.top_k, top_p=options.top_p,
        min_p=options.min_p,
    )  # fmt: skip
    fewer = of(logits, temperature=temperature, top_k=options.top_k)
    kept = cut > 0
    assert (plain[kept] > 0).all() and (fewer[kept] > 0).all()
    np.testing.assert_allclose(cut[kept], plain[kept] / plain[kept].sum(), rtol=1e-9)


def test_top_p_counts_after_top_k_has_cut() -> None:
    """Of 0.4 0.3 0.2 0.1 the two likeliest are 4/7 and 3/7, of which the first alone reaches a
    half: Hugging Face's order. Top-p first would keep two.
    """
    logits = np.log([0.4, 0.3, 0.2, 0.1]).tolist()
    np.testing.assert_allclose(of(logits, top_k=2, top_p=0.5), [1, 0, 0, 0])
    np.testing.assert_allclose(of(logits, top_p=0.5), [4 / 7, 3 / 7, 0, 0])


def test_filters_see_what_the_temperature_has_made() -> None:
    logits = np.log([0.4, 0.3, 0.2, 0.1]).tolist()
    assert np.count_nonzero(of(logits, top_p=0.6, temperature=100.0)) == 3
    assert np.count_nonzero(of(logits, top_p=0.6, temperature=0.1)) == 1
    assert np.count_nonzero(of(logits, min_p=0.5, temperature=100.0)) == 4


def test_a_penalty_divides_positive_logits_and_multiplies_negative_ones() -> None:
    """Each token that was seen once or often, the others stay; before the temperature."""
    found = of([2.0, -2.0, 1.0, -1.0], seen=[0, 1, 0, 0], repetition_penalty=2.0)
    np.testing.assert_allclose(found, softmax([1.0, -4.0, 1.0, -1.0]), rtol=1e-12)
    assert of([2.0, 1.5], seen=[0], repetition_penalty=2.0, temperature=0).tolist() == [0, 1]
    np.testing.assert_array_equal(of([2.0, 1.0], repetition_penalty=2.0), of([2.0, 1.0]))
    np.testing.assert_array_equal(of([2.0, 1.0], seen=[], repetition_penalty=2.0), of([2.0, 1.0]))


def test_each_row_has_its_own_past() -> None:
    options = lm.SamplingOptions(repetition_penalty=4.0)
    found = probabilities(np.array([[2.0, 1.0]] * 2), options, np.array([[0], [1]]))
    np.testing.assert_allclose(found, [softmax([0.5, 1.0]), softmax([2.0, 0.25])])


def test_what_was_written_counts_as_seen_beyond_the_block() -> None:
    """Every token the likeliest in turn: a penalty without end walks through the vocabulary."""
    logits = np.arange(6.0, 0.0, -1.0)[None, :]
    new = lm.sampling.continuations(
        lambda ids: logits, np.array([[0]]), max_new_tokens=5, block_size=2,
        options=lm.SamplingOptions(temperature=0, repetition_penalty=1e6),
        generator=np.random.default_rng(0),
    )  # fmt: skip
    assert [int(ids[0]) for ids in new] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_not_finite_are_refused(bad: float, temperature: float) -> None:
    with pytest.raises(lm.SamplingError, match="not all finite"):
        of([0.0, bad], temperature=temperature)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": -0.1}, "temperature is -0.1; it must be 0"),
        ({"temperature": float("inf")}, "temperature is inf"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_k": -1}, "top_k is -1; it must be 1 or more, or 0"),
        ({"top_k": 2.5}, "top_k is 2.5"),
        ({"top_p": 0.0}, "top_p is 0.0; it must be more than 0 and at most 1"),
        ({"top_p": 1.1}, "top_p is 1.1"),
        ({"top_p": float("nan")}, "top_p is nan"),
        ({"min_p": -0.1}, "min_p is -0.1; it must be 0"),
        ({"min_p": 1.0}, "min_p is 1.0"),
        ({"repetition_penalty": 0.0}, "repetition penalty is 0.0; it must be more than 0"),
        ({"repetition_penalty": float("inf")}, "repetition penalty is inf"),
    ],
)
def test_what_cannot_be_meant_is_refused_when_it_is_said(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(lm.SamplingError, match=words):
        lm.SamplingOptions(**options)


class AlmostOne(np.random.Generator):
    """Draws the largest number below 1 always."""

    def random(self, size: Any = None) -> Any:  # type: ignore[override]
        return np.full(size, np.nextafter(1, 0))


def test_a_draw_at_the_very_end_is_still_a_token_with_a_probability() -> None:
    """Whatever the probabilities add up to, when rounded."""
    generator = AlmostOne(np.random.PCG64(0))
    for end in (*np.linspace(0.5, 2, 99), np.nextafter(1, 2), np.nextafter(1, 0), 1e-300):
        chances = np.array([[0.25, 0.0, 0.75, 0.0]]) * end
        assert draw(chances, generator).tolist() == [2]


def test_many_samples_are_independent_and_each_is_what_it_is_alone() -> None:
    """With uniform logits 64 first tokens are not one token 64 times; a sample's numbers do not
    depend on how many there are.
    """

    def uniform(ids: np.ndarray) -> np.ndarray:
        return np.zeros((len(ids), 50))

    def written(count: int) -> np.ndarray:
        new = lm.sampling.continuations(
            uniform, np.zeros((count, 1), np.int64), max_new_tokens=20, block_size=4,
            generator=lm.sample_generators(5, count),
        )  # fmt: skip
        return np.stack(list(new), axis=1)

    batch = written(64)
    assert len(set(batch[:, 0].tolist())) > 20
    assert len({tuple(row) for row in batch.tolist()}) == 64
    np.testing.assert_array_equal(written(1), batch[:1])
    np.testing.assert_array_equal(written(3), batch[:3])
    again = lm.sampling.continuations(
        uniform, np.zeros((1, 1), np.int64), max_new_tokens=20, block_size=4,
        generator=lm.sample_generators(5, 64)[63],
    )  # fmt: skip
    assert [int(ids[0]) for ids in again] == batch[63].tolist()


def test_generators_are_one_or_one_a_row() -> None:
    with pytest.raises(lm.SamplingError, match="3 rows are to be drawn with 2 generators"):
        draw(np.full((3, 2), 0.5), lm.sample_generators(1, 2))
    with pytest.raises(lm.SamplingError, match="the seed is -1"):
        lm.sample_generators(-1, 2)


def test_a_model_takes_the_options() -> None:
    model = lm.GPT(lm.GPTConfig(9, block_size=4, num_layers=1, num_heads=1, embed_dim=4))
    greedy = model.generate([1, 2], 6, temperature=0)
    options = lm.SamplingOptions(top_p=1e-9)
    np.testing.assert_array_equal(model.generate([1, 2], 6, options=options), greedy)
    rows = model.generate([[1, 2]] * 3, 6, generator=lm.sample_generators(1, 3))
    assert rows.shape == (3, 8) and len({tuple(row) for row in rows.tolist()}) == 3


@pytest.mark.oracle
@given(
    st.lists(st.floats(-8, 8, width=32), min_size=2, max_size=9, unique=True),
    st.sampled_from([0.5, 1.0, 2.0]), st.sampled_from([0, 1, 3, 20]),
    st.sampled_from([0.2, 0.7, 0.95, 1.0]), st.sampled_from([0.0, 0.05, 0.4]),
    st.sampled_from([0.7, 1.0, 1.8]), st.lists(st.integers(0, 1), min_size=1, max_size=4),
)  # fmt: skip
def test_probabilities_are_those_of_hugging_face(
    logits: list[float], temperature: float, top_k: int, top_p: float, min_p: float,
    penalty: float, seen: list[int],
) -> None:  # fmt: skip
    torch = pytest.importorskip("torch", reason="torch is an independent judge")
    hf = pytest.importorskip(
        "transformers.generation.logits_process", reason="transformers is an independent judge"
    )
    scores = torch.tensor([logits], dtype=torch.float64)
    ids = torch.tensor([seen])
    steps = [hf.RepetitionPenaltyLogitsProcessor(penalty), hf.TemperatureLogitsWarper(temperature)]
    if top_k:
        steps.append(hf.TopKLogitsWarper(top_k))
    steps += [hf.TopPLogitsWarper(top_p), hf.MinPLogitsWarper(min_p)]
    for step in steps:
        scores = step(ids, scores)
    expected = scores.softmax(-1).numpy()[0]
    found = of(
        logits, seen, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p,
        repetition_penalty=penalty,
    )  # fmt: skip
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-15)


def test_what_just_reaches_top_p_is_enough_and_what_just_reaches_min_p_stays() -> None:
    logits = np.log([[0.5, 0.25, 0.25]])
    assert probabilities(logits)[0].tolist() == [0.5, 0.25, 0.25]
    for top_p, kept in ((0.5, 1), (0.75, 2), (0.76, 3)):
        chances = probabilities(logits, lm.SamplingOptions(top_p=top_p))
        assert np.count_nonzero(chances) == kept
    for min_p, kept in ((0.5, 3), (0.51, 1)):
        chances = probabilities(logits, lm.SamplingOptions(min_p=min_p))
        assert np.count_nonzero(chances) == kept


class _Always(np.random.Generator):
    """A generator that gives one number."""

    def __init__(self, number: float) -> None:
        super().__init__(np.random.PCG64(0))
        self.number = number

    def random(self, *given: Any, **options: Any) -> Any:
        return self.number


@pytest.mark.parametrize("number", [0.0, 0.5, math.nextafter(1.0, 0.0)])
def test_what_has_no_chance_is_never_drawn_whatever_the_number(number: float) -> None:
    chances = np.array([[0.0, 0.5, 0.0, 0.5, 0.0]])
    (drawn,) = draw(chances, [_Always(number)])
    assert drawn == (1 if number < 0.5 else 3)
