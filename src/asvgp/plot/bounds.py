"""Is the basis large enough? Bounds on the evidence, and how they rose with resolution."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from asvgp.plot.classes import of_classes_too
from asvgp.plot.style import legend, palette, panels, titled, written
from asvgp.plot.view import View, drawn

_GROWTH = 1.25  # of the number of basis functions from one resolution to the next, at least


@of_classes_too
def resolution(gp: Any, *, ax: Any = None) -> Any:
    """Draw what every resolution that training tried has reached.

    The lower bound per observation against the number of basis functions; the upper bound, where
    it is known, from above. Where the lower bound has become flat, more basis functions would
    change nothing. A model whose ``num_basis`` was given has one point.

    Training of a model of several terms refines some of them and makes others coarser, so that
    the number of functions may hardly grow, or fall. Then the steps are drawn in their order, and
    the number is written beneath.

    Parameters
    ----------
    gp : GPRegressor
        Fitted.
    ax : Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import GPRegressor, Matern32, plot
    >>> x = np.linspace(0.0, 10.0, 1000)
    >>> y = np.sin(3 * x) + 0.1 * np.random.default_rng(0).standard_normal(1000)
    >>> gp = GPRegressor(Matern32()).fit(x, y)
    >>> ax = plot.resolution(gp)
    >>> len(ax.lines[0].get_xdata()) == len(gp.resolution_)
    True
    """
    view = drawn(gp, 0)
    with panels(ax, 1, 1, (5.0, 3.6)) as axes:
        draw_levels(axes[0, 0], view)
    return axes[0, 0]


@of_classes_too
def bound(gp: Any, *, ax: Any = None) -> Any:
    """Draw the bounds between which the log evidence of the exact process lies.

    Also the evidence of the spline field itself, which ``objective="evidence"`` maximises. All
    in nats per observation.

    Parameters
    ----------
    gp : GPRegressor
        Fitted.
    ax : Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import GPRegressor, Matern32, plot
    >>> x = np.linspace(0.0, 10.0, 500)
    >>> ax = plot.bound(GPRegressor(Matern32(), num_basis=50).fit(x, np.sin(x)))
    >>> [label.get_text() for label in ax.get_yticklabels()][::2]
    ['upper bound', 'lower bound']
    """
    view = drawn(gp, 0)
    with panels(ax, 1, 1, (6.0, 1.9)) as axes:
        draw_bounds(axes[0, 0], view)
    return axes[0, 0]


def draw_bounds(ax, view: View) -> None:
    """Draw the bounds and the evidence of the splines, one under the other."""
    gp, each, colours = view.gp, view.observations, palette(ax)
    rows = [
        ("upper bound", gp.evidence_upper_bound_ / each),
        ("evidence of\nthe splines", gp.evidence_ / each if view.family is None else np.nan),
        ("lower bound", gp.elbo_ / each),
    ]
    rows = [row for row in rows if np.isfinite(row[1])]
    values = np.array([value for _, value in rows])
    low, high = float(values.min()), float(values.max())
    if len(rows) == 3:
        ax.axvspan(low, high, color=colours.model, alpha=0.2, lw=0)
    ax.plot(values, np.arange(len(rows)), "o", color=colours.model)
    room = 0.25 * (high - low) or 0.01 * abs(high) or 1.0
    for height, value in enumerate(values):
        on_left = value > 0.5 * (low + high)
        ax.annotate(
            f"{value:#.5g}",
            (value, height),
            (-8 if on_left else 8, 0),
            textcoords="offset points",
            ha="right" if on_left else "left",
            va="center",
            fontsize="small",
        )
    ax.set_yticks(np.arange(len(rows)), [name for name, _ in rows])
    ax.set(xlim=(low - room, high + room), ylim=(-0.6, len(rows) - 0.4))
    ax.set_xlabel("nats per observation")
    titled(ax, "bounds on the log evidence")


def functions(view: View, num_basis) -> int:
    """Return the number of basis functions of a resolution.

    The numbers along the inputs of a grid multiply; those of smooths beside it add.
    """
    if isinstance(num_basis, int | np.integer):
        return int(num_basis)
    main = len(view.layout.inputs)
    return (prod(num_basis[:main]) if main else 0) + sum(num_basis[main:])


def draw_levels(ax, view: View) -> None:
    """Draw bounds per observation against the number of basis functions, or step by step."""
    colours, each, levels = palette(ax), view.observations, view.gp.resolution_
    counts = [functions(view, level.num_basis) for level in levels]
    lower = np.array([level.elbo for level in levels]) / each
    upper = np.array([level.upper_bound for level in levels]) / each
    # Numbers that grow as they do for one input make an axis; otherwise steps are counted.
    growing = all(after >= _GROWTH * before for before, after in pairwise(counts))
    x = np.array(counts if growing else range(1, len(counts) + 1))
    ax.plot(x, lower, "o-", ms=4, lw=1.2, color=colours.model, label="lower bound", zorder=3)
    known = np.isfinite(upper)
    within = _limit(ax, lower, upper[known])
    if known.any():
        style = {"color": colours.expected, "label": "upper bound" if within else "_"}
        ax.plot(x[known], upper[known], "v--", ms=4, lw=1.0, **style)
    shown = np.arange(len(x))[:: -max(1, -(-len(x) // 5))][::-1]  # the last one always
    labels = [_short(counts[step]) for step in shown]
    if growing:
        ax.set_xscale("log")
        ax.set_xlim(x[0] / 1.4, x[-1] * 1.4)
        ax.set_xlabel("basis functions")
    else:
        ax.set_xlim(0.5, len(x) + 0.5)
        labels = [f"{step + 1}\n{count}" for step, count in zip(shown, labels, strict=True)]
        ax.set_xlabel("step, and its number of basis functions")
    ax.set_xticks(x[shown], labels)
    ax.set_xticks([], minor=True)
    ax.set_ylabel("nats per observation")
    titled(ax, "resolution")
    legend(ax, loc="lower right")


def _short(count: int) -> str:
    """Return a number in three digits."""
    for size, unit in ((10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return str(count)


def _limit(ax, lower, upper) -> bool:
    """Set limits that show the rise of the lower bound; return True if the upper one is inside.

    The upper bound is cautious, and more so with every observation: where it is far above, its
    last value is written instead.
    """
    low, high = float(lower.min()), float(lower.max())
    top = high + max(2.0 * (high - low), 1e-3)
    within = len(upper) > 0 and (float(upper[-1]) <= top or len(lower) == 1)
    if within:
        top = max(high, float(upper.max()))
    elif len(upper):
        top = high + 0.3 * (high - low)
        written(ax, 0.03, 0.96, f"upper bound {upper[-1]:.4g}", va="top")
    margin = 0.1 * (top - low) or 0.01
    ax.set_ylim(low - margin, top + margin)
    return within
