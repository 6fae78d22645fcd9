"""`draw(x)`: the graph of a result as a `Drawing`; `print_graph(x)`: in the terminal.

Drawing computes nothing, changes nothing and keeps no node: a `Drawing` is text and numbers.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.drawing import dot as language
from tinygrad_edu.drawing import facts
from tinygrad_edu.drawing.build import ancestors_of_all, build
from tinygrad_edu.drawing.collapse import LIMIT, Amounts, collapsed
from tinygrad_edu.drawing.model import Picture
from tinygrad_edu.drawing.names import names_in, nodes_in
from tinygrad_edu.drawing.overlays import Overlay, overlay_of
from tinygrad_edu.drawing.render import DrawingError, FormatError, render
from tinygrad_edu.drawing.svg import dressed
from tinygrad_edu.drawing.tree import tree_text
from tinygrad_edu.files import write_atomically
from tinygrad_edu.scalar.value import Value

if TYPE_CHECKING:
    import graphviz

__all__ = ["Drawing", "DrawingError", "draw", "print_graph"]

Collapse = str | int | float
_shown = itertools.count(1)


class Drawing:
    """A graph as a picture.

    In a notebook it shows itself. `save("f.svg")` writes a file: svg, png, pdf, dot or html by its
    ending. It holds text and numbers, and no node of the graph.
    """

    def __init__(
        self, opened: Picture, amounts: Amounts, overlay: Overlay | None, collapse: Collapse,
        limit: int, repeats: bool = False,
    ) -> None:  # fmt: skip
        self._opened = opened
        self._amounts = amounts
        self._paint = None if overlay is None else _painter(overlay)
        self._collapse = collapse
        self._limit = limit
        self._repeats = repeats
        self._svg: str | None = None
        self._picture = self.picture(collapse)

    def __repr__(self) -> str:
        boxes, arrows = len(self._picture.boxes), len(self._picture.arrows)
        return f"<drawing of {self._picture.title}: {boxes} boxes, {arrows} arrows>"

    def picture(self, collapse: Collapse | None = None) -> Picture:
        """Boxes and arrows before layout, folded as `collapse` says (the default is the drawing's).

        Raises:
            ValueError: `collapse` is none that `draw` takes.
        """
        how = self._collapse if collapse is None else collapse
        made, amounts = collapsed(
            self._opened, how, self._amounts, self._limit, self._repeats and how != "none"
        )
        return made if self._paint is None else self._paint(made, amounts)

    def opened(self) -> Picture:
        """Every box and arrow, whatever their number, in the overlay's colours."""
        return self._opened if self._paint is None else self._paint(self._opened, self._amounts)

    @property
    def dot(self) -> str:
        """The graph in Graphviz' language; equal graphs give equal text."""
        return language.text_of(self._picture)

    @property
    def digraph(self) -> graphviz.Digraph:
        """The graph as a `graphviz.Digraph`, to go on with.

        Raises:
            ImportError: the package graphviz is not installed.
        """
        try:
            import graphviz
        except ImportError as error:
            raise ImportError(
                "Drawing.digraph needs the package graphviz: pip install 'tinygrad-edu[viz]'"
            ) from error
        made = graphviz.Digraph()
        made.body.extend(f"\t{line}\n" for line in language.body(self._picture))
        return made

    @property
    def svg(self) -> str:
        """The picture as svg text, for light and dark pages.

        Raises:
            DrawingError: no Graphviz is here, or it failed.
        """
        if self._svg is None:
            self._svg = dressed(render(self.dot, "svg"), self._picture)
        return self._svg

    def save(self, path: str | Path) -> Path:
        """Write the drawing to a file and return its path.

        Args:
            path: its ending says the form: .svg, .png, .pdf, .dot (or .gv), .html.

        Raises:
            FormatError: another ending; a ValueError.
            FileNotFoundError: there is no such folder.
            DrawingError: no Graphviz is here, or it failed; then the `.dot` is written beside.
        """
        target = Path(path)
        form = target.suffix.lower().lstrip(".")
        if form not in ("svg", "png", "pdf", "dot", "gv", "html"):
            raise FormatError(
                f"{target.name!r} ends in {target.suffix!r}; a drawing is saved as .svg, .png, "
                ".pdf, .dot or .html"
            )
        if not target.parent.is_dir():
            raise FileNotFoundError(f"there is no folder {target.parent} to save {target.name} in")
        if form in ("dot", "gv"):
            write_atomically(target, self.dot)
        elif form == "html":
            from tinygrad_edu.drawing.page import html

            write_atomically(target, html(self))
        else:
            try:
                if form == "svg":
                    made: str | bytes = self.svg
                else:
                    made = render(language.text_of(self._picture, alone=True), form)
            except DrawingError as error:
                beside = target.with_suffix(".dot")
                write_atomically(beside, self.dot)
                raise DrawingError(f"{error}. The graph is in {beside}") from error
            write_atomically(target, made)
        return target

    def tree(self) -> str:
        """The graph as a tree of text, at 80 columns."""
        return tree_text(self._picture)

    def _repr_mimebundle_(
        self, include: Iterable[str] | None = None, exclude: Iterable[str] | None = None
    ) -> dict[str, str]:
        """What a notebook shows: inline svg, whose ids no other picture of the page has."""
        bundle = {"text/plain": repr(self)}
        try:
            own = language.prefix_of(self._picture)
            bundle["text/html"] = self.svg.replace(own, f"{own}x{next(_shown)}")
        except DrawingError as error:
            bundle["text/plain"] = f"{self!r}\n{error}\n{self.tree()}"
        return bundle


def _painter(overlay: Overlay) -> Callable[[Picture, Amounts], Picture]:
    """Only the colours of an overlay: what it measures may hold nodes."""
    blank = replace(overlay, measure=lambda node: None)
    return blank.painted


def draw(
    x: Any, *, collapse: Collapse = "auto", direction: str = "LR",
    overlay: str | Mapping[Any, float] | Callable[[Any], float | None] | None = None,
    values: bool = True, gradients: bool = True, names: Mapping[str, Any] | None = None,
    between: Any = None, marked: Any = (), title: str | None = None, limit: int = LIMIT,
    repeats: bool = False,
) -> Drawing:  # fmt: skip
    """Draw the graph that a result was made by.

    A box is a value, an arrow one argument: `x * x` has two. It works before, during, after and
    without a backward pass; "grad –" says that no gradient has arrived.

    Args:
        x: a `Value`, a `Tensor`, or a list of them.
        collapse: "auto" folds modules until about 60 boxes are left, and draws equal blocks once;
            "none" opens all, a whole number so many levels, "all" none; a fraction goes from 0.0
            (all open) to 1.0.
        direction: "LR" or "TB": left to right, or top to bottom.
        overlay: colours by "gradient" (vanishing, exploding), "nan", "memory" (bytes), "flops",
            "error" (of each derivative against differences); or by a number for each node, from a
            mapping or a function of it.
        values: whether boxes show numbers, or shapes.
        gradients: whether boxes show gradients.
        names: what to call nodes, such as {"w": w, "model": model}; names of the caller's
            variables are known.
        between: a node, or several: the paths from there to x are marked.
        marked: a node to mark, or several.
        title: one line; the names of x by default.
        limit: boxes at most; a larger graph is folded, and the drawing says so.
        repeats: draw runs of equal blocks once where collapse is another than "auto" (which does so
            by itself) and "none".

    Raises:
        TypeError: x is no Value or Tensor.
        ValueError: an argument is none of those named.
    """
    roots = _roots(x, "draw")
    if limit < 1:
        raise ValueError(f"limit was {limit}; give how many boxes there may be, at least 1")
    if direction not in ("LR", "TB", "RL", "BT"):
        raise ValueError(f"direction was {direction!r}; give 'LR' or 'TB' (or 'RL', 'BT')")
    called = dict(names_in())
    called.update(nodes_in(names or {}))
    for name, x in (names or {}).items():
        if not name.isidentifier() and issubclass(type(x), (Value, Tensor)):
            called[id(x)] = name
    also = [marked] if isinstance(marked, (Value, Tensor)) else marked
    ways = _ways(roots, between)
    opened, nodes = build(
        roots, called, title=title or _title(roots, called), direction=direction, values=values,
        gradients=gradients, marked=[*also, *ways],
    )  # fmt: skip
    kind = None if overlay is None else overlay_of(overlay)
    amounts = Amounts({}) if kind is None else kind.amounts(opened, nodes)
    return Drawing(opened, amounts, kind, collapse, limit, repeats)


def print_graph(x: Any, *, collapse: Collapse = "none", limit: int = 200) -> None:
    """Print the graph of a result as a tree, at 80 columns.

    Args:
        x: a `Value`, a `Tensor`, or a list of them.
        collapse: as in `draw`.
        limit: lines at most.
    """
    roots = _roots(x, "print_graph")
    opened, _ = build(roots, names_in())
    print(tree_text(collapsed(opened, collapse, Amounts({}))[0], limit))


def _roots(x: Any, function: str) -> list[Any]:
    given = list(x) if isinstance(x, (list, tuple)) else [x]
    for each in given:
        if not isinstance(each, (Value, Tensor)):
            raise TypeError(
                f"{function}() was given {type(each).__name__}: {each!r:.60}; give it a Value, a "
                "Tensor, or a list of them"
            )
    if not given:
        raise TypeError(f"{function}() was given an empty list; give it a Value or a Tensor")
    return list({id(node): node for node in given}.values())


def _ways(roots: Sequence[Any], between: Any) -> list[Any]:
    """The nodes on paths from those of `between` to the roots."""
    if between is None:
        return []
    starts = {id(node) for node in _roots(between, "draw(between=…)")}
    found: list[Any] = []
    on: set[int] = set()
    for node in ancestors_of_all(roots):
        if id(node) in starts or any(id(x) in on for x in node.inputs):
            on.add(id(node))
            found.append(node)
    if not starts <= on:
        warnings.warn("no path leads from some node of between=… to what is drawn", stacklevel=3)
    return found


def _title(roots: Sequence[Any], called: Mapping[int, str]) -> str:
    names = [node.name or called.get(id(node)) or facts.word(node) for node in roots]
    return ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
