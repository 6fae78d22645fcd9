"""Writing with kept keys and values gives the logits of reading the text anew, for less work."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import lm, optim
from tinygrad_edu.lm import decoding
from tinygrad_edu.ops import registry

BLOCK = 8
GPT = lm.GPTConfig(vocab_size=11, block_size=BLOCK, num_layers=2, num_heads=2, embed_dim=16)
LLAMA = lm.LlamaConfig(vocab_size=11, block_size=BLOCK, num_layers=2, num_heads=4, embed_dim=16)
CONFIGS = {
    "gpt": GPT,
    "gpt with dropout": dataclasses.replace(GPT, dropout=0.5, bias=False),
    "llama": LLAMA,
    "llama, shared heads": dataclasses.replace(LLAMA, num_kv_heads=2),
    "llama, a head of its own": dataclasses.replace(LLAMA, num_kv_heads=1, tied_head=False),
}


def model_of(config: Any) -> lm.LanguageModel:
    make = lm.GPT if isinstance(config, lm.GPTConfig) else lm.Llama
    model = make(config, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    for parameter in model.parameters():  # far from the start, where all logits are nearly equal
        parameter.data = (parameter.data + rng.normal(0, 0.3, parameter.shape)).astype(np.float32)
    return model


@pytest.fixture(params=CONFIGS.values(), ids=CONFIGS)
def model(request: Any) -> lm.LanguageModel:
    return model_of(request.param)


def text(rows: int, length: int, seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 11, (rows, length))


def assert_same(found: Any, wanted: Any) -> None:
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("prompt", [1, 3, BLOCK])
def test_logits_are_those_without_a_cache_at_every_length_and_past_the_block(
    model: lm.LanguageModel, rows: int, prompt: int
) -> None:
    whole = text(rows, 2 * BLOCK + 3)
    predict = model.predictor()
    for end in range(prompt, whole.shape[1] + 1):
        window = whole[:end][:, max(0, end - BLOCK) : end]
        assert_same(predict(window), model.next_logits(window))


def test_any_order_of_texts_gives_the_logits_of_each(model: lm.LanguageModel) -> None:
    """Longer, shorter, another one, the same again, another number of rows."""
    a, b = text(2, BLOCK), text(2, BLOCK, seed=3)
    b[:, :3] = a[:, :3]
    b[1, 2] = (a[1, 2] + 1) % 11  # one row alone differs
    predict = model.predictor()
    for ids in (a[:, :5], a[:, :7], a[:, :4], a[:, :4], b[:, :6], b, a, a[:1], a[:1, :3], b[:, :2]):
        assert_same(predict(ids), model.next_logits(ids))


def test_ids_changed_in_place_by_the_caller_are_read_anew(model: lm.LanguageModel) -> None:
    ids, predict = text(1, 6), model.predictor()
    predict(ids)
    ids[0, 1] = (ids[0, 1] + 1) % 11
    assert_same(predict(ids), model.next_logits(ids))


def test_a_step_of_training_in_between_is_noticed(model: lm.LanguageModel) -> None:
    ids, predict = text(2, BLOCK), model.predictor()
    before = predict(ids)
    model.loss(ids, ids).backward()
    optim.SGD(model.parameters(), lr=0.5).step()
    after = predict(ids)
    assert np.abs(after - before).max() > 1e-3
    assert_same(after, model.next_logits(ids))


@pytest.mark.parametrize("length", [0, BLOCK + 1])
def test_a_text_that_does_not_fit_is_refused_as_without_a_cache(
    model: lm.LanguageModel, length: int
) -> None:
    ids, predict = text(1, BLOCK), model.predictor()
    predict(ids)
    for f in (predict, model.next_logits):
        with pytest.raises(tg.errors.ShapeError, match=f"given {length} tokens, expected 1 to 8"):
            f(text(1, length))
    assert_same(predict(ids), model.next_logits(ids))


def test_a_call_that_was_broken_off_leaves_nothing_wrong(
    model: lm.LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids, predict = text(1, 6), model.predictor()
    predict(ids[:, :3])
    last = model.blocks[1]
    with monkeypatch.context() as patch:
        patch.setattr(last, "forward", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            predict(ids)
    other = text(1, 6, seed=9)
    other[:, :4] = ids[:, :4]
    assert_same(predict(other), model.next_logits(other))


def test_without_a_cache_a_predictor_is_next_logits(model: lm.LanguageModel) -> None:
    ids = text(2, 5)
    np.testing.assert_array_equal(model.predictor(cache=False)(ids), model.next_logits(ids))


def test_predicting_leaves_the_model_as_it_was(model: lm.LanguageModel) -> None:
    model.blocks[0].eval()
    flags = [module.training for module in model.modules()]
    model.predictor()(text(1, 3))
    assert [module.training for module in model.modules()] == flags
    assert all(parameter.grad is None for parameter in model.parameters())
    assert tg.is_grad_enabled()


@pytest.mark.parametrize("prompt", [1, 5, 3 * BLOCK])
def test_writing_gives_the_text_that_it_gives_without_a_cache(
    model: lm.LanguageModel, prompt: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = text(2, prompt)
    written = model.generate(start, 2 * BLOCK, generator=np.random.default_rng(0))
    monkeypatch.setattr(model, "predictor", lambda: model.next_logits)
    wanted = model.generate(start, 2 * BLOCK, generator=np.random.default_rng(0))
    np.testing.assert_array_equal(written, wanted)


@pytest.mark.parametrize(("a", "b", "common"), [
    ([[1, 2, 3]], [[1, 2, 3]], 3), ([[1, 2, 3]], [[1, 2]], 2), ([[1, 2]], [[3, 2]], 0),
    ([[1, 2, 3], [1, 2, 3]], [[1, 2, 3], [1, 9, 3]], 1), ([[]], [[1]], 0),
])  # fmt: skip
def test_common_prefix(a: Any, b: Any, common: int) -> None:
    assert decoding.common_prefix(np.array(a), np.array(b)) == common


# Work, counted and not timed.


class Work:
    """Multiplications and additions of matrix products while it is open, and bytes copied."""

    flops = 0
    elements = 0

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        for name, primitive in registry.items():
            patch.setattr(primitive, "forward", self._watched(name, primitive.forward))

    def _watched(self, name: str, forward: Any) -> Any:
        def run(F: Any, *inputs: Any, **params: Any) -> Any:
            made = forward(F, *inputs, **params)
            out = made[0] if isinstance(made, tuple) else made
            if name == "linear":
                self.flops += 2 * out.size * inputs[1].shape[1]
            elif name in ("attention", "packed_attention"):
                width = out.shape[-1] // params.get("num_heads", 1)
                self.flops += 4 * made[1].size * width
            if getattr(out, "base", None) is None:
                self.elements += out.size
            return made

        return run


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    watched = Work()
    watched.watch(monkeypatch)
    return watched


@pytest.mark.parametrize("name", ["gpt", "llama", "llama, shared heads"])
@pytest.mark.parametrize("length", [64, 512])
def test_a_token_after_a_long_text_costs_its_own_row_and_a_look_at_each_key(
    name: str, length: int, work: Work
) -> None:
    config = dataclasses.replace(CONFIGS[name], block_size=1024)
    model = model_of(config)
    matrices = sum(p.size for n, p in model.named_parameters() if p.ndim == 2)
    tables = 1024 * 16 if name == "gpt" else 0  # looked up, not multiplied
    ids, predict = text(1, length + 1), model.predictor()
    predict(ids[:, :length])
    first = work.flops
    work.flops = work.elements = 0
    predict(ids)
    looks = config.num_layers * 4 * (length + 1) * config.embed_dim
    assert work.flops == 2 * (matrices - tables) + looks
    assert first > (length - 1) * 2 * (matrices - tables - 11 * 16)
    # Nothing as long as the text is made but a row of weights for each head, within attention.
    assert work.elements < 40 * config.embed_dim * config.num_layers


def test_keys_and_values_are_allocated_once(model: lm.LanguageModel) -> None:
    ids, predict = text(2, BLOCK), model.predictor()
    assert isinstance(predict, decoding.CachedPredictor)

    def memory() -> list[int]:
        kept = [array for cache in predict._caches for array in cache._arrays]
        return [array.__array_interface__["data"][0] for array in kept]

    predict(ids[:, :1])
    before = memory()
    assert len(before) == 4
    for end in range(2, BLOCK + 1):
        predict(ids[:, :end])
    predict(text(2, BLOCK, seed=5))  # another text, in the same memory
    assert memory() == before
