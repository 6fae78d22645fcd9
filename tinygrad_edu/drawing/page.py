"""A drawing as one page that needs nothing else: pan, zoom, search, open and close, details, code.

The page's policy forbids every request. All text is JSON in a script that browsers do not run, and
is put in as text.
"""

from __future__ import annotations

import html as markup
import json
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

from tinygrad_edu.drawing import dot
from tinygrad_edu.drawing.collapse import grouped

if TYPE_CHECKING:
    from tinygrad_edu.drawing.draw import Drawing

__all__ = ["html", "page", "standalone"]

_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'"


def html(drawing: Drawing) -> str:
    """The page of a drawing, with every module in it; large ones begin closed."""
    picture = grouped(drawing.opened())
    start = (
        "const data = JSON.parse(document.getElementById('data').textContent);\n"
        "new GraphView(document.querySelector('.tg'), data.picture);"
    )
    return page(f"{picture.title}: graph", {"picture": picture.as_dict()}, start)


def page(title: str, data: dict[str, Any], start: str, scripts: Sequence[str] = ()) -> str:
    """A page around the viewer.

    Args:
        title: what the browser shows.
        data: what the scripts find as JSON.
        start: the script that begins.
        scripts: assets to load beside the viewer's own.
    """
    body = '<div class="tg"></div>\n'
    return standalone(
        title, body, data, start, scripts=("layout.js", "viewer.js", *scripts),
        styles=("theme.css", "viewer.css"),
    )  # fmt: skip


def standalone(
    title: str,
    body: str,
    data: dict[str, Any],
    start: str,
    *,
    scripts: Sequence[str],
    styles: Sequence[str],
) -> str:
    """A whole page of its own.

    Args:
        title: what the browser shows.
        body: HTML, in which all text is escaped.
        data: what the scripts find as JSON, in the element `data`.
        start: the script that begins.
        scripts: assets, in their order.
        styles: likewise.
    """
    code = "\n".join(map(_asset, scripts))
    style = "".join(map(_asset, styles))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{markup.escape(dot.plain(title))}</title>\n"
        f"<style>\n{style}</style>\n</head>\n<body>\n"
        f"{body}"
        f'<script type="application/json" id="data">{_json(data)}</script>\n'
        f"<script>\n{code}\n{start}\n</script>\n</body>\n</html>\n"
    )


def _asset(name: str) -> str:
    return (resources.files("tinygrad_edu.drawing") / "assets" / name).read_text(encoding="utf-8")


def _json(data: dict[str, Any]) -> str:
    """JSON in which nothing can end the script around it."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
