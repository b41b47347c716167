"""The terms of a model, each in a panel of its own."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from asvgp.basis import Array
from asvgp.estimators.summands import summands
from asvgp.kernels import Linear
from asvgp.likelihoods.gaussian import band_factor
from asvgp.plot.classes import of_classes_too
from asvgp.plot.inputs import Input
from asvgp.plot.maps import draw_surface, evaluate
from asvgp.plot.style import colour_bar, palette, panels, pixels, titled, written
from asvgp.plot.traces import Curve, follow
from asvgp.plot.view import View, drawn, term_name


@of_classes_too
def components(
    gp: Any,
    X: Any = None,
    *,
    interval: Any = None,
    level: Any = 0.95,
    forecast: Any = 0.0,
    at: Any = None,
    output: Any = None,
    ax: Any = None,
) -> Any:
    """Draw every term of a model with its band: what each process and effect contributes.

    Terms over one input are curves, of which those of a model of one input share their x axis;
    products over two inputs are maps of their mean. An intercept is written into the first
    panel. In a model of one input, parts of one period are one panel, without a band, and
    components with practically no variance are left out.

    In a model of several inputs a constant can be moved from one term to another, or to the
    intercept, without a change of their sum. A smooth over one input is therefore shown less its
    mean over the data, and the band is that of this difference: it says how well the shape is
    known. So is every process of a model of one input with an intercept; without an intercept
    they are shown as they are, as ``predict`` has them.

    Parameters
    ----------
    gp : GPRegressor
        Fitted.
    X : array-like, optional
        Inputs of the data. A bar at the foot of the panels shows where they are; the effects of
        further columns are drawn over their range in X, and left out without it.
    interval, level, forecast, output
        As in `asvgp.plot.series`; an interval and a forecast are of models of one input.
    at : dict, optional
        Values of the other inputs for products of three or more; by default the middle of their
        domains.
    ax : array of Axes, optional
        One for each term.

    Returns
    -------
    array of Axes, (terms,)

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import GPRegressor, Matern32, SHO, plot
    >>> x = np.linspace(0.0, 50.0, 500)
    >>> kernel = Matern32(20.0) + SHO(period=2 * np.pi, quality=50.0)
    >>> gp = GPRegressor(kernel, num_basis=100, optimizer=None, noise_variance=0.01)
    >>> axes = plot.components(gp.fit(x, np.sin(x) + x / 50))
    >>> [ax.get_title(loc="left") for ax in axes]
    ['Matern32, lengthscale 20', 'SHO, period 6.28']
    """
    view, factor = drawn(gp, output), band_factor(level)
    columns = None if X is None else view.read(X)
    span = view.span(interval, forecast)
    parts = terms(view, columns)
    count = len(parts)
    down, across, size, shared = view.panel_grid(count)
    shared = shared and all(isinstance(over, Input) for _, _, over in parts)
    if ax is not None:
        across, down = count, 1
    with panels(ax, down, across, size, sharex=shared and ax is None) as axes:
        axes = axes.reshape(-1)
        for spare in axes[count:]:
            spare.remove()
        axes = axes[:count]
        for panel, (number, name, over) in zip(axes, parts, strict=True):
            where = ""
            label = "contribution" if view.transform.identity else f"part of {view.scale}"
            if isinstance(over, Input):
                held = view.typical((over.column,))
                evaluated = partial(_of_term, view, number, over, held)
                curve = Curve(panel, over, evaluated, factor, palette(panel).model)
                follow(panel, over, *(span or (over.lower, over.upper)), [curve])
                _rug(panel, over, columns)
                if isinstance(number, tuple) or (number >= 0 and view.is_centred(number)):
                    label = f"{label}, centred"
            elif isinstance(over, tuple):
                right, up = over
                shown = right.column, up.column
                held = view.fixed_values(shown, at, view.typical(shown))
                first, second = over
                surface = evaluate(view, first, second, held, panel, number)
                most = float(np.abs(surface.mean).max()) or 1.0
                image = draw_surface(panel, surface, False, (-most, most))
                colour_bar(panel, image, label)
                if others := [f.dim for f in view.layout.kernel.components[number].along[2:]]:
                    where = f" at {view.in_words({dim: held[dim] for dim in others})}"
            else:
                _effect(panel, view, over, columns, factor)
            if isinstance(over, Input | int):
                panel.set_ylabel(label)
            titled(panel, name + where)
            if shared:
                panel.label_outer()
        if intercept_text(view):
            _write_intercept(axes[0], view)
    return axes


def terms(view: View, columns) -> list[tuple]:
    """Return number, name, and inputs of terms: one input, a pair, or the number of a column.

    The numbers of components that are shown as one are a tuple.
    """
    kernel, named, out = view.layout.kernel, view.gp.kernel_, []
    if view.is_line:
        for name, shown, _ in summands(view.gp):
            name = name or term_name(named.components[shown[0]])
            out.append((shown[0] if len(shown) == 1 else shown, name, view.line))
    parts = zip(kernel.components, named.components, strict=True)
    for number, (own, part) in enumerate(parts):
        if view.is_line:
            continue
        name = term_name(part)
        dims = list(dict.fromkeys(process.dim for process in own.along))
        if len(dims) == 1:
            dim = view.layout.input if dims[0] is None else dims[0]
            out.append((number, name, view.inputs[dim]))
        else:
            out.append((number, name, (view.inputs[dims[0]], view.inputs[dims[1]])))
    for number, (own, part) in enumerate(zip(kernel.effects, named.effects, strict=True)):
        if not isinstance(own, Linear):
            continue
        column = view.layout.input if own.dim is None else own.dim
        if column in view.inputs:
            out.append((-1 - number, term_name(part), view.inputs[column]))
        elif columns is not None:
            out.append((number, term_name(part), column))
    return out


def together(view: View, components: tuple[int, ...], columns) -> tuple[Array, Array]:
    """Return mean and standard deviation of a component; of several together, no deviation.

    That of a sum is not that of any of its parts: the data know the sum better.
    """
    found = [view.part(columns, component) for component in components]
    mean = np.sum([mean for mean, _ in found], axis=0)
    return mean, found[0][1] if len(found) == 1 else np.zeros_like(mean)


def _of_term(view: View, number: int | tuple[int, ...], over: Input, held, x):
    """Return mean and standard deviation of components, or (counted from -1 down) of an effect."""
    if isinstance(number, tuple):
        return together(view, number, {**held, over.column: x})
    if number < 0:
        return view.effect(-1 - number, x)
    return view.part({**held, over.column: x}, number)


def _effect(ax, view: View, column: int, columns, factor: float) -> None:
    """Draw a linear effect over the range of its column in the data."""
    values = columns[column]
    x = np.linspace(float(np.min(values)), float(np.max(values)), 101)
    number = [getattr(e, "dim", None) for e in view.layout.kernel.effects].index(column)
    mean, std = view.effect(number, x)
    colour = palette(ax).model
    ax.fill_between(x, mean - factor * std, mean + factor * std, color=colour, alpha=0.3, lw=0)
    ax.plot(x, mean, color=colour, lw=1.2)
    ax.set(xlabel=view.naming(column), xlim=(x[0], x[-1]))
    _rug(ax, Input(column, view.naming(column), None, x[0], x[-1], 0.0), columns)


def _rug(ax, over: Input, columns) -> None:
    """Draw a bar at the foot where there are data."""
    if columns is None:
        return
    counts, edges = np.histogram(columns[over.column], pixels(ax)[0], (over.lower, over.upper))
    heights, at_foot = np.where(counts > 0, 0.03, np.nan), ax.get_xaxis_transform()
    style = {"fill": True, "color": palette(ax).strong, "zorder": 2}
    bar = ax.stairs(heights, over.shown(edges), transform=at_foot, **style)
    bar.sticky_edges.y.clear()


def intercept_text(view: View) -> str:
    """Return the intercept with its error, or no text where there is none."""
    for effect in view.gp.effects_:
        if effect.name == "intercept":
            value = float(np.atleast_1d(effect.estimate)[view.output])
            return f"intercept {value:.4g} ± {effect.std:.2g}"
    return ""


def _write_intercept(ax, view: View) -> None:
    box = {"facecolor": ax.get_facecolor(), "alpha": 0.7, "lw": 0, "pad": 2}
    style = {"ha": "right", "va": "top", "bbox": box, "zorder": 5}
    written(ax, 0.99, 0.96, intercept_text(view), **style)
