"""`report.html`: what stands in it is what the run's files and its model say."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import Page
from lm.recording import Recorder, rows

from tinygrad_edu import lm
from tinygrad_edu.cli import main
from tinygrad_edu.lm import report, report_data
from tinygrad_edu.lm.learner import new_model
from tinygrad_edu.lm.material import read_material
from tinygrad_edu.lm.report_attention import attention_weights
from tinygrad_edu.lm.samples_file import read_samples

MakeConfig = Callable[..., lm.TrainConfig]
NASTY = "</script><script>bad()</script><b>&amp;\" 'x' <!-- \u2028 ]]>"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, tiny_text: str) -> Path:
    """A run of two layers with its report, whose text is unkind to HTML."""
    folder = tmp_path_factory.mktemp("report")
    (folder / "a<b>&.txt").write_text(tiny_text + NASTY * 30, encoding="utf-8")
    config = lm.TrainConfig(
        corpus=(str(folder / "a<b>&.txt"),), run=folder / "run", num_layers=2, num_heads=2,
        embed_dim=16, block_size=16, batch_size=4, steps=20, validation_interval=5,
        checkpoint_interval=10, sample_length=40, tune_allocator=False, threads=1,
    )  # fmt: skip
    recorder = Recorder()
    result = lm.train(config, recorder)
    assert result.report == folder / "run" / "report.html"
    return result.run


@pytest.fixture(scope="module")
def page_text(made: Path) -> str:
    return (made / "report.html").read_text(encoding="utf-8")


def numbers_of(page: str) -> dict[str, Any]:
    start = page.index('id="data">') + len('id="data">')
    found: dict[str, Any] = json.loads(page[start : page.index("</script>", start)])
    return found


def test_curves_are_those_of_the_log(made: Path, page_text: str) -> None:
    charts = numbers_of(page_text)["charts"]
    updates = [row for row in rows(made) if "loss" in row]
    validations = [row for row in rows(made) if "validation_loss" in row]
    steps = [row["step"] for row in updates]
    loss = {series["name"]: series for series in charts["loss"]}
    assert loss["one batch"]["x"] == steps
    assert loss["one batch"]["y"] == [row["loss"] for row in updates]
    assert loss["validation"]["x"] == [row["step"] for row in validations]
    assert loss["validation"]["y"] == [row["validation_loss"] for row in validations]
    for chart, name, found in (
        ("rate", "learning_rate", updates), ("norm", "gradient_norm", updates),
        ("bits", "bits_per_byte", validations), ("perplexity", "perplexity", validations),
    ):  # fmt: skip
        assert charts[chart][0]["y"] == [row[name] for row in found]
        assert charts[chart][0]["x"] == [row["step"] for row in found]
    average = weight = 0.0
    for value, shown in zip(loss["one batch"]["y"], loss["training"]["y"], strict=True):
        average, weight = 0.95 * average + 0.05 * value, 0.95 * weight + 0.05
        assert shown == pytest.approx(average / weight)


def test_gradient_norms_are_those_of_the_log(made: Path, page_text: str) -> None:
    found = numbers_of(page_text)["norms"]
    logged = [row for row in rows(made) if "gradient_norms" in row]
    assert found["steps"] == [row["step"] for row in logged] and len(logged) == 5
    assert "blocks.1" in found["parts"]
    for part, values in zip(found["parts"], found["values"], strict=True):
        assert values == [row["gradient_norms"][part] for row in logged]


def test_samples_and_the_verdict_stand_in_it(made: Path, page_text: str) -> None:
    shown = re.findall(r"<article.*?<pre>(.*?)</pre>", page_text, re.DOTALL)
    written = read_samples(made / "samples.txt")
    assert [unescape(text) for text in shown] == [sample.text for sample in written]
    assert len(shown) == 5
    assert "The validation loss" in page_text


def test_attention_is_that_of_the_model(made: Path, page_text: str) -> None:
    found = numbers_of(page_text)["attention"]
    trained = lm.load_trained(made)
    lessons = read_material(trained.config, trained.tokenizer).lessons(trained.config)
    ids = next(lessons.held_out())[0][0]
    truth = attention_weights(trained.model, ids[None])
    assert [layer["path"] for layer in found["layers"]] == list(truth)
    assert found["causal"] and len(found["tokens"]) == len(ids) == 16
    for layer, weights in zip(found["layers"], truth.values(), strict=True):
        for head, expected in zip(layer["heads"], weights[0], strict=True):
            for t, row in enumerate(head):
                np.testing.assert_allclose(row, expected[t, : t + 1], atol=5.1e-5)
                assert sum(row) == pytest.approx(1.0, abs=2e-3)


def test_embeddings_are_compared_with_those_the_run_began_with(
    made: Path, page_text: str
) -> None:
    found = numbers_of(page_text)["embeddings"]
    trained = lm.load_trained(made)
    tokens = found["tokens"]
    end = trained.model.token_embedding.weight.detach().numpy().astype(float)
    start = new_model(trained.config, len(end)).token_embedding.weight.detach().numpy()
    middle = end[tokens].mean(axis=0)
    _, sizes, right = np.linalg.svd(end[tokens] - middle, full_matrices=False)
    for name, table in (("before", start), ("after", end)):
        expected = (table[tokens] - middle) @ right[:2].T
        shown = np.array(found[name])
        for axis in range(2):
            along = (end[tokens] - middle) @ right[axis]
            sign = np.sign(np.array(found["after"])[:, axis] @ along)
            np.testing.assert_allclose(shown[:, axis], sign * expected[:, axis], atol=1e-5)
    assert found["shares"] == pytest.approx(list(sizes[:2] ** 2 / (sizes**2).sum()))
    for name, table in (("nearest_before", start), ("nearest_after", end)):
        unit = table / np.linalg.norm(table, axis=1, keepdims=True)
        for token, near in zip(tokens, found[name], strict=False):
            cosines = np.delete(unit @ unit[token], token)
            best = sorted(cosines)[::-1][:5]
            assert [cosine for _, cosine in near] == pytest.approx(best, abs=1e-6)
    assert found["counts"] == sorted(found["counts"], reverse=True)
    counted = np.bincount(
        read_material(trained.config, trained.tokenizer).split.training, minlength=len(end)
    )
    assert counted[tokens[0]] == counted.max()


def test_the_page_loads_nothing_and_its_size_is_bounded(made: Path, page_text: str) -> None:
    assert "default-src 'none'" in page_text
    for attribute in re.findall(r"""(?:src|href|action)=["']?([^"'\s>]*)""", page_text):
        assert attribute.startswith("#"), attribute
    assert not re.search(r"""url\((?!#)|@import|fetch\(|XMLHttpRequest|innerHTML""", page_text)
    assert len(page_text) < 300_000


def test_any_text_of_a_run_is_escaped(made: Path, page_text: str) -> None:
    assert "bad()</script>" not in page_text
    assert page_text.count("<script") == 2
    assert "<h1>a&lt;b&gt;&amp;.txt: a GPT of" in page_text


def test_a_sample_of_markup_is_shown_as_it_is(
    made: Path, tmp_path: Path, browser: Page
) -> None:
    run = tmp_path / "run"
    shutil.copytree(made, run)
    with open(run / "samples.txt", "a", encoding="utf-8") as samples:
        samples.write(f"--- step 99\n{NASTY}\n\n")
    page = browser.open(report.write_report(run, NASTY[:12]))
    assert page.value("document.querySelector('.sample.now pre').textContent") == NASTY
    assert page.value("document.querySelectorAll('script').length") == 2
    assert page.value("[...document.querySelectorAll('.map .row')].map(t => t.textContent)"
                      ".join('')") == NASTY[:12]  # fmt: skip
    assert not page.errors


def test_no_label_is_cut_off(browser: Page, made: Path) -> None:
    for size in ((390, 844), (1200, 900)):
        page = opened(browser, made, size)
        assert page.value(
            "[...document.querySelectorAll('.chart text')].filter(t => { const b = t.getBBox(), "
            "v = t.closest('svg').viewBox.baseVal; return b.x < 0 || b.x + b.width > v.width + 1 "
            "|| b.y + b.height > v.height + 1; }).map(t => t.textContent)"
        ) == []


def test_the_command_shows_a_chosen_text(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert main(["report", str(made), "--text", "the cat sat on the mat", "-o", str(page)]) == 0
    assert capsys.readouterr().out.strip() == str(page)
    found = numbers_of(page.read_text(encoding="utf-8"))["attention"]
    assert found["tokens"] == list("the␣cat␣sat␣on␣t")
    assert "The text's last 6 tokens had no room." in page.read_text(encoding="utf-8")
    assert main(["report", str(made), "--text", "the Ω", "-o", str(page)]) == 2
    assert "Ω" in capsys.readouterr().err
    assert main(["report", str(tmp_path)]) == 2
    assert "not a run folder" in capsys.readouterr().err
    assert main(["report", str(made), "-o", str(tmp_path / "none" / "p.html")]) == 2
    assert "is not a folder" in capsys.readouterr().err


def test_a_run_whose_text_is_gone_has_a_report(made: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(made, run)
    config = (run / "config.toml").read_text()
    (run / "config.toml").write_text(config.replace("a<b>&.txt", "gone.txt"))
    page = report.write_report(run).read_text(encoding="utf-8")
    assert "the text was not there to count in" in page
    assert numbers_of(page)["embeddings"]["counts"] == []


@pytest.mark.parametrize("steps", [0, 1])
def test_the_shortest_runs_have_a_report(make_config: MakeConfig, steps: int) -> None:
    result = lm.train(make_config(report=True, steps=steps, validation_fraction=0.0))
    assert result.report is not None
    page = result.report.read_text(encoding="utf-8")
    assert ("Curves</h2>" in page) == (steps > 0)
    assert "Attention</h2>" in page


def test_a_run_of_bytes_pairs_and_tiny_sizes(make_config: MakeConfig) -> None:
    config = make_config(report=True, tokenizer="bpe", vocab_size=300, embed_dim=2, num_heads=1)
    result = lm.train(config)
    assert result.report is not None
    assert result.report.stat().st_size < 300_000


def test_a_report_that_cannot_be_written_is_told_and_costs_nothing(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(report, "write_atomically", full)
    result = lm.train(make_config(report=True))
    assert result.report is None and result.step == 8
    assert "report.html could not be written: No space left on device." in result.verdict


def test_a_long_run_with_many_heads_stays_small(made: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(made, run)
    with open(run / "metrics.jsonl", "a") as log:
        for step in range(21, 30_000):
            log.write(json.dumps({"step": step, "loss": 2.0, "learning_rate": 1e-3,
                                  "gradient_norm": 1.0, "seconds": step / 10}) + "\n")  # fmt: skip
    with open(run / "samples.txt", "a") as samples:
        for step in range(21, 1000):
            samples.write(f"--- step {step}\n{'x' * 9000}\n\n")
    page = report.write_report(run).read_text(encoding="utf-8")
    assert len(page) < 1_000_000
    charts = numbers_of(page)["charts"]["loss"]
    assert len(charts[0]["x"]) == 2000 and charts[0]["x"][-1] == 29_999
    assert page.count("<article") == 40
    room = report_data.MOST_WEIGHTS // (48 * 48)
    assert room < report_data.MOST_TOKENS**2, "many heads have shorter texts"


# In a browser.


def opened(browser: Page, made: Path, size: tuple[int, int] = (1200, 900)) -> Page:
    return browser.open(made / "report.html", size=size)


SAID = "document.querySelector('#attention .readout').textContent"


def test_keys_and_the_pointer_tell_the_weights(
    browser: Page, made: Path, page_text: str
) -> None:
    page = opened(browser, made)
    data = numbers_of(page_text)["attention"]
    page.value("document.querySelectorAll('.heads button')[3].click()")
    page.value("document.querySelector('.map').focus()")
    page.key("ArrowLeft", "ArrowUp", "ArrowUp")
    weight = data["layers"][1]["heads"][1][13][13]
    assert page.value(SAID).startswith("layer 2, head 2")
    assert page.value(SAID).endswith(f"{weight:.4f}")
    page.value("document.querySelector('.map [data-t=\"9\"][data-s=\"4\"]')"
               ".dispatchEvent(new PointerEvent('pointermove', {bubbles: true}))")  # fmt: skip
    weight = data["layers"][1]["heads"][1][9][4]
    tokens = data["tokens"]
    assert page.value(SAID) == (
        f"layer 2, head 2: “{tokens[9]}” at 10 looks at “{tokens[4]}” at 5 with {weight:.4f}"
    )
    assert page.value("document.querySelectorAll('.map [data-t]').length") == 16 * 17 // 2
    assert page.value("document.querySelectorAll('.map .row').length") == 16


def test_samples_are_scrubbed_and_curves_read_out(browser: Page, made: Path) -> None:
    page = opened(browser, made)
    now = "[...document.querySelectorAll('.sample')].filter(s => s.offsetHeight > 0).length"
    assert page.value(now) == 1
    heading = "document.querySelector('.sample.now h3').textContent"
    assert page.value(heading).startswith("step 20, validation loss")
    page.value("(() => { const r = document.querySelector('.scrub input'); r.value = 0; "
               "r.dispatchEvent(new Event('input')); })()")  # fmt: skip
    assert page.value(heading).startswith("step 0, validation loss")
    page.value("document.querySelector('[data-chart=rate]').focus()")
    page.key("ArrowRight", "ArrowRight", "ArrowRight")
    rate = [row["learning_rate"] for row in rows(made) if "loss" in row][2]
    said = page.value("document.querySelector('[data-chart=rate]').parentElement"
                      ".querySelector('output').textContent")  # fmt: skip
    assert said.startswith("step 3: learning rate ")
    assert float(said.rsplit(" ", 1)[1]) == pytest.approx(rate, rel=1e-3)


def test_both_planes_have_one_scale_until_each_has_its_own(
    browser: Page, made: Path, page_text: str
) -> None:
    page = opened(browser, made)
    data = numbers_of(page_text)["embeddings"]

    def places(which: str) -> Any:
        return np.array(page.value(
            f"[...document.querySelectorAll('[data-plane={which}] text')]"
            ".map(t => [Number(t.getAttribute('x')), Number(t.getAttribute('y'))])"
        ))  # fmt: skip

    def scale(which: str) -> float:
        points, shown = np.array(data[which]), places(which)
        ratio = np.ptp(shown, axis=0) / np.ptp(points, axis=0)
        assert ratio[0] == pytest.approx(ratio[1], rel=0.02)
        slope: float = np.polyfit(points[:, 1], shown[:, 1], 1)[0]
        assert slope < 0, "up is more"
        return float(ratio[0])

    assert scale("before") == pytest.approx(scale("after"), rel=0.02)
    page.value("document.querySelector('.own').click()")
    assert scale("before") > 1.05 * scale("after")
    for which in ("before", "after"):
        assert places(which).min() >= 0 and places(which).max() <= 460


@pytest.mark.parametrize("size", [(390, 844), (1200, 900)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_phones_and_desks_in_light_and_dark(
    browser: Page, made: Path, size: tuple[int, int], scheme: str
) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.call("Emulation.setEmulatedMedia", features=features)
    page = opened(browser, made, size)
    assert page.value("document.documentElement.scrollWidth <= window.innerWidth")
    ground = page.value("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
    page.value("document.querySelector('.theme').click()")
    assert page.value("getComputedStyle(document.body).backgroundColor") != ground
    smallest = page.value(
        "Math.min(...[...document.querySelectorAll('p, td, th, .chart text')].filter(e => "
        "e.getBoundingClientRect().width > 0).map(e => { const svg = e.closest('svg'); const k = "
        "svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1; "
        "return k * parseFloat(getComputedStyle(e).fontSize); }))"
    )
    assert smallest > 9.5
    assert not page.errors and not page.requests
