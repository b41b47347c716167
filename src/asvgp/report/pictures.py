"""Pictures of `asvgp.plot` as part of a page: SVG whose colours are those of the page."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.util import find_spec
from io import StringIO
from typing import Any

from asvgp.plot.style import palette
from asvgp.report.text import Html, safe

_GROUND, _INK, _FRAME = "#f6f7f9", "#1c2330", "#d5d9e0"
_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.size": 9.0,
    "figure.dpi": 144.0,  # two pixels for each that most screens show
    "figure.facecolor": _GROUND,
    "axes.facecolor": _GROUND,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.edgecolor": _FRAME,
    **dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _INK
    ),
}


def can_draw() -> bool:
    """Return True if matplotlib is installed."""
    return find_spec("matplotlib") is not None


def pictures(
    name: str, count: int, size: tuple[float, float], draw: Callable[[list], Any]
) -> list[Html]:
    """Draw panels, each a picture of its own, so that a page can lay them out.

    ``name``, unique on a page, begins the identifiers inside the pictures; each has a ``size`` in
    inches, and ``draw`` draws into a list of Axes.
    """
    from matplotlib import style
    from matplotlib.figure import Figure

    # Figures that pyplot does not know, in matplotlib's own style: neither what users have open
    # nor their settings play a part.
    with style.context(_STYLE, after_reset=True):
        axes = [Figure(figsize=size, layout="constrained").subplots() for _ in range(count)]
        draw(axes)
        return [_svg(ax, f"{name}-{number}") for number, ax in enumerate(axes)]


def _svg(ax, name: str) -> Html:
    """Return the figure of some axes as an element."""
    import matplotlib as mpl
    from matplotlib.colors import to_hex

    stream, colours = StringIO(), palette(ax)
    with mpl.rc_context({"svg.hashsalt": name}):
        ax.figure.savefig(stream, format="svg", metadata={"Date": None})
    text = stream.getvalue()
    box = re.search(r'viewBox="[^"]*"', text)
    assert box is not None
    body = text[text.index("</metadata>") + len("</metadata>") : text.rindex("</svg>")]
    body = re.sub(r"<style.*?</style>", "", body, flags=re.DOTALL)  # would hold for all the page
    body = re.sub(r'<g id="[^"]*"', "<g", body)  # the same in every picture, and never referred to
    for colour, role in (
        (_GROUND, "sheet"),
        (_INK, "ink"),
        (_FRAME, "line"),
        (colours.model, "model"),
        (colours.expected, "expected"),
        (colours.pale, "pale"),
        (colours.middle, "range"),
        (colours.strong, "dots"),
    ):
        body = body.replace(to_hex(colour), f"var(--{role})")
    return Html(
        f'<svg {box[0]} role="img" aria-label="{safe(ax.get_title(loc="left"))}">{body}</svg>'
    )
