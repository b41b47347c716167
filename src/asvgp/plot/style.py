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
    from matplotlib.colors import to_rgb, to_rgba

    ground = to_rgba(ax.get_facecolor())
    if ground[3] < 0.5:  # seen through
        ground = to_rgba(ax.figure.get_facecolor())
    ground = np.array(ground[:3])
    ink = np.array(to_rgb(rcParams["axes.labelcolor"]))
    bright = ground @ [0.2126, 0.7152, 0.0722] > 0.45

    def mixed(share: float) -> Colour:
        # Opaque: where transparent patches overlap, greys would seem to mean something.
        red, green, blue = (ground + share * (ink - ground)).tolist()
        return red, green, blue

    terms = _ON_LIGHT if bright else _ON_DARK
    return Palette(terms, mixed(0.22), mixed(0.42), mixed(0.6), mixed(1.0))


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
    """Draw a small legend."""
    ax.legend(fontsize="small", framealpha=0.8, markerscale=1.5, **options).set_gid(_OURS)


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


def band_factor(level) -> float:
    """Return the half width, in standard deviations, of the band that holds a probability."""
    from scipy.special import ndtri

    try:
        share = float(level)
    except (TypeError, ValueError):
        share = np.nan
    if not 0.0 < share < 1.0:
        raise ValueError(f"level must be between 0 and 1, such as 0.95, got {level!r}.")
    return float(ndtri(0.5 + 0.5 * share))


def percent(level: float) -> str:
    """Return a share in per cent."""
    return f"{100.0 * level:.4g} %"
