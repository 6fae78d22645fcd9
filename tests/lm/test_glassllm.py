"""The weights that the package glassllm carries, as a Llama of ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import lm
from tinygrad_edu.cli import main
from tinygrad_edu.lm.glassllm import in_halves, load_glassllm
from tinygrad_edu.lm.glassllm_tokenizer import load_glass_tokenizer
from tinygrad_edu.text import TokenizerError


def file_of(path: Path, **changes: Any) -> Path:
    """A tiny file of that form, with some of its arrays changed or, where None, left out."""
    shapes = {
        "E": (11, 8), "norm_f.gamma": (8,), "blocks.0.norm1.gamma": (8,),
        "blocks.0.norm2.gamma": (8,), "blocks.0.attn.W_Q": (8, 8), "blocks.0.attn.W_K": (8, 4),
        "blocks.0.attn.W_V": (8, 4), "blocks.0.attn.W_O": (8, 8), "blocks.0.ffn.W1": (8, 5),
        "blocks.0.ffn.W3": (8, 5), "blocks.0.ffn.W2": (5, 8),
    }  # fmt: skip
    sizes = {
        "vocab_size": 11, "d_model": 8, "n_layers": 1, "n_heads": 2, "n_kv_heads": 1,
        "max_len": 6, "rope_base": 10000.0, "eps": 1e-6, "init_std": 0.02,
    }  # fmt: skip
    generator = np.random.default_rng(0)
    arrays = {n: generator.normal(size=s).astype(np.float16) for n, s in shapes.items()}
    arrays |= changes
    kept = {n: a for n, a in arrays.items() if a is not None}
    np.savez(path, __config__=np.array(json.dumps(sizes)), **kept)
    return path


def test_pairs_side_by_side_become_halves() -> None:
    rows = np.arange(8)[:, None]
    assert in_halves(rows, 4).ravel().tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_a_file_is_read_and_what_does_not_fit_is_named(tmp_path: Path) -> None:
    path = tmp_path / "weights.npz"
    model = load_glassllm(file_of(path))
    assert model.config.num_kv_heads == 1 and model.config.hidden_dim == 5
    with pytest.raises(lm.RunError, match=r"lacks norm_f\.gamma"):
        load_glassllm(file_of(path, **{"norm_f.gamma": None}))
    with pytest.raises(lm.RunError, match="holds extra beside"):
        load_glassllm(file_of(path, extra=np.zeros(3)))
    with pytest.raises(lm.RunError, match=r"does not fit its own config: .*k_proj"):
        load_glassllm(file_of(path, **{"blocks.0.attn.W_K": np.zeros((8, 8))}))
    path.write_bytes(b"nothing")
    with pytest.raises(lm.RunError, match="is no weight file of glassllm"):
        load_glassllm(path)


@pytest.mark.oracle
@pytest.mark.parametrize("language", ["pt", "en"])
def test_its_own_logits_and_its_own_greedy_text(language: str) -> None:
    glassllm = pytest.importorskip("glassllm", reason="glassllm is not installed")
    theirs, tokenizer = glassllm.load_pretrained(language)
    ours = load_glassllm(language)
    assert ours.num_parameters() == 852_608
    ids = np.random.default_rng(0).integers(0, ours.config.vocab_size, (2, 100))
    with tg.no_grad():
        found = ours(ids).numpy()
    assert np.allclose(found, theirs.forward(ids).data, atol=2e-4)
    start = tokenizer.encode("o mar" if language == "pt" else "the sea")
    wanted = [step.token for step in theirs.generate(start, 40, greedy=True)]
    assert ours.generate(start, 40, temperature=0)[len(start) :].tolist() == wanted


def test_a_rotation_of_neighbours_becomes_one_of_halves() -> None:
    """Scores of turned queries and keys are the same in both conventions."""
    rng = np.random.default_rng(0)
    query, key = rng.normal(size=(2, 8, 5))
    x, y = rng.normal(size=(2, 5))
    angles = np.array([3.0, 0.7, 0.2, 0.01])
    cos, sin = np.cos(angles), np.sin(angles)

    def neighbours(v: Any, way: int) -> Any:
        a, b = v[0::2], v[1::2]
        return np.stack([a * cos - way * b * sin, way * a * sin + b * cos], 1).ravel()

    def halves(v: Any, way: int) -> Any:
        a, b = v[:4], v[4:]
        return np.concatenate([a * cos - way * b * sin, way * a * sin + b * cos])

    wanted = neighbours(query @ x, 1) @ neighbours(key @ y, -1)
    found = halves(in_halves(query, 8) @ x, 1) @ halves(in_halves(key, 8) @ y, -1)
    assert found == pytest.approx(wanted, abs=1e-12)


def test_without_the_package_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for load in (load_glassllm, load_glass_tokenizer):
        with pytest.raises(lm.RunError, match="pip install glassllm"):
            load("pt")


@pytest.mark.oracle
def test_its_tokenizer_has_the_methods_of_ours(tmp_path: Path) -> None:
    pytest.importorskip("glassllm", reason="glassllm is not installed")
    tokenizer = load_glass_tokenizer("pt")
    text = "O coração, à noite;\nnão dorme."
    ids = tokenizer.encode_array(text)
    assert tokenizer.decode(ids) == text
    assert b"".join(map(tokenizer.token_bytes, ids.tolist())).decode() == text
    stream = tokenizer.stream()
    assert "".join(map(stream.feed, ids.tolist())) + stream.flush() == text
    assert tokenizer.token_bytes(0) == b""
    with pytest.raises(TokenizerError, match="'☃' is not among"):
        tokenizer.encode("neve ☃")
    with pytest.raises(TokenizerError, match="1024 is not a token"):
        tokenizer.token_bytes(1024)
    with pytest.raises(lm.RunError, match=r"de\.tokenizer\.json is no tokenizer of glassllm's"):
        load_glass_tokenizer("de", tmp_path)


@pytest.mark.oracle
def test_a_command_takes_its_name_and_writes_its_greedy_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    glassllm = pytest.importorskip("glassllm", reason="glassllm is not installed")
    theirs, tokenizer = glassllm.load_pretrained("pt")
    steps = theirs.generate(tokenizer.encode("A casa"), 20, greedy=True)
    wanted = tokenizer.decode([step.token for step in steps])
    options = ["--max-new-tokens", "20", "--temperature", "0"]
    assert main(["sample", "glassllm-pt", "A casa", *options]) == 0
    assert capsys.readouterr().out == f"A casa{wanted}\n"
