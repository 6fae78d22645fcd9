"""`loss.svg`: training and validation loss over the steps, between the lines they compare with.

The same log gives the same bytes. The page is white whatever stands around it, so that it can be
read on a dark one, and lines differ in dashes as well as in colour (those of Okabe and Ito 2008,
which colour-blind readers tell apart); each has its name beside it. A loss far above ln V leaves
the picture through its top (`lines.HIGHEST`), and one that is no number is a gap. matplotlib is
imported when the first curve is drawn, and its global state (`pyplot`) never.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tinygrad_edu import text
from tinygrad_edu.files import write_atomically
from tinygrad_edu.lm import checkpoint
from tinygrad_edu.lm.errors import RunError
from tinygrad_edu.lm.history import History, read_history
from tinygrad_edu.lm.lines import Line, heights, lines, nats, spread, validated

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CURVE = "loss.svg"
MOST_POINTS = 1000
"""Of a longer run so many steps are drawn, evenly spaced: more cannot be told apart."""
TRAINING, VALIDATION, INK = "#56B4E9", "#D55E00", "#333333"
TRAINING_WORDS = "#0072B2"
"""The same blue, dark enough for letters."""
STYLES: dict[str, tuple[str, Any]] = {
    "uniform": ("#767676", (0, (1, 2))),
    "unigram": ("#00795A", (0, (4, 3))),
    "ngram": ("#A8487F", (0, (8, 2))),
    "floor": ("#000000", "solid"),
}
"""Colour and dashes of a line by its kind."""
LONGEST_NAME = 50
"""Symbols of a text's name that have room in the title."""
LABELS_FROM = 1.03
"""Where the labels begin, in widths of the picture."""


@dataclass(frozen=True)
class Subject:
    """Whose curve it is.

    Attributes:
        text: the name of the corpus.
        symbols: V.
        parameters: of the model.
        tokens_per_step: targets that an update learns from.
        model: its architecture, as it is written.
    """

    text: str
    symbols: int
    parameters: int
    tokens_per_step: int
    model: str = "GPT"

    @property
    def title(self) -> str:
        """Above the curve; what cannot be printed, as a file's name may hold, is replaced."""
        name = "".join(s if s.isprintable() else "\N{REPLACEMENT CHARACTER}" for s in self.text)
        if len(name) > LONGEST_NAME:
            name = name[: LONGEST_NAME - 1] + "…"
        return f"{name}: a {self.model} of {self.parameters:,} parameters"


def draw(run: str | Path) -> Path:
    """Draw the curve of a run folder anew, from its log; the path of the drawing.

    Raises:
        RunError: no run there, or files of it that are damaged or missing.
    """
    run = Path(run)
    config = checkpoint.read_config(run)
    history = read_history(run / checkpoint.METRICS)
    if not history.losses and not history.validations:
        raise RunError(f"{run} has no losses in {checkpoint.METRICS} yet; train it first")
    weights = checkpoint.read_arrays(run / checkpoint.MODEL)
    subject = Subject(
        text=named(config.corpus),
        symbols=text.load_tokenizer(run / checkpoint.TOKENIZER).vocab_size,
        parameters=sum(array.size for array in weights.values()),
        tokens_per_step=config.tokens_per_step,
        model=config.model_name,
    )
    return write(run, subject, history)


def named(corpus: tuple[str, ...]) -> str:
    """What a text is called after where it comes from, as `text.load_corpus` names it."""
    first = Path(corpus[0]).name
    return first if len(corpus) == 1 else f"{first} and {len(corpus) - 1} more"


def write(run: Path, subject: Subject, history: History) -> Path:
    """Put `loss.svg` into the run folder, whole."""
    path = run / CURVE
    write_atomically(path, to_svg(subject, history))
    return path


def to_svg(subject: Subject, history: History) -> bytes:
    """The drawing."""
    return rendered(lambda: to_figure(subject, history))


def rendered(make: Callable[[], Figure]) -> bytes:
    """The figure that `make` makes as svg, whatever the reader's own style of drawing is."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    settings: Any = {
        "svg.hashsalt": "tinygrad_edu",  # else the ids in it are drawn at random
        "svg.fonttype": "none",  # words stay words: they can be found, copied and read aloud
        "font.family": "sans-serif",
        "font.size": 9.0,
        "path.simplify": False,
    }
    with matplotlib.rc_context(), warnings.catch_warnings():
        # The reader's browser draws the words, with fonts of its own.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        matplotlib.rcdefaults()  # a reader's own style would change the bytes
        matplotlib.rcParams.update(settings)
        figure = make()
        FigureCanvasSVG(figure)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": "tinygrad_edu"})
    return buffer.getvalue()


def to_figure(subject: Subject, history: History) -> Figure:
    """The same as a matplotlib figure of its own."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 4.6), facecolor="white")
    figure.text(0.075, 0.945, subject.title, color=INK, fontsize=11, parse_math=False)
    axes = figure.add_axes((0.075, 0.11, 0.69, 0.69))
    across = lines(history, subject.symbols)
    last = max([1, *history.steps[-1:], *(step for step, _ in validated(history)[-1:])])
    for line in across:
        colour, dashes = STYLES[line.kind]
        axes.axhline(line.height, color=colour, linestyle=dashes, linewidth=1.1, zorder=1)
    low, high = heights(history, across)
    room = 0.05 * (high - low)
    axes.set_xlim(0, last)
    axes.set_ylim(max(0.0, low - room), high + room)
    _draw_losses(axes, history)
    _draw_validations(axes, validated(history), last)
    _name(axes, _labels(history, across), last)
    _frame(axes, subject)
    return figure


def _draw_losses(axes: Axes, history: History) -> None:
    kept = slice(None, None, max(1, -(-len(history.steps) // MOST_POINTS)))
    steps, smoothed = history.steps[kept], history.smoothed[kept]
    axes.plot(steps, history.losses[kept], color=TRAINING, alpha=0.35, linewidth=0.6, zorder=2)
    axes.plot(steps, smoothed, color=TRAINING, linewidth=1.8, zorder=3)


def _draw_validations(axes: Axes, found: list[tuple[int, float]], last: int) -> None:
    """Marked points, whole at the edges too; from the last one dots lead on to its label."""
    if not found:
        return
    axes.plot(*zip(*found, strict=True), color=VALIDATION, linewidth=1.0, zorder=4)
    inside = [(step, loss) for step, loss in found if loss <= axes.get_ylim()[1]]
    if inside:
        axes.plot(
            *zip(*inside, strict=True), color=VALIDATION, linestyle="none", marker="o",
            markersize=5, markeredgecolor="white", markeredgewidth=0.6, zorder=4, clip_on=False,
        )  # fmt: skip
    step, loss = found[-1]
    if step < last:
        dots = (0, (1, 3))
        axes.plot([step, last], [loss, loss], color=VALIDATION, linewidth=0.9, linestyle=dots)


Label = tuple[float, str, str]


def _labels(history: History, across: list[Line]) -> list[Label]:
    """(height, words, colour), each for what ends or runs there at the right edge."""
    labels = [(line.height, line.name, STYLES[line.kind][0]) for line in across]
    if history.smoothed and math.isfinite(now := history.smoothed[-1]):
        labels.append((now, f"training {nats(now)}", TRAINING_WORDS))
    if found := validated(history):
        now = found[-1][1]
        labels.append((now, f"validation {nats(now)}", VALIDATION))
    return labels


def _name(axes: Axes, labels: list[Label], last: int) -> None:
    """Write the labels beside their lines, a thin line leading from each to its label."""
    low, high = axes.get_ylim()
    places = spread([label[0] for label in labels], 0.055 * (high - low), low, high)
    for (height, words, colour), place in zip(labels, places, strict=True):
        end = last * (LABELS_FROM - 0.005)
        if height <= high:
            axes.plot([last, end], [height, place], color=colour, linewidth=0.6, clip_on=False)
        axes.text(last * LABELS_FROM, place, words, color=colour, va="center_baseline")


def _frame(axes: Axes, subject: Subject) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    each = subject.tokens_per_step
    axes.set_xlabel("steps", color=INK)
    axes.set_ylabel("loss, nats a symbol", color=INK)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))
    scale: Any = (lambda step: step * each, lambda tokens: tokens / each)
    above = axes.secondary_xaxis("top", functions=scale)
    above.set_xlabel("tokens seen", color=INK)
    above.xaxis.set_major_locator(MaxNLocator(nbins=6))
    above.xaxis.set_major_formatter(FuncFormatter(lambda tokens, _: _short(tokens)))
    plain_axes(axes, above)
    axes.spines["right"].set_visible(False)


def plain_axes(axes: Axes, *others: Any) -> None:
    """Quiet edges and lines to read heights by; `others` are axes at its other sides."""
    for side in (axes, *others):
        side.tick_params(colors=INK)
        for edge in side.spines.values():
            edge.set_color("#999999")
    axes.grid(axis="y", color="#E8E8E8", linewidth=0.6, zorder=0)
    axes.set_axisbelow(True)


def _short(number: float) -> str:
    """`0`, `500`, `40 k`, `1.5 M`."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.0f}"
