"""The drawings of a run's report as inline SVG: lines over steps, cells, bars, points.

Colours are classes that the page's style sheet fills, for light and dark. A drawing has words for
who cannot see it, and what a pointer or the keys point at is said in the line below it (by
`report.js`, from the attributes and the page's JSON).
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tinygrad_edu.lm.lines import spread

WIDTH, HEIGHT = 460, 260
LEFT, TOP, BOTTOM = 58, 14, 36
MOST_POINTS = 2000
"""Of a longer run so many steps are kept, evenly spaced, with the last one."""
LABEL = 13
"""Between two labels at the right edge at least."""


@dataclass(frozen=True)
class Series:
    """Points to be joined: `kind` is its class, and `marked` puts a dot at each."""

    name: str
    kind: str
    x: Sequence[float]
    y: Sequence[float]
    marked: bool = False


@dataclass(frozen=True)
class Level:
    """A line at one height, with its name at the right edge."""

    name: str
    kind: str
    y: float


@dataclass(frozen=True)
class Chart:
    """Series over steps.

    Attributes:
        id: of the drawing in the page, and of its numbers in the page's JSON.
        title: above it.
        unit: of the heights, in words.
        bounds: the lowest and highest height drawn; by default those of the series.
        right: room for names at the right edge.
    """

    id: str
    title: str
    unit: str
    series: Sequence[Series]
    levels: Sequence[Level] = field(default_factory=tuple)
    bounds: tuple[float, float] | None = None
    right: int = 14

    @property
    def heading(self) -> str:
        """The title, with its unit."""
        return f"{self.title}, {self.unit}" if self.unit else self.title

    @property
    def drawn(self) -> bool:
        """Whether there is any point to draw."""
        return any(math.isfinite(y) for series in self.series for y in series.y)

    def frame(self) -> Frame:
        """Where numbers lie in the drawing."""
        points = [y for series in self.series for y in series.y if math.isfinite(y)]
        low, high = self.bounds or (min(points), max(points))
        if high - low < 1e-12:
            low, high = low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2
        last = max((x for series in self.series for x in series.x), default=1.0)
        return Frame(0.0, max(last, 1.0), low, high, WIDTH - self.right)

    def svg(self) -> str:
        """The drawing."""
        frame = self.frame()
        return "".join([
            f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" tabindex="0" '
            f'data-chart="{self.id}" data-frame="{frame.attribute()}" '
            f'aria-label="{html.escape(self._said())}">',
            f'<clipPath id="clip-{self.id}"><rect x="{LEFT}" y="{TOP - 4}" '
            f'width="{frame.right - LEFT:g}" height="{HEIGHT - TOP - BOTTOM + 8}"/></clipPath>',
            *self._axes(frame),
            *(self._level(frame, level) for level in self.levels),
            f'<g clip-path="url(#clip-{self.id})">',
            *(_line(frame, series) for series in self.series),
            "</g>",
            *self._names(frame),
            f'<line class="cursor" y1="{TOP}" y2="{HEIGHT - BOTTOM}" x1="-9" x2="-9"/></svg>',
        ])  # fmt: skip

    def numbers(self) -> list[dict[str, object]]:
        """What the page's JSON has of it: the numbers as they are, null for one that is none."""
        return [
            {
                "name": series.name,
                "x": list(series.x),
                "y": [y if math.isfinite(y) else None for y in series.y],
            }
            for series in self.series
        ]

    def _said(self) -> str:
        ends = []
        for series in self.series:
            finite = [y for y in series.y if math.isfinite(y)]
            if finite:
                ends.append(f"{series.name} from {finite[0]:.3g} to {finite[-1]:.3g}")
        return f"{self.title}: " + "; ".join(ends)

    def _axes(self, frame: Frame) -> Iterator[str]:
        for y in ticks(frame.low, frame.high, 5):
            place = frame.y(y)
            across = f'x1="{LEFT}" x2="{frame.right}" y1="{place:.1f}" y2="{place:.1f}"'
            yield f'<line class="grid" {across}/>'
            yield f'<text class="tick y" x="{LEFT - 6}" y="{place + 4:.1f}">{short(y)}</text>'
        for x in ticks(frame.first, frame.last, 4):
            place = frame.x(x)
            below = HEIGHT - BOTTOM + 17
            yield f'<text class="tick x" x="{place:.1f}" y="{below}">{short(x)}</text>'
        yield f'<text class="unit" x="{(LEFT + frame.right) / 2:.0f}" y="{HEIGHT - 4}">steps</text>'

    def _level(self, frame: Frame, level: Level) -> str:
        if not frame.low <= level.y <= frame.high:
            return ""
        y = frame.y(level.y)
        return (
            f'<line class="level {level.kind}" x1="{LEFT}" x2="{frame.right}" y1="{y:.1f}" '
            f'y2="{y:.1f}"/>'
        )

    def _names(self, frame: Frame) -> Iterator[str]:
        """Of levels and series at the right edge, where there is room for them."""
        if self.right < 60:
            return
        named = [(level.y, level.name, level.kind) for level in self.levels]
        for series in self.series:
            finite = [y for y in series.y if math.isfinite(y)]
            if finite and series.kind != "raw":
                named.append((finite[-1], f"{series.name} {finite[-1]:.2f}", series.kind))
        wanted = [-frame.y(min(max(y, frame.low), frame.high)) for y, _, _ in named]
        places = spread(wanted, LABEL, -(HEIGHT - BOTTOM), -TOP)
        for (_, name, kind), place in zip(named, places, strict=True):
            x = frame.right + 6
            words = html.escape(name)
            yield f'<text class="name {kind}" x="{x}" y="{-place + 4:.1f}">{words}</text>'


@dataclass(frozen=True)
class Frame:
    """The numbers at the edges of a chart, and its right edge in the drawing."""

    first: float
    last: float
    low: float
    high: float
    right: float

    def x(self, value: float) -> float:
        """Where a step lies."""
        return LEFT + (value - self.first) / (self.last - self.first) * (self.right - LEFT)

    def y(self, value: float) -> float:
        """Where a height lies."""
        depth = HEIGHT - TOP - BOTTOM
        return HEIGHT - BOTTOM - (value - self.low) / (self.high - self.low) * depth

    def attribute(self) -> str:
        """For the script: first, last, left, right."""
        return f"{self.first:g} {self.last:g} {LEFT} {self.right:g}"


def _line(frame: Frame, series: Series) -> str:
    parts, pen = [], "M"
    dots = []
    for x, y in zip(series.x, series.y, strict=True):
        if not math.isfinite(y):
            pen = "M"
            continue
        # What lies far outside of the frame is cut off there; its number would be no coordinate.
        across, down = frame.x(x), min(max(frame.y(y), -2.0 * HEIGHT), 3.0 * HEIGHT)
        parts.append(f"{pen}{across:.2f} {down:.2f}")
        pen = "L"
        if series.marked:
            dots.append(f'<circle class="dot" cx="{across:.2f}" cy="{down:.2f}" r="3"/>')
    path = f'<path class="line {series.kind}" d="{"".join(parts)}"/>' if parts else ""
    return path + "".join(dots)


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers from `low` to `high`, at most about `most`: steps of 1, 2 or 5 times a power
    of ten.
    """
    span = high - low
    if not math.isfinite(span) or span <= 0:
        return [low]
    rough = span / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * k for k in (1, 2, 5, 10) if power * k >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def short(number: float) -> str:
    """`0.0005` as 5e-4, `2000` as 2k: few symbols for an axis."""
    if number == 0:
        return "0"
    size = abs(number)
    if size >= 1e6:
        return f"{number / 1e6:.3g}M"
    if size >= 1000:
        return f"{number / 1000:.3g}k"
    if size < 0.001:
        digits, _, power = f"{number:.0e}".partition("e")
        return f"{digits}e{int(power)}"
    return f"{number:.3g}"


def thinned(count: int, most: int = MOST_POINTS) -> list[int]:
    """Which of `count` points are kept: all, or `most` evenly spaced with the first and last."""
    if count <= most:
        return list(range(count))
    return sorted({round(i * (count - 1) / (most - 1)) for i in range(most)})


# Cells.

ROW, LABELS = 22, 172


def cells(
    name: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
) -> str:
    """A heat map of positive numbers by their logarithm: the darkest is the largest of all."""
    known = [v for row in values for v in row if v is not None and v > 0]
    low, high = (math.log(min(known)), math.log(max(known))) if known else (0.0, 1.0)
    height = ROW * len(rows) + 30
    width = (2 * WIDTH - LABELS) / max(1, len(columns))
    made = [
        f'<svg class="chart cells" viewBox="0 0 {2 * WIDTH} {height}" role="img" tabindex="0" '
        f'data-cells="{name}" aria-label="Gradient norms of {len(rows)} parts at {len(columns)} '
        'steps; arrow keys move">'
    ]
    for r, part in enumerate(rows):
        words = html.escape(part)
        made.append(f'<text class="row" x="{LABELS - 8}" y="{ROW * r + 15}">{words}</text>')
        for c, value in enumerate(values[r]):
            if value is None:
                continue
            share = (math.log(value) - low) / ((high - low) or 1) if value > 0 else 0.0
            strength = 0.08 + 0.92 * share
            made.append(
                f'<rect class="cell" data-r="{r}" data-c="{c}" x="{LABELS + width * c:.2f}" '
                f'y="{ROW * r}" width="{width:.2f}" height="{ROW - 2}" '
                f'fill-opacity="{strength:.3f}"/>'
            )
    apart = max(1, -(-len(columns) // 8))
    for c in range(0, len(columns), apart):
        x = LABELS + width * (c + 0.5)
        words = html.escape(columns[c])
        made.append(f'<text class="tick x" x="{x:.1f}" y="{ROW * len(rows) + 15}">{words}</text>')
    return "".join(made) + "</svg>"


# Bars.


def bars(rows: Iterable[tuple[str, Sequence[tuple[str, float]], str]]) -> str:
    """A row each of (name, parts, words): parts are (class, share of the longest row)."""
    made = []
    for name, parts, words in rows:
        inner = "".join(
            f'<span class="part {kind}" style="width:{100 * share:.2f}%"></span>'
            for kind, share in parts
        )
        made.append(
            f"<tr><th>{html.escape(name)}</th><td><div class=\"bar\">{inner}</div></td>"
            f"<td>{html.escape(words)}</td></tr>"
        )
    return f'<table class="bars"><tbody>{"".join(made)}</tbody></table>'
