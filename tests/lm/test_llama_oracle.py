"""The Llama and its parts against transformers' and torch's, with random weights in float64.

transformers computes the angles of its rotation in float32 whatever the model's dtype, so that
whole models agree to about 1e-6 and not to the last bits; where we can give it our angles, they do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import lm, nn

pytestmark = pytest.mark.oracle

SIZES: dict[str, dict[str, Any]] = {
    "as many heads": {"num_kv_heads": 4},
    "two share": {"num_kv_heads": 2},
    "all share, untied": {"num_kv_heads": 1, "tied_head": False},
    "another theta and eps, untied": {
        "num_kv_heads": 2, "tied_head": False, "rope_theta": 500.0, "eps": 1e-2,
    },
}  # fmt: skip


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="torch, the judge, is not installed")


@pytest.fixture
def llama() -> Any:
    transformers = pytest.importorskip(
        "transformers", reason="transformers, the judge, is not installed"
    )
    return transformers.models.llama.modeling_llama


def config_of(llama: Any, ours: lm.LlamaConfig) -> Any:
    return llama.LlamaConfig(
        vocab_size=ours.vocab_size,
        hidden_size=ours.embed_dim,
        intermediate_size=ours.hidden_dim,
        num_hidden_layers=ours.num_layers,
        num_attention_heads=ours.num_heads,
        num_key_value_heads=ours.num_kv_heads,
        max_position_embeddings=ours.block_size,
        rms_norm_eps=ours.eps,
        rope_parameters={"rope_type": "default", "rope_theta": ours.rope_theta},
        tie_word_embeddings=ours.tied_head,
        attn_implementation="eager",
    )


def their_name(name: str) -> str:
    """The name that transformers has for one of our weights."""
    for ours, theirs in (
        ("token_embedding", "model.embed_tokens"), ("final_norm", "model.norm"),
        ("head", "lm_head"), ("blocks", "model.layers"), ("norm_1", "input_layernorm"),
        ("norm_2", "post_attention_layernorm"), ("out_proj", "o_proj"), ("gate", "gate_proj"),
        ("up", "up_proj"), ("down", "down_proj"), ("attn", "self_attn"),
    ):  # fmt: skip
        name = ".".join(theirs if part == ours else part for part in name.split("."))
    return name


def close(ours: Any, theirs: Any, tolerance: float, what: str = "") -> None:
    theirs = theirs.detach().numpy()
    size = np.abs(theirs).max()
    assert size > 0, what
    assert np.abs(ours - theirs).max() <= tolerance * size, what


def spread(module: nn.Module) -> nn.Module:
    """Every weight far from where it starts: norms are not 1, logits not nearly equal."""
    rng = np.random.default_rng(3)
    module.to(np.float64)
    for parameter in module.parameters():
        parameter.data = parameter.data + rng.normal(0, 0.3, parameter.shape)
    return module


@pytest.mark.parametrize("name", SIZES)
def test_logits_and_gradients_are_those_of_transformers(torch: Any, llama: Any, name: str) -> None:
    config = lm.LlamaConfig(
        vocab_size=17, block_size=32, num_layers=2, num_heads=4, embed_dim=24, **SIZES[name]
    )
    ours = spread(lm.Llama(config, np.random.default_rng(0)))
    theirs = llama.LlamaForCausalLM(config_of(llama, config)).double().eval()
    state = {
        their_name(n): torch.tensor(p.data.copy()) for n, p in ours.named_parameters()
    }
    missing, unexpected = theirs.load_state_dict(state, strict=False)
    assert not unexpected
    assert set(missing) <= ({"lm_head.weight"} if config.tied_head else set())
    theirs.tie_weights()

    ids = np.random.default_rng(1).integers(0, 17, (3, 33))
    logits = theirs(torch.tensor(ids[:, :-1])).logits
    close(ours(ids[:, :-1]).data, logits, 1e-5)
    targets = ids[:, 1:].copy()
    targets[0, :20] = -100
    loss = ours.loss(ids[:, :-1], targets)
    judged = torch.nn.functional.cross_entropy(
        logits.reshape(-1, 17), torch.tensor(targets).reshape(-1)
    )
    assert loss.item() == pytest.approx(judged.item(), rel=1e-6)
    loss.backward()
    judged.backward()
    found = dict(theirs.named_parameters())
    for n, parameter in ours.named_parameters():
        assert parameter.grad is not None
        close(parameter.grad.data, found[their_name(n)].grad, 1e-5, n)

    predict = ours.predictor()
    for end in (1, 7, 8, 32):
        close(predict(ids[:, :end]), logits[:, end - 1], 1e-5)


def test_rms_norm(torch: Any) -> None:
    ours = spread(nn.RMSNorm(6, eps=1e-3))
    theirs = torch.nn.RMSNorm(6, eps=1e-3).double()
    theirs.load_state_dict({"weight": torch.tensor(ours.weight.data.copy())})  # type: ignore[union-attr]
    both(torch, ours, theirs, np.random.default_rng(0).normal(size=(2, 3, 6)))


def test_swiglu(torch: Any, llama: Any) -> None:
    ours = spread(nn.SwiGLU(6, 10))
    small = llama.LlamaConfig(hidden_size=6, intermediate_size=10, num_attention_heads=1)
    theirs = llama.LlamaMLP(small).double()
    theirs.load_state_dict(
        {their_name(n): torch.tensor(p.data.copy()) for n, p in ours.named_parameters()}
    )
    both(torch, ours, theirs, np.random.default_rng(0).normal(size=(2, 3, 6)))


def both(torch: Any, ours: Any, theirs: Any, x: Any) -> None:
    """Outputs and the input's gradient, to the last bits."""
    mine, judged = tg.Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    got, wanted = ours(mine), theirs(judged)
    close(got.data, wanted, 1e-13)
    weights = np.random.default_rng(9).normal(size=got.shape)
    (got * weights).sum().backward()
    (wanted * torch.tensor(weights)).sum().backward()
    assert mine.grad is not None
    close(mine.grad.data, judged.grad, 1e-13)


def test_rotary_is_hugging_faces(torch: Any, llama: Any) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 20, 8))
    # Our angles, read off from how (1, 0) is turned; theirs are the same to float32.
    axes = np.concatenate([np.ones((20, 4)), np.zeros((20, 4))], axis=1)
    turned = tg.rotary(axes, theta=300.0).data
    cos, sin = (np.concatenate([part, part], axis=1) for part in (turned[:, :4], turned[:, 4:]))
    judged, _ = llama.apply_rotary_pos_emb(
        torch.tensor(x), torch.tensor(x), torch.tensor(cos)[None], torch.tensor(sin)[None]
    )
    close(tg.rotary(x, theta=300.0).data, judged, 1e-14)
    config = config_of(llama, lm.LlamaConfig(9, num_heads=1, embed_dim=8, rope_theta=300.0))
    theirs = llama.LlamaRotaryEmbedding(config)(torch.tensor(x), torch.arange(20)[None])
    for mine, judge in zip((cos, sin), theirs, strict=True):
        close(mine, judge[0], 2e-6)


@pytest.mark.parametrize("shared", [1, 2, 4])
def test_grouped_attention_is_torchs(torch: Any, shared: int) -> None:
    module = spread(nn.GroupedQueryAttention(16, 4, shared, rotary=False))
    assert isinstance(module, nn.GroupedQueryAttention)
    x = np.random.default_rng(0).normal(size=(2, 5, 16))
    raw = torch.tensor(x)
    heads = [
        (raw @ torch.tensor(part.weight.data).T).reshape(2, 5, -1, 4).transpose(1, 2)
        for part in (module.q_proj, module.k_proj, module.v_proj)
    ]
    mixed = torch.nn.functional.scaled_dot_product_attention(
        *heads, is_causal=True, enable_gqa=True
    )
    out = torch.tensor(module.out_proj.weight.data)
    wanted = mixed.transpose(1, 2).reshape(2, 5, 16) @ out.T
    close(module(tg.tensor(x)).data, wanted, 1e-13)
