"""Colours, figures and axes that all pictures share."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

# Okabe and Ito's colours, told apart by everyone; the lighter of them on dark grounds.
_ON_LIGHT = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_ON_DARK = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#D55E00")
_OURS = "asvgp"

Colour = tuple[float, float, float]


def pyplot() -> Any:
    """Return matplotlib.pyplot, imported now."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("Pictures need matplotlib: pip install 'asvgp[plot]'.") from None
    return plt


class Palette(NamedTuple):
    """Colours for one ground."""

    terms: tuple[str, ...]  # of the model first, then of its parts
    pale: Colour  # greys between ground and ink: ranges, bulks and single observations
    middle: Colour
    strong: Colour
    ink: Colour

    @property
    def model(self) -> str:
        """Colour of posterior means and their bands."""
        return self.terms[0]

    @property
    def expected(self) -> str:
        """Colour of what a right model would show."""
        return self.terms[1]


def palette(ax) -> Palette:
    """Return colours that stand out from the ground of some axes."""
    pyplot()
    from matplotlib import rcParams

    ink = rcParams["axes.labelcolor"]
    terms = _ON_LIGHT if _ground(ax) @ [0.2126, 0.7152, 0.0722] > 0.45 else _ON_DARK
    return Palette(terms, *(tint(ax, ink, share) for share in (0.22, 0.42, 0.6, 1.0)))


def tint(ax, colour, share: float) -> Colour:
    """Return a share of a colour on the ground of some axes.

    It is opaque: where transparent patches overlap, shades would seem to mean something.
    """
    from matplotlib.colors import to_rgb

    ground = _ground(ax)
    red, green, blue = (ground + share * (np.array(to_rgb(colour)) - ground)).tolist()
    return red, green, blue


def _ground(ax) -> np.ndarray:
    """Return the colour that is seen behind some axes."""
    from matplotlib.colors import to_rgba

    ground = to_rgba(ax.get_facecolor())
    if ground[3] < 0.5:  # seen through
        ground = to_rgba(ax.figure.get_facecolor())
    return np.array(ground[:3])


@contextmanager
def panels(ax, rows: int, columns: int, size: tuple[float, float], **options) -> Iterator[Any]:
    """Provide the axes to draw into, (rows, columns): those given, or a new figure's.

    A figure made here is closed again where drawing fails.
    """
    plt = pyplot()
    if ax is not None:
        given = np.asarray(ax, dtype=object)
        if given.size != rows * columns or not all(hasattr(a, "plot") for a in given.flat):
            raise ValueError(
                f"ax must be {rows * columns} matplotlib Axes"
                f"{f' ({rows} x {columns})' if rows * columns > 1 else ''}, got {given.size}: "
                f"{ax!r:.80}."
            )
        yield given.reshape(rows, columns)
        return
    figure, axes = plt.subplots(
        rows, columns, figsize=size, layout="constrained", squeeze=False, **options
    )
    try:
        yield axes
    except BaseException:
        plt.close(figure)
        raise


def titled(ax, text: str) -> None:
    """Set a panel's title, at its left, in as many lines as its width needs."""
    width = max(24, pixels(ax)[0] // 7)  # characters of about seven pixels
    lines = textwrap.fill(text.replace(" = ", "\xa0=\xa0"), width)  # values stay with their names
    ax.set_title(lines.replace("\xa0", " "), loc="left", fontsize="medium")


def legend(ax, **options) -> None:
    """Draw a small legend; drawn again without options, it stays where it was."""
    options = options or getattr(ax.get_legend(), _OURS, {})
    made = ax.legend(**{"fontsize": "small", "framealpha": 0.8, "markerscale": 1.5} | options)
    made.set_gid(_OURS)
    setattr(made, _OURS, options)


def legend_above(ax) -> None:
    """Draw a small legend in rows above axes, where it covers nothing."""
    above = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "frameon": False}
    legend(ax, **above, ncols=5, columnspacing=1.5, borderaxespad=0.2)


def colour_bar(ax, image, label: str = "") -> None:
    """Draw a colour bar as high as the axes are, whatever their aspect."""
    bar = ax.figure.colorbar(image, cax=ax.inset_axes((1.03, 0.0, 0.04, 1.0)))
    bar.set_label(label)


def legend_is_ours(ax) -> bool:
    """Return True if axes have a legend, and nobody has made another since."""
    found = ax.get_legend()
    return found is not None and found.get_gid() == _OURS


def pixels(ax) -> tuple[int, int]:
    """Return about how many columns and rows of pixels axes have."""
    box = ax.get_window_extent()
    sides = np.clip(np.rint([box.width, box.height]), 64, 4096)
    return int(sides[0]), int(sides[1])


def written(ax, x: float, y: float, text: str, **options) -> None:
    """Write a small text into a corner of axes; x and y go from 0 to 1."""
    ax.text(x, y, text, transform=ax.transAxes, fontsize="small", **options)


def percent(level: float) -> str:
    """Return a share in per cent."""
    return f"{100.0 * level:.4g} %"
