"""`report.html`: a whole run on one page that needs nothing else, to be read, kept and sent on.

What it shows is gathered in `report_data`; here it becomes HTML. All text of a run, a sample or a
token may hold anything: it is escaped, or stands in the page's JSON.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

import tinygrad_edu
from tinygrad_edu.drawing.page import standalone
from tinygrad_edu.files import write_atomically
from tinygrad_edu.lm.config import TrainConfig, shown
from tinygrad_edu.lm.curve import named
from tinygrad_edu.lm.errors import RunError
from tinygrad_edu.lm.lessons import Lessons
from tinygrad_edu.lm.machine import mebibytes
from tinygrad_edu.lm.report_charts import bars, cells
from tinygrad_edu.lm.report_curves import charts, norms
from tinygrad_edu.lm.report_data import Attention, Embeddings, ReportData, gather

REPORT = "report.html"
_START = (
    "window.report = new Report(JSON.parse(document.getElementById('data').textContent));"
)
_KINDS = ("letter", "capital", "digit", "sign", "space", "other")


def write_report(
    run: str | Path,
    text: str | None = None,
    output: str | Path | None = None,
    *,
    lessons: Lessons | None = None,
    verdict: Sequence[str] | None = None,
) -> Path:
    """Write the report of a run folder; the path of the page, `RUN/report.html` by default.

    Args:
        run: the folder.
        text: whose attention is shown; by default the held-out text's beginning.
        output: the file to write.
        lessons: what the run learns from; by default they are read again, if the text is there.
        verdict: what is said of the run; by default what its log tells.

    Raises:
        RunError: no run there, or files of it that are damaged or missing.
        TokenizerError: `text` has a symbol that the model never saw.
    """
    run = Path(run)
    path = run / REPORT if output is None else Path(output)
    if not path.parent.is_dir():
        raise RunError(
            f"the report was to be written to {path}, but {path.parent} is not a folder; make it "
            "first, or give another path"
        )
    write_atomically(path, to_html(gather(run, text, lessons, verdict)))
    return path


def to_html(data: ReportData) -> str:
    """The page."""
    kind = "a Llama" if data.config.architecture == "llama" else "a GPT"
    title = f"{named(data.config.corpus)}: {kind} of {data.parameters:,} parameters"
    sections = [section for section in _sections(data) if section[2]]
    links = "".join(f'<a href="#{name}">{heading}</a>' for name, heading, _ in sections)
    body = (
        f'<nav class="tools">{links}<button type="button" class="theme">Light/dark</button></nav>\n'
        f"<main>\n{_header(data, title)}\n"
        + "\n".join(
            f'<section id="{name}"><h2>{heading}</h2>{content}</section>'
            for name, heading, content in sections
        )
        + "\n</main>\n"
    )
    return standalone(
        title, body, _numbers(data), _START, scripts=("report.js",),
        styles=("theme.css", "report.css"),
    )  # fmt: skip


def _sections(data: ReportData) -> list[tuple[str, str, str]]:
    """(id, heading, content); one without content has nothing to show."""
    return [
        ("curves", "Curves", _curves(data)),
        ("norms", "Gradient norms", _norms(data)),
        ("samples", "Samples", _samples(data)),
        ("attention", "Attention", _attention(data.attention)),
        ("embeddings", "Embeddings", _embeddings(data.embeddings)),
        ("time", "Time and memory", _time(data)),
        ("facts", "Facts", _facts(data)),
    ]


def _numbers(data: ReportData) -> dict[str, Any]:
    """What the script, or a reader of the file, finds as JSON: all numbers that are drawn."""
    found: dict[str, Any] = {
        "charts": {chart.id: chart.numbers() for chart in charts(data) if chart.drawn}
    }
    parts, steps, values = norms(data.rows)
    found["norms"] = {"parts": parts, "steps": steps, "values": values}
    if data.attention:
        found["attention"] = _attention_numbers(data.attention)
    if data.embeddings:
        made = data.embeddings
        found["embeddings"] = {
            "tokens": made.tokens,
            "labels": made.labels,
            "counts": made.counts,
            "shares": made.shares,
            "before": made.before.tolist(),
            "after": made.after.tolist(),
            "nearest_before": made.nearest_before,
            "nearest_after": made.nearest_after,
        }
    return found


def _attention_numbers(made: Attention) -> dict[str, Any]:
    """Weights to four digits after the point; of causal ones only what is not ahead."""
    causal = not any(np.triu(weights, 1).any() for weights in made.weights)
    layers = []
    for number, (path, weights) in enumerate(zip(made.paths, made.weights, strict=True), start=1):
        heads = [
            [
                [round(float(w), 4) for w in (row[: t + 1] if causal else row)]
                for t, row in enumerate(head)
            ]
            for head in weights
        ]
        layers.append({"name": f"layer {number}", "path": path, "heads": heads})
    return {"tokens": made.tokens, "causal": causal, "layers": layers}


# The parts.


def _header(data: ReportData, title: str) -> str:
    config, history = data.config, data.history
    last = max([0, *history.steps[-1:], *(step for step, _ in history.validations[-1:])])
    sub = (
        f"{config.num_layers} layers, {config.num_heads} heads, {config.embed_dim} wide, "
        f"{data.symbols:,} tokens in the vocabulary; step {last:,} of {config.steps:,}"
    )
    said = "".join(f"<p>{escape(sentence)}</p>" for sentence in data.verdict)
    tiles = "".join(
        f'<div class="tile"><b>{escape(number)}</b><span>{escape(name)}</span></div>'
        for number, name in _tiles(data)
    )
    return (
        f'<header><h1>{escape(title)}</h1><p class="sub">{escape(sub)}</p>'
        f'<div class="tiles">{tiles}</div>{said}</header>'
    )


def _tiles(data: ReportData) -> Iterator[tuple[str, str]]:
    history = data.history
    validations = [row for row in data.rows if row.get("validation_loss") is not None]
    if validations:
        last = validations[-1]
        yield f"{last['validation_loss']:.3f}", "validation loss, nats a token"
        if last.get("perplexity") is not None:
            yield f"{last['perplexity']:,.2f}", "perplexity"
        if last.get("bits_per_byte"):
            yield f"{last['bits_per_byte']:.3f}", "bits a byte"
    recent = history.recent_loss()
    if recent is not None:
        yield f"{recent:.3f}", "training loss of late"
    if history.yardsticks:
        known = history.yardsticks
        yield f"{known.ngram:.3f}", f"the best n-gram, of {known.order}"
        if known.floor is not None:
            yield f"{known.floor:.3f}", "the text's true source"
    if data.spent:
        config = data.config
        tokens = config.batch_size * config.accumulate * config.block_size
        yield f"{tokens / data.spent.median_step:,.0f}", "tokens a second"


def _figure(title: str, drawing: str) -> str:
    return f"<figure><h3>{escape(title)}</h3>{drawing}<output></output></figure>"


def _curves(data: ReportData) -> str:
    drawn = [chart for chart in charts(data) if chart.drawn]
    if not drawn:
        return ""
    figures = "".join(_figure(chart.heading, chart.svg()) for chart in drawn)
    return (
        '<p class="hint">Point at a curve, or press the arrow keys on it, to read its numbers.</p>'
        f'<div class="grid2">{figures}</div>'
    )


def _norms(data: ReportData) -> str:
    parts, steps, values = norms(data.rows)
    if not parts:
        return ""
    known = [value for row in values for value in row if value]
    ends = f"{min(known):.2g}<span class=\"ramp\"></span>{max(known):.2g}" if known else ""
    drawing = cells("norms", parts, [f"{step:,}" for step in steps], values)
    return (
        "<p class=\"hint\">The norm of each part's gradient before clipping, at each validation; "
        f"the scale is logarithmic: {ends}</p>"
        f'<figure><div class="wide">{drawing}</div><output></output></figure>'
    )


def _samples(data: ReportData) -> str:
    if not data.samples:
        return ""
    made = []
    for sample in data.samples:
        heading = f"step {sample.step:,}"
        heading += "" if sample.loss is None else f", validation loss {sample.loss:.3f}"
        made.append(
            f'<article class="sample"><h3>{heading}</h3><pre>{escape(sample.text)}</pre></article>'
        )
    last = len(made) - 1
    scrub = (
        f'<div class="scrub"><input type="range" min="0" max="{last}" value="{last}" step="1" '
        'aria-label="which sample"><output></output></div>'
        if last
        else ""
    )
    return f'<div class="samples">{scrub}{"".join(made)}</div>'


def _attention(made: Attention | None) -> str:
    if made is None:
        return ""
    cut = f" The text's last {made.cut:,} tokens had no room." if made.cut else ""
    return (
        '<p class="hint">Each row is a token that looks, each column one that is looked at; a row '
        f"sums to 1.{cut} Choose a head, then point at a cell or walk with the arrow keys. "
        '0<span class="ramp"></span>1, by the square root.</p>'
        '<div class="attention"><div class="heads" role="group" aria-label="heads"></div>'
        '<div><svg class="map" role="img" tabindex="0"></svg>'
        '<div class="readout" aria-live="polite"></div></div></div>'
    )


def _embeddings(made: Embeddings | None) -> str:
    if made is None:
        return ""
    how = (
        "most frequent tokens"
        if made.counts
        else "tokens with the smallest ids (the text was not there to count in)"
    )
    used = [kind for kind in _KINDS if kind in made.kinds]
    key = "".join(f'<span><i class="{kind}"></i>{kind}</span>' for kind in used)
    share = f"{100 * made.shares[0]:.0f} % and {100 * made.shares[1]:.0f} %"
    planes = "".join(
        f"<figure><h3>{title}</h3>{_plane(which, made)}</figure>"
        for which, title in (("before", "Before training"), ("after", "After training"))
    )
    return (
        f'<p class="hint">The {len(made.tokens)} {how}, on the plane in which their trained '
        f"embeddings are spread most (PCA; {share} of the variance). Both pictures have the same "
        f'axes.</p><div class="key">{key}</div>'
        f'<div class="grid2">{planes}</div><div class="readout"></div>'
        '<label class="switch"><input type="checkbox" class="own"> each at a scale of its own'
        f"</label>{_nearest(made)}"
    )


def _plane(which: str, made: Embeddings) -> str:
    labels = "".join(
        f'<text class="{kind}" x="230" y="230">{escape(label)}</text>'
        for label, kind in zip(made.labels, made.kinds, strict=True)
    )
    return (
        f'<svg class="plane" viewBox="0 0 460 460" role="img" data-plane="{which}" '
        f'aria-label="{len(made.labels)} tokens on a plane, {which} training">'
        '<line class="axis" x1="0" x2="460" y1="230" y2="230"/>'
        f'<line class="axis" x1="230" x2="230" y1="0" y2="460"/>{labels}</svg>'
    )


def _nearest(made: Embeddings) -> str:
    def named_near(found: Iterable[tuple[str, float]]) -> str:
        return "".join(
            f'<span class="near"><span class="token">{escape(label)}</span>'
            f"<small>{cosine:.2f}</small></span>"
            for label, cosine in found
        )

    rows = []
    for i, (before, after) in enumerate(
        zip(made.nearest_before, made.nearest_after, strict=True)
    ):
        often = f" <small>{made.counts[i]:,} ×</small>" if made.counts else ""
        rows.append(
            f'<tr><th><span class="token">{escape(made.labels[i])}</span>{often}</th>'
            f'<td data-when="before">{named_near(before)}</td>'
            f'<td data-when="after">{named_near(after)}</td></tr>'
        )
    return (
        '<table class="nearest"><thead><tr><th>token</th><th>nearest before, by cosine</th>'
        f"<th>nearest after</th></tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _time(data: ReportData) -> str:
    cost, spent = data.cost, data.spent
    parts = []
    if spent:
        longest = max(spent.steps, spent.besides, 1e-12)
        parts.append("<h3>The run</h3>")
        parts.append(bars([
            ("steps", [("a", spent.steps / longest)], f"{spent.steps:.1f} s"),
            ("besides", [("c", spent.besides / longest)], f"{spent.besides:.1f} s"),
        ]))  # fmt: skip
        parts.append(
            '<p class="hint">Besides: validations, samples, drawings, checkpoints. From the log; a '
            f"step takes {1e3 * spent.median_step:.1f} ms (median).</p>"
        )
    longest = max(kind.seconds for kind in cost.kinds)
    rows = [
        (kind.name,
         [(which, seconds / longest) for which, seconds in
          (("a", kind.forward), ("b", kind.backward), ("c", kind.rest))],
         f"{1e3 * kind.seconds:.2f} ms, {100 * kind.seconds / cost.seconds:.0f} %")
        for kind in cost.kinds
    ]  # fmt: skip
    parts.append(f"<h3>One step by one worker: {1e3 * cost.seconds:.1f} ms</h3>")
    parts.append(
        '<div class="key"><span><i class="a"></i>forward</span><span><i class="b"></i>backward'
        '</span><span><i class="c"></i>neither</span></div>'
    )
    parts.append(bars(rows))
    parts.append(
        "<p class=\"hint\">Measured when this page was written, on a new model of the same sizes "
        "and a batch of random tokens.</p>"
    )
    parts.append(
        f"<details><summary>The same by module</summary><pre>{escape(cost.table)}</pre></details>"
    )
    memory = [
        ("weights", cost.weight_bytes), ("optimizer", cost.optimizer_bytes),
        ("gradients", cost.weight_bytes), ("kept for the backward pass", cost.kept_bytes),
        ("most above weights and optimizer", cost.peak_bytes),
    ]  # fmt: skip
    largest = max(1, *(size for _, size in memory))
    parts.append('<h3>Memory of a step</h3>')
    parts.append(bars((name, [("a", size / largest)], mebibytes(size)) for name, size in memory))
    return "".join(parts)


def _facts(data: ReportData) -> str:
    default = TrainConfig()
    options = [
        (field.name, getattr(data.config, field.name), getattr(default, field.name))
        for field in dataclasses.fields(TrainConfig)
    ]
    changed = [row for row in options if row[1] != row[2] and row[1] is not None]
    rows = "".join(
        f"<tr><th>{name}</th><td><code>{escape(shown(value))}</code></td>"
        f"<td><code>{escape('–' if usual is None else shown(usual))}</code></td></tr>"
        for name, value, usual in changed
    )
    facts = [
        ("folder", str(data.run.absolute().name)),
        ("tokens in the vocabulary", f"{data.symbols:,}"),
        ("parameters", f"{data.parameters:,}"),
        *data.environment.items(),
        ("tinygrad_edu", tinygrad_edu.__version__),
    ]
    told = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts
    )
    table = (
        "<h3>Options other than the default</h3>"
        '<table class="facts"><thead><tr><th>option</th><th>this run</th><th>default</th></tr>'
        f"</thead><tbody>{rows}</tbody></table>"
        if rows
        else "<p>All options are the default.</p>"
    )
    return (
        f'{table}<h3>Model and machine</h3>'
        f'<table class="facts"><tbody>{told}</tbody></table>'
    )
