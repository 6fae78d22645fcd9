"""Fine-tuning runs: what learns and what stays, exact resume, adapters, merging, talking."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import lm, nn, text
from tinygrad_edu.cli import main
from tinygrad_edu.lm.adapters import base_digest
from tinygrad_edu.lm.chat import Chat
from tinygrad_edu.lm.checkpoint import load_checkpoint
from tinygrad_edu.lm.finetuning import adapters_of
from tinygrad_edu.lm.interrupt import Interruption

TEXT = "--- user\nabcdefghijklmnopqrstuvwxyz 0123456789+\n" * 60


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    (folder / "text.txt").write_text(TEXT)
    config = lm.TrainConfig(
        corpus=(str(folder / "text.txt"),), run=folder / "run", num_layers=1, num_heads=2,
        embed_dim=32, block_size=48, steps=4, threads=1, curve=False, sample_length=0,
        tune_allocator=False,
    )  # fmt: skip
    return lm.train(config).run


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    path = tmp_path / "chat.jsonl"
    rows = [{"instruction": f"{a}+{b}", "output": str(a + b)} for a in range(4) for b in range(5)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def options(base: Path, chat: Path, **more: Any) -> lm.FinetuneConfig:
    given: dict[str, Any] = {
        "base": str(base), "corpus": (str(chat),), "run": chat.parent / "tuned", "steps": 6,
        "batch_size": 4, "validation_interval": 3, "checkpoint_interval": 3, "sample_length": 4,
        "threads": 1, "curve": False, "tune_allocator": False,
    }  # fmt: skip
    return lm.FinetuneConfig(**{**given, **more})


def logits(model: lm.LanguageModel) -> Any:
    with tg.no_grad():
        return model(np.arange(30)[None, :]).numpy()


def test_adapters_change_nothing_at_the_start(base: Path, chat: Path) -> None:
    model = lm.load_trained(base).model
    before, digest = logits(model), base_digest(model)
    adapter = adapters_of(model, options(base, chat, lora_rank=4))
    assert adapter is not None
    assert np.array_equal(logits(model), before) and base_digest(model) == digest


def test_only_the_adapters_learn_and_only_they_are_saved(base: Path, chat: Path) -> None:
    before = (base / "model.safetensors").read_bytes()
    prepared = lm.prepare_finetuning(options(base, chat, lora_rank=4))
    digest = base_digest(prepared.base.model)
    run = lm.finetune(prepared).run
    assert (base / "model.safetensors").read_bytes() == before
    assert base_digest(prepared.base.model) == digest
    state = load_checkpoint(run)
    assert {name.rpartition(".")[2] for name in state.weights} == {"lora_A", "lora_B"}
    assert any(np.abs(a).max() > 0 for n, a in state.weights.items() if n.endswith("lora_B"))
    trained = sum(a.size for a in state.weights.values())
    averages = [a for s in state.optimizer["state"].values() for a in s.values()
                if getattr(a, "size", 1) > 1]  # fmt: skip
    assert sum(a.size for a in averages) == 2 * trained


def test_merged_is_unmerged_and_what_is_loaded(base: Path, chat: Path, tmp_path: Path) -> None:
    prepared = lm.prepare_finetuning(options(base, chat, lora_rank=4))
    run = lm.finetune(prepared).run
    unmerged = logits(prepared.base.model.eval())
    merged = lm.load_trained(run).model
    assert not any(isinstance(m, nn.LoRALinear) for m in merged.modules())
    assert np.abs(logits(merged) - unmerged).max() < 1e-5
    assert not np.allclose(logits(lm.load_trained(base).model), unmerged, atol=1e-3)
    again = lm.load_trained(lm.merge(run, tmp_path / "merged")).model
    assert np.array_equal(logits(again), logits(merged))
    beside = lm.load_trained(base).model
    lm.load_adapter(beside, run / "adapter")
    assert np.array_equal(logits(beside), unmerged)


@pytest.mark.parametrize(
    ("targets", "count"),
    [(("*",), 4), (("attn.*",), 2), (("qkv", "mlp.*"), 3), (("blocks.0.*",), 4)],
)
def test_layers_are_meant_by_the_ends_of_their_names(
    targets: tuple[str, ...], count: int, base: Path, chat: Path
) -> None:
    config = options(base, chat, lora_rank=2, lora_targets=targets)
    adapter = adapters_of(lm.load_trained(base).model, config)
    assert adapter is not None and len(adapter.layers) == count


class Presses(lm.Reporter):
    """Ctrl-C after a step."""

    def __init__(self, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.step, self.pressed = step, False
        monkeypatch.setattr(Interruption, "requested", property(lambda _: self.pressed))

    def stepped(self, report: lm.StepReport) -> None:
        self.pressed = report.step == self.step


@pytest.mark.parametrize("rank", [0, 4])
def test_a_run_that_is_interrupted_ends_with_the_same_bits(
    rank: int, base: Path, chat: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = lm.finetune(options(base, chat, lora_rank=rank)).run
    with monkeypatch.context() as patch:
        cut = lm.finetune(
            options(base, chat, lora_rank=rank, run=tmp_path / "cut"), Presses(2, patch)
        )
    assert cut.interrupted and cut.step == 2
    result = lm.resume_finetuning(cut.run)
    assert result.step == 6 and not result.interrupted
    one, other = load_checkpoint(whole), load_checkpoint(cut.run)
    assert one.weights.keys() == other.weights.keys()
    for name, array in one.weights.items():
        assert np.array_equal(array, other.weights[name]), name
    assert (whole / "samples.txt").read_text() == (cut.run / "samples.txt").read_text()
    with pytest.raises(lm.RunError, match="has made all its 6 steps"):
        lm.resume_finetuning(cut.run)


def test_workers_and_accumulation_give_the_gradient_of_the_whole_batch(
    base: Path, chat: Path, tmp_path: Path
) -> None:
    found = []
    for number, more in enumerate(({"batch_size": 4}, {"batch_size": 2, "accumulate": 2})):
        config = options(base, chat, run=tmp_path / str(number), steps=1, **more)
        found.append(load_checkpoint(lm.finetune(config).run).weights)
    for name, array in found[0].items():
        assert np.allclose(array, found[1][name], atol=1e-5), name


def test_two_examples_are_learnt_by_heart(base: Path, chat: Path, tmp_path: Path) -> None:
    rows = [{"instruction": "ab", "output": "xyz"}, {"instruction": "cd", "output": "42"}]
    chat.write_text("\n".join(map(json.dumps, rows)))
    config = options(
        base, chat, validation_fraction=0.0, steps=150, learning_rate=1e-2, batch_size=2,
        checkpoint_interval=150, validation_interval=150,
    )  # fmt: skip
    talk = Chat(lm.load_trained(lm.finetune(config).run))
    assert "".join(talk.reply("ab")) == "xyz"
    talk.reset()
    assert "".join(talk.reply("cd")) == "42"
    assert [m.content for m in talk.messages] == ["cd", "42"]


def test_what_no_longer_fits_is_forgotten_oldest_first(base: Path) -> None:
    talk = Chat(lm.load_trained(base), max_new_tokens=2)
    list(talk.reply("a"))
    list(talk.reply("b"))
    assert talk.forgotten > 0 and talk.messages[0].content == "b"
    with pytest.raises(lm.SamplingError, match="say it shorter"):
        talk.reply("a" * 40)
    assert talk.messages[0].content == "b"


def test_another_base_and_changed_conversations_are_refused(
    base: Path, chat: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    own = tmp_path / "own"
    shutil.copytree(base, own)
    with monkeypatch.context() as patch:
        run = lm.finetune(options(own, chat, lora_rank=2), Presses(3, patch)).run
    chat.write_text(chat.read_text() + "\n" + json.dumps({"instruction": "9", "output": "9"}))
    with pytest.raises(lm.RunError, match="are not those that it was started with"):
        lm.resume_finetuning(run)
    other = lm.TrainConfig(
        **{**vars(lm.read_config(own)), "run": tmp_path / "other", "seed": 7}
    )
    shutil.copy(lm.train(other).run / "model.safetensors", own / "model.safetensors")
    with pytest.raises(lm.RunError, match="is not the base that this run was started with"):
        lm.resume_finetuning(run)
    with pytest.raises(lm.RunError, match="holds adapters of another base"):
        lm.load_trained(run)


def test_train_points_to_finetune_and_finetune_to_train(base: Path, chat: Path) -> None:
    run = lm.finetune(options(base, chat)).run
    with pytest.raises(lm.RunError, match="finetune --resume"):
        lm.resume(run)
    with pytest.raises(lm.RunError, match="train --resume"):
        lm.resume_finetuning(base)
    with pytest.raises(lm.RunError, match="nothing to merge"):
        lm.merge(base, chat.parent / "merged")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"lora_rank": -1}, "--lora-rank is -1"),
        ({"lora_alpha": 0.0}, "--lora-alpha is 0"),
        ({"lora_targets": ()}, "--lora-targets is empty"),
        ({"minutes": 1.0}, "--minutes is not for fine-tuning"),
        ({"lora_rank": 500}, "rank=500"),
        ({"lora_rank": 2, "lora_targets": ("nope",)}, "no linear layer for targets"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(
    more: dict[str, Any], said: str, base: Path, chat: Path
) -> None:
    with pytest.raises(lm.ConfigError, match=said):
        lm.finetune(options(base, chat, **more))


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Any:
    def types(*lines: str) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))

    return types


def test_the_commands_end_to_end(
    base: Path, chat: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], keyboard: Any
) -> None:
    run, merged = str(tmp_path / "tuned"), str(tmp_path / "merged")
    made = ["finetune", str(base), "--data", str(chat), "--lora-rank", "4", "--steps", "3"]
    assert main([*made, "--run", run, "--threads", "1"]) == 0
    said = capsys.readouterr().out
    for part in (
        ">>", "tokens are learnt", "none on both sides", "trainable parameters:",
        "training all would take", "adapter_model.safetensors", f"tinygrad-edu chat {run}",
    ):  # fmt: skip
        assert part in said, part
    assert main(["merge", run, "-o", merged]) == 0
    keyboard("1+1", "/reset", "é", "/quit")
    assert main(["chat", merged, "--max-new-tokens", "5"]) == 0
    captured = capsys.readouterr()
    assert captured.out.count("model> ") == 1 and "é" in captured.err
    assert main(["finetune", str(base)]) == 2
    assert "--data are needed" in capsys.readouterr().err
    chat.write_text('{"instruction": "a", "output": "b"}\n{broken\n')
    assert main([*made, "--run", str(tmp_path / "no")]) == 2
    assert f"{chat}, line 2: is not JSON" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()


def test_of_a_long_conversation_the_oldest_exchange_is_forgotten_first() -> None:
    tokenizer = text.CharTokenizer.from_text(TEXT)
    model = lm.GPT(lm.GPTConfig(tokenizer.vocab_size, 160, 1, 2, 16), np.random.default_rng(0))
    talk = Chat(lm.Trained(lm.TrainConfig(block_size=160), tokenizer, model), max_new_tokens=2)
    for said in "abcd":
        list(talk.reply(said))
    asked = [message.content for message in talk.messages if message.role == "user"]
    assert asked == ["b", "c", "d"] and talk.forgotten == 1


def test_a_damaged_checkpoint_that_is_passed_over_is_told(
    base: Path, chat: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        run = lm.finetune(
            options(base, chat, run=tmp_path / "cut", checkpoint_interval=1), Presses(3, patch)
        ).run
    (run / "checkpoint" / "step-00000003" / "state.json").write_text("{")
    heard: list[lm.Plan] = []

    class Hears(lm.Reporter):
        def planned(self, plan: lm.Plan, step: int) -> None:
            heard.append(plan)

    lm.resume_finetuning(run, reporter=Hears())
    (remark,) = heard[0].remarks
    assert "is missing or damaged" in remark and "it goes on from step 2" in remark


@pytest.mark.parametrize("rank", [0, 4])
def test_a_rescued_run_can_be_gone_on_with_and_asked(
    rank: int, base: Path, chat: Path, tmp_path: Path
) -> None:
    run = tmp_path / "tuned"

    class Removes(lm.Reporter):
        def stepped(self, report: lm.StepReport) -> None:
            if report.step == 2:
                shutil.rmtree(run)

    with pytest.raises(lm.RunError, match="was saved in"):
        lm.finetune(options(base, chat, lora_rank=rank, run=run), Removes())
    rescued = tmp_path / "tuned-rescued-1"
    assert (rescued / "model.json").exists()
    assert lm.load_trained(rescued).tokenizer == lm.load_trained(base).tokenizer
    assert lm.resume_finetuning(rescued).step == 6


def test_options_come_from_a_file_and_from_those_given_beside(
    base: Path, chat: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "my.toml"
    written.write_text(
        "lora_rank = 2\nsteps = 2\nbatch_size = 4\nschedule = 'linear'\ncurve = false\n"
        "report = false\nthreads = 1\nvalidation_fraction = 0.2\n"
    )
    one, two = tmp_path / "one", tmp_path / "two"
    made = ["finetune", str(base), "--data", str(chat), "--config", str(written)]
    assert main([*made, "--run", str(one), "--seed", "3"]) == 0
    found = lm.read_config(one)
    assert isinstance(found, lm.FinetuneConfig)
    assert (found.lora_rank, found.steps, found.schedule, found.seed) == (2, 2, "linear", 3)
    assert found.learning_rate == 5e-3
    # the config of a run, which names base and data, with all weights in the place of adapters
    again = ["finetune", "--config", str(one / "config.toml"), "--run", str(two)]
    assert main([*again, "--lora-rank", "0", "--epochs", "0.5"]) == 0
    found = lm.read_config(two)
    assert isinstance(found, lm.FinetuneConfig)
    assert (found.lora_rank, found.steps, found.schedule) == (0, 2, "linear")
    assert found.learning_rate == 5e-4 and found.corpus == (str(chat),)
    assert "finetune --config FILE" in (two / "config.toml").read_text()
    capsys.readouterr()
    for content, said in (
        ("lora_rnk = 2", "unknown option 'lora_rnk'; the nearest one is 'lora_rank'"),
        ("num_layers = 2", "num_layers = 2, which is the base's to say"),
        ("command = 'x'", "unknown option 'command'"),
        ("steps = 2\nepochs = 1", "--steps 2 and --epochs 1 were given"),
        ("steps = ", "is not valid TOML"),
    ):
        written.write_text(content)
        assert main([*made, "--run", str(tmp_path / "no")]) == 2
        assert said in capsys.readouterr().err
    assert main([*made[:-1], str(tmp_path / "none.toml")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()


def test_a_rate_that_is_given_is_had_though_it_is_the_default_of_the_other_way(
    base: Path, chat: Path, tmp_path: Path
) -> None:
    made = ["finetune", str(base), "--data", str(chat), "--steps", "1", "--threads", "1"]
    more = ["--lora-rank", "2", "--learning-rate", "5e-4", "--run", str(tmp_path / "one")]
    assert main([*made, *more]) == 0
    assert lm.read_config(tmp_path / "one").learning_rate == 5e-4
    assert main([*made, "--epochs", "3"]) == 2


def test_a_run_goes_on_with_other_options_where_they_can_change(
    base: Path, chat: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = lm.finetune(options(base, chat, lora_rank=4, steps=6, schedule="constant")).run
    run = tmp_path / "short"
    lm.finetune(options(base, chat, lora_rank=4, steps=3, schedule="constant", run=run))
    moved_base, moved_chat = tmp_path / "elsewhere", tmp_path / "other.jsonl"
    base.rename(moved_base)
    chat.rename(moved_chat)
    try:
        goes_on = ["finetune", "--resume", str(run), "--steps", "6"]
        assert main(goes_on) == 2
        assert "name them with --data" in capsys.readouterr().err
        goes_on += ["--data", str(moved_chat)]
        assert main(goes_on) == 2
        assert "finetune BASE --resume RUN" in capsys.readouterr().err
        assert main(["chat", str(run)]) == 2
        assert "holds adapters beside the base" in capsys.readouterr().err
        goes_on.insert(1, str(moved_base))
        for wrong, said in (
            (["--lora-rank", "8"], "--lora-rank was 4 when the run was started"),
            (["--seed", "2"], "--seed was 1 when"),
            (["--steps", "2"], "has made 3 steps already, more than --steps 2"),
            (["--run", str(tmp_path / "x")], "a run goes on in its own folder"),
            (["--config", str(run / "config.toml")], "--resume and --config were both given"),
        ):
            assert main([*goes_on, *wrong]) == 2
            assert said in capsys.readouterr().err
        assert main([*goes_on, "--validation-interval", "2", "--sample-length", "0"]) == 0
        found = lm.read_config(run)
        assert isinstance(found, lm.FinetuneConfig)
        assert (found.steps, found.validation_interval) == (6, 2)
        assert (found.base, found.corpus) == (str(moved_base), (str(moved_chat),))
        one, other = load_checkpoint(whole), load_checkpoint(run)
        for name, array in one.weights.items():
            assert np.array_equal(array, other.weights[name]), name
        assert main(["finetune", "--resume", str(run), "--epochs", "4"]) == 0
        assert load_checkpoint(run).progress.step == 18
        assert "the schedule follows the new options" not in capsys.readouterr().out
        rates = ["--resume", str(run), "--steps", "19", "--learning-rate", "1e-3"]
        assert main(["finetune", *rates]) == 0
        assert "the schedule follows the new options" in capsys.readouterr().out
    finally:
        moved_base.rename(base)
