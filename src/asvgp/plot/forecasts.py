"""A forecast: the end of a series, what follows with its bands, and the components of both."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from asvgp.basis import Array
from asvgp.estimators.forecast import band_factors
from asvgp.estimators.summands import summands
from asvgp.kernels import Linear
from asvgp.plot.classes import of_classes_too
from asvgp.plot.inputs import Input
from asvgp.plot.style import legend_above, palette, panels, tint, titled
from asvgp.plot.terms import intercept_text, together
from asvgp.plot.traces import Cloud, Curve, follow
from asvgp.plot.view import View, drawn, term_name
from asvgp.statistics.ending import ending_of
from asvgp.structures.observed import Beside

_HISTORY = 3.0  # lengths of the forecast that are shown before it
_SINGLE = 40  # steps up to which each is marked


@of_classes_too
def forecast(
    gp: Any,
    X: Any = None,
    y: Any = None,
    *,
    steps: Any = None,
    until: Any = None,
    future: Any = None,
    history: Any = None,
    level: Any = (0.8, 0.95),
    components: bool = False,
    include_noise: bool = True,
    noise_variance: Any = None,
    output: Any = None,
    ax: Any = None,
    exposure: Any = None,
) -> Any:
    """Draw the end of a series and its forecast with prediction intervals.

    Up to the end of the data, which a dotted line marks, it shows the fitted mean, with the
    observations if they are given and with the widest band of f if not. Beyond, it shows the means
    and the bands that `GPRegressor.forecast` returns.

    Parameters
    ----------
    gp : GPRegressor
        Fitted, of one input.
    X, y : array-like, optional
        Observations to draw, as in `GPRegressor.fit`; those before the history are left out.
    steps, until, level, include_noise, noise_variance
        As in `GPRegressor.forecast`.
    future : array-like, optional
        The ``X`` of `GPRegressor.forecast`: rows to forecast, in place of ``steps`` and ``until``.
    history : number or duration, optional
        How much to show before the end of the data, by default three times the forecast's length;
        a duration ("7 days") where X holds times.
    components : bool
        Also a panel for each component and for each linear effect, with the widest of the bands,
        of f and without noise. Parts of one period are one panel, without a band; components with
        practically no variance are left out. Beside an intercept, components are shown less their
        mean over the data, as in `asvgp.plot.components`.
    output : int, optional
        Which of several outputs.
    ax : Axes, or array of them with ``components``, optional
    exposure : number or array-like, optional
        Of the observations that are drawn, as it was given to `GPRegressor.fit`: counts are drawn
        as rates, and the forecast is of counts of exposure one.

    Returns
    -------
    Axes, or array of Axes with ``components``

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import GPRegressor, Matern32, plot
    >>> x = np.arange(200.0)
    >>> gp = GPRegressor(Matern32(), num_basis=50).fit(x, np.sin(x / 9))
    >>> ax = plot.forecast(gp, x, np.sin(x / 9), steps=20)
    >>> [float(end) for end in ax.get_xlim()]
    [139.0, 219.0]
    """
    view, factors = drawn(gp, output), band_factors(level)
    found = gp._forecast(steps, until, future, level, False, include_noise, noise_variance)
    values = list(found.outputs.values())[view.output]
    place = view.line
    last = ending_of(gp.stats_).last
    end = place.upper if last is None else last
    stop = max(float(found.x.max()), end)
    length = _HISTORY * (stop - end) if history is None else place.length(history, "history")
    start = max(place.lower, end - length)
    start = start if start < stop else place.lower
    rows = None if X is None and y is None else view.data(X, y)
    if rows is not None:
        rows = rows[0], view.rates(rows[1], Beside(exposure))
    ahead = None if future is None else view.read(future)
    terms = _terms(view) if components else []
    count = 1 + len(terms)
    heights = {"height_ratios": [3.0] + [1.2] * len(terms)} if ax is None else {}
    size = (9.0, 3.6 + 1.5 * len(terms))
    with panels(ax, count, 1, size, sharex=ax is None, **heights) as axes:
        axes = axes[:, 0]
        top, traces = axes[0], []
        colours = palette(top)
        if rows is not None:
            traces.append(Cloud(top, place, rows[0][place.column], rows[1]))
        widest = max(factors, key=lambda name: factors[name], default="0")
        factor = factors.get(widest, 0.0)
        if not view.layout.linear:
            past = partial(_mean, view)
            of = "f" if view.mean_name == "f" else f"the {view.mean_name}"
            names = "fitted mean", None if rows else f"{widest} % band of {of}", view.transform
            half = 0.0 if rows else factor
            traces.append(Past(top, place, past, half, colours.ink, *names, end=end))
        follow(top, place, start, stop, traces)
        if view.layout.linear and rows is not None:
            _fitted_rows(top, view, rows[0], end)
        _fan(top, place, found.x, values, factors, include_noise)
        if not view.layout.linear and (after := float(found.x.min())) > end:
            ends = [float(view.moments({place.column: np.array([end])})[0][0]), values["mean"][0]]
            top.plot(place.shown([end, after]), ends, color=colours.model, lw=1.4, zorder=3)
        top.set_ylabel(view.target_label(y))
        for number, (panel, (name, evaluate)) in enumerate(zip(axes[1:], terms, strict=True)):
            colour = colours.terms[1 + number % (len(colours.terms) - 1)]
            if isinstance(evaluate, int):
                _covariate(panel, view, evaluate, [rows and rows[0], ahead], colour, factor)
                place.dress(panel.xaxis)
            else:
                follow(panel, place, start, stop, [Curve(panel, place, evaluate, factor, colour)])
            titled(panel, name)
        if terms and not view.transform.identity:
            axes[1].set_ylabel(f"of {view.scale}")
        if terms:
            axes[1].set_title(intercept_text(view), loc="right", fontsize="small")
        for panel in axes:
            panel.axvline(place.shown(end), color=colours.ink, lw=0.8, ls=":", zorder=2)
            if ax is None:
                panel.label_outer()
        legend_above(top)
    return axes if components else top


class Past(Curve):
    """A curve that ends with the data."""

    def __init__(self, *arguments, end: float):
        super().__init__(*arguments)
        self.end = end

    def draw(self, start: float, stop: float) -> None:
        """Draw, or redraw, what of an interval lies before the end."""
        if start < self.end:
            super().draw(start, min(stop, self.end))


def _mean(view: View, x: Array):
    """Return mean and standard deviation of f."""
    return view.predict({view.line.column: x})


def _terms(view: View) -> list[tuple]:
    """Return names of components and slopes, and their functions; of other columns, the number."""
    kernel, named, out = view.layout.kernel, view.gp.kernel_, []
    held = view.typical((view.line.column,))
    for group in summands(view.gp):
        name = group.name or term_name(named.components[group.shown[0]])
        out.append((name, partial(_component, view, held, group.shown)))
    for number, (own, effect) in enumerate(zip(kernel.effects, named.effects, strict=True)):
        if isinstance(own, Linear):
            along = own.dim in (None, view.line.column)
            out.append((term_name(effect), partial(view.effect, number) if along else number))
    return out


def _component(view: View, held: Mapping[int, float], components: tuple[int, ...], x: Array):
    """Return mean and standard deviation of components as pictures show them."""
    return together(view, components, {**held, view.line.column: x})


def _fan(
    ax,
    place: Input,
    x: Array,
    values: Mapping[str, Array],
    factors: Mapping[str, float],
    include_noise: bool,
) -> None:
    """Draw the mean of a forecast and its bands, the widest behind."""
    order = np.argsort(x, kind="stable")
    at, colour = place.shown(x[order]), palette(ax).model
    what = "" if include_noise else " of f"
    marker = {"marker": "o", "ms": 2.5} if len(x) <= _SINGLE else {}
    ax.plot(at, values["mean"][order], color=colour, lw=1.4, label="forecast", zorder=3, **marker)
    by_width = sorted(factors, key=lambda name: factors[name])
    for number, name in enumerate(by_width):
        low, high = values[f"lower_{name}"][order], values[f"upper_{name}"][order]
        shade = tint(ax, colour, 0.2 + 0.3 * (1.0 - number / max(1, len(by_width) - 1)))
        style = {"color": shade, "lw": 0, "zorder": 2.5 - 0.01 * number}
        ax.fill_between(at, low, high, label=f"{name} % interval{what}", **style)


def _fitted_rows(ax, view: View, columns: Mapping[int, Array], end: float) -> None:
    """Draw the mean at the rows of the data, where it depends on other columns too."""
    x = columns[view.line.column]
    order = np.argsort(x, kind="stable")
    order = order[x[order] <= end]
    mean, _ = view.moments({column: values[order] for column, values in columns.items()})
    ax.plot(view.line.shown(x[order]), mean, color=palette(ax).ink, lw=1.0, label="fitted mean")


def _covariate(ax, view: View, number: int, tables, colour, factor: float) -> None:
    """Draw the linear effect of another column at the rows of the data and of the forecast."""
    column = view.layout.kernel.effects[number].dim
    for columns in tables:
        if columns is None:
            continue
        x = columns[view.line.column]
        order = np.argsort(x, kind="stable")
        at = view.line.shown(x[order])
        mean, std = view.effect(number, np.asarray(columns[column], dtype=float)[order])
        ax.fill_between(at, mean - factor * std, mean + factor * std, color=colour, alpha=0.3, lw=0)
        ax.plot(at, mean, color=colour, lw=1.0)
