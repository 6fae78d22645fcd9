"""Models of others whose ids are not ours: special tokens first, gaps, more rows than tokens."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygrad_edu import lm, text
from tinygrad_edu.cli import main
from tinygrad_edu.lm.report_data import kind_of, label
from tinygrad_edu.lm.vocabulary import token_lengths, unused, written_by

TEXT = "Speak, speak, in 1999 of 12 cafés 😀.\n" * 3


def tokenizer(gap: int) -> text.BPETokenizer:
    """Two special tokens first, then bytes, with `gap` ids left out among them."""
    ids = [i + 2 + (gap if i >= 60 else 0) for i in range(256)]
    return text.BPETokenizer([], special_tokens={"<|endoftext|>": 0, "<|x|>": 1}, ids=ids)


def folder_of(tmp_path: Path, gap: int, rows: int) -> Path:
    """A model that is sure of the ids that stand for nothing, as far as it has any."""
    own = tokenizer(gap)
    config = lm.LlamaConfig(own.vocab_size + rows, 96, 1, 2, 1, 16, tied_head=False)
    model = lm.Llama(config, np.random.default_rng(0))
    favoured = [*unused(own), *range(own.vocab_size, config.vocab_size)]
    assert len(favoured) == gap + rows and model.head is not None
    head = model.head.weight.detach().numpy().copy()
    head[favoured] *= 1000.0
    model.head.weight.data = head
    return lm.save_huggingface(model, tmp_path / "folder", own)


@pytest.mark.parametrize(("gap", "rows"), [(0, 7), (20, 0)])
def test_ids_that_stand_for_nothing_are_never_written(
    gap: int, rows: int, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    folder = str(folder_of(tmp_path, gap, rows))
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    data = tmp_path / "chat.json"
    data.write_text(json.dumps([{"instruction": str(i), "output": "é"} for i in range(8)]))
    run, merged, out = (str(tmp_path / name) for name in ("run", "merged", "out"))

    def made(*arguments: str) -> str:
        assert main(list(arguments)) == 0, arguments
        return capsys.readouterr().out

    made("sample", folder, "In", "--temperature", "100", "--max-new-tokens", "60")
    made("sample", folder, "In", "--temperature", "0", "--max-new-tokens", "5")
    made("sample", folder, "In", "--show-probabilities", "--max-new-tokens", "5")
    assert "text.txt" in made("eval", folder, str(tmp_path / "text.txt"))
    made(
        "finetune", folder, "--data", str(data), "--lora-rank", "2", "--steps", "2", "--threads",
        "1", "--run", run, "--learning-rate", "1e-6",
    )  # fmt: skip
    assert "<no token" not in made("merge", run, "-o", merged)
    monkeypatch.setattr("sys.stdin", io.StringIO("3\n"))
    assert "model> " in made("chat", merged, "--temperature", "100", "--max-new-tokens", "40")
    made("export", run, out)
    own = tokenizer(gap)
    for at in (folder, merged, out):
        assert lm.load_trained(at).tokenizer == own
    assert lm.load_trained(out).model.config.vocab_size == own.vocab_size + rows


def test_a_run_of_ours_with_such_a_tokenizer_writes_samples(tmp_path: Path) -> None:
    tokenizer(40).save(tmp_path / "tok.json")
    (tmp_path / "text.txt").write_text(TEXT * 20, encoding="utf-8")
    config = lm.TrainConfig(
        corpus=(str(tmp_path / "text.txt"),), tokenizer=str(tmp_path / "tok.json"), steps=1,
        num_layers=1, num_heads=2, embed_dim=16, block_size=16, threads=1, sample_length=100,
        tune_allocator=False, run=tmp_path / "run",
    )  # fmt: skip
    assert (lm.train(config).run / "report.html").exists()


def test_such_ids_have_no_chance_no_bytes_and_a_name() -> None:
    own = tokenizer(20)
    first = unused(own)[0]
    assert unused(own) == list(range(62, 82)) and unused(tokenizer(0)) == []
    lengths = token_lengths(own)
    assert len(lengths) == own.vocab_size and lengths[first] == 0 and lengths[61] == 1
    assert label(own, first) == "<no token 62>" and kind_of(own, first) == "space"
    logits = np.full((2, own.vocab_size + 3), 5.0, np.float32)
    logits[:, first] = 1e6
    chances = lm.sampling.probabilities(written_by(lambda _: logits, own)(np.zeros((2, 1), int)))
    assert chances.shape == (2, own.vocab_size)
    assert (chances[:, unused(own)] == 0).all() and logits[0, first] == 1e6
    assert np.allclose(np.delete(chances, unused(own), axis=1), 1 / 258)


@pytest.mark.oracle
@pytest.mark.parametrize(("gap", "rows"), [(0, 0), (0, 40), (20, 21)])
def test_a_folder_of_theirs_with_digits_and_special_tokens_first(
    gap: int, rows: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch", reason="torch, the judge, is not installed")
    transformers: Any = pytest.importorskip("transformers")
    tokenizers: Any = pytest.importorskip("tokenizers")
    before = tokenizers.pre_tokenizers
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE())
    theirs.pre_tokenizer = before.Sequence(
        [before.Digits(individual_digits=True), before.ByteLevel(add_prefix_space=False)]
    )
    theirs.decoder = tokenizers.decoders.ByteLevel()
    theirs.train_from_iterator(
        [TEXT * 10], tokenizers.trainers.BpeTrainer(
            vocab_size=300, special_tokens=["<|endoftext|>", "<|im_start|>"], min_frequency=1,
            initial_alphabet=before.ByteLevel.alphabet(), show_progress=False,
        )
    )  # fmt: skip
    content = json.loads(theirs.to_str())
    ids = content["model"]["vocab"]
    content["model"]["vocab"] = {t: i + gap if i >= 280 else i for t, i in ids.items()}
    theirs = tokenizers.Tokenizer.from_str(json.dumps(content))
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=len(ids) + rows, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, intermediate_size=32, max_position_embeddings=96,
    ))  # fmt: skip
    folder = tmp_path / "theirs"
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    trained = lm.load_trained(folder)
    right = theirs.encode(TEXT).ids
    assert trained.tokenizer.encode(TEXT) == right
    assert trained.tokenizer.decode(right) == TEXT
    data = tmp_path / "chat.jsonl"
    data.write_text("\n".join(json.dumps({"instruction": str(i), "output": "é"}) for i in range(8)))
    run, out = str(tmp_path / "run"), str(tmp_path / "out")
    tuning = ["finetune", str(folder), "--data", str(data), "--lora-rank", "2", "--steps", "2"]
    assert main([*tuning, "--threads", "1", "--run", run]) == 0
    assert main(["export", run, out]) == 0
    capsys.readouterr()
    window = np.array(right[:96])[None, :]
    ours = lm.load_trained(run).model(window).detach().numpy()
    with torch.no_grad():
        again = transformers.AutoModelForCausalLM.from_pretrained(out)(torch.tensor(window)).logits
    assert np.abs(again.numpy() - ours).max() < 1e-5
    assert transformers.AutoTokenizer.from_pretrained(out)(TEXT)["input_ids"] == right
