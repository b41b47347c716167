"""Maps: mean and standard deviation of a model over two of its inputs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from asvgp.basis import Array
from asvgp.data.columns import Gridded
from asvgp.plot.classes import of_classes_too
from asvgp.plot.inputs import Input
from asvgp.plot.style import colour_bar, palette, panels, pixels, titled
from asvgp.plot.view import View, drawn
from asvgp.structures.observed import Beside

_MOST = 400  # points of a map along either side
_CROWD = 20_000  # observations beyond which their averages are drawn
_UPWARD = ("lat", "latitude", "northing", "y", "depth", "height", "altitude")
_AROUND = {"lon": "lat", "longitude": "latitude"}


@of_classes_too
def map(
    gp: Any,
    X: Any = None,
    y: Any = None,
    *,
    what: Any = "both",
    over: Any = None,
    at: Any = None,
    aspect: Any = None,
    output: Any = None,
    ax: Any = None,
    exposure: Any = None,
    offset: Any = None,
    trials: Any = None,
) -> Any:
    """Draw maps of the posterior mean and standard deviation over two inputs.

    Parameters
    ----------
    gp : GPRegressor, GPClassifier or CoxProcess
        Fitted, of two inputs or more.
    X, y : array-like, optional
        Observations, for a panel in front: dots where they are few, averages where many, in the
        colours of the mean. Of models of more than two inputs, those within a knot spacing of
        the slice.
    what : {"both", "mean", "std"}
        Panels of the model.
    over : pair of str or int, optional
        Columns along the horizontal and the vertical; by default the two inputs that ``at``
        leaves, time or longitude along the horizontal.
    at : dict, optional
        Values of all other columns, by name or number: a slice. Those left out are at their
        medians in X.
    aspect : "auto", "equal" or float, optional
        By default as on the ground for longitude and latitude, equal for inputs of like
        extents, and else "auto".
    output : int, optional
        Which of several outputs.
    ax : Axes or array of them, optional
        As many as there are panels.
    exposure, offset, trials : optional
        As they were given to `GPRegressor.fit`: counts are drawn as rates, successes as shares.

    Returns
    -------
    Axes, or array of them where there are several panels

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import GPRegressor, Matern32, plot
    >>> X = np.random.default_rng(0).uniform(0.0, 1.0, (500, 2))
    >>> gp = GPRegressor(Matern32(), num_basis=8).fit(X, np.sin(9 * X[:, 0]) * np.cos(9 * X[:, 1]))
    >>> [ax.get_title(loc="left") for ax in plot.map(gp)]
    ['posterior mean', 'standard deviation']
    """
    view = drawn(gp, output)
    if what not in ("both", "mean", "std"):
        raise ValueError(f"what must be 'both', 'mean' or 'std', got {what!r}.")
    if len(view.inputs) < 2:
        raise ValueError("plot.map is for models of two or more inputs: use plot.series.")
    across, up = sides(view, over, at)
    columns = values = None
    if X is not None or y is not None:
        columns, values = view.data(X, y)
        values = view.rates(values, Beside(exposure, offset, None, trials))
    held = view.fixed_values((across.column, up.column), at, columns)
    wanted = ["mean", "std"] if what == "both" else [what]
    names = [*(["data"] if columns is not None else []), *wanted]
    ratio = _aspect(across, up) if aspect is None else aspect
    width, height = panel_size(across, up, ratio)
    size = (0.4 + width * len(names), height)
    with panels(ax, 1, len(names), size) as axes:
        surface = evaluate(view, across, up, held, axes[0, -1])
        scale = surface.limits
        for panel, name in zip(axes[0], names, strict=True):
            if name == "data" and columns is not None and values is not None:
                grid = None if held else Gridded.of(X)
                shown = _near(view, columns, values, held)
                scale = _joined(surface.limits, shown[1])
                image = _observations(panel, across, up, *shown, scale, grid)
                title = "observations"
            else:
                title = {"mean": "posterior mean", "std": "standard deviation"}[name]
                title = view.mean_name if name == "mean" and view.mean_name != "f" else title
                image = draw_surface(panel, surface, name == "std", scale)
            panel.set_aspect(ratio)
            panel.set(
                xlim=across.shown([across.lower, across.upper]),
                ylim=up.shown([up.lower, up.upper]),
            )
            label = view.target_label(y)
            colour_bar(panel, image, f"std of {label}" if name == "std" else label)
            where = f"{' near' if name == 'data' else ','} {view.in_words(held)}"
            titled(panel, title + (where if held else ""))
    return axes[0] if len(names) > 1 else axes[0, 0]


def _dress(ax, across: Input, up: Input) -> None:
    """Label both axes of a panel; panels are narrow, and places have many digits."""
    from matplotlib.ticker import MaxNLocator, ScalarFormatter

    for side, place in ((ax.xaxis, across), (ax.yaxis, up)):
        place.dress(side)
        formatter = side.get_major_formatter()
        if isinstance(formatter, ScalarFormatter):
            formatter.set_useOffset(False)
    if isinstance(locator := ax.xaxis.get_major_locator(), MaxNLocator):
        locator.set_params(nbins=4)


class Surface(NamedTuple):
    """Mean and standard deviation on a grid of places, (vertical, horizontal)."""

    across: Input
    up: Input
    mean: Array
    std: Array
    shares: bool = False  # True for probabilities: their colours are the same on all maps

    @property
    def limits(self) -> tuple[float, float]:
        """Limits of the colours of the mean."""
        if self.shares:
            return 0.0, 1.0
        return float(self.mean.min()), float(self.mean.max())


def evaluate(view: View, across: Input, up: Input, held, ax, component=None) -> Surface:
    """Evaluate the model, or one of its components, about once per pixel of some axes."""
    counts = [min(n, _MOST) for n in pixels(ax)]
    places = [
        side.lower + (np.arange(n) + 0.5) * ((side.upper - side.lower) / n)
        for side, n in zip((across, up), counts, strict=True)
    ]
    a, b = np.meshgrid(*places)
    columns = {**held, across.column: a.ravel(), up.column: b.ravel()}
    moments = view.moments(columns) if component is None else view.predict(columns, component)
    mean, std = moments
    shares = component is None and view.family is not None and view.family.inverse_link == "share"
    return Surface(across, up, mean.reshape(a.shape), std.reshape(a.shape), shares)


def draw_surface(ax, surface: Surface, of_std: bool, limits) -> Any:
    """Draw an image of the mean or the standard deviation."""
    if of_std:  # from zero, so that differences look as large as they are
        limits = 0.0, float(surface.std.max())
        return _image(ax, surface.across, surface.up, surface.std, limits, cmap="magma")
    return _image(ax, surface.across, surface.up, surface.mean, limits, cmap="viridis")


def _image(ax, across: Input, up: Input, values: Array, limits, **options) -> Any:
    """Draw values over the domain of two inputs, and label both axes."""
    _dress(ax, across, up)
    extent = [end for side in (across, up) for end in side.shown([side.lower, side.upper])]
    options |= {"vmin": limits[0], "vmax": limits[1], "interpolation": "nearest"}
    return ax.imshow(values, origin="lower", extent=extent, aspect="auto", **options)


def sides(view: View, over, at) -> tuple[Input, Input]:
    """Return the inputs along the horizontal and the vertical."""
    known = {view.naming(c): c for c in view.inputs} | {c: c for c in view.inputs}
    listed = ", ".join(repr(view.naming(c)) for c in view.inputs)
    if over is not None:
        if isinstance(over, str) or len(over) != 2 or any(c not in known for c in over):
            raise ValueError(f"over must be two of the inputs {listed}, got {over!r:.80}.")
        first, second = (view.inputs[known[c]] for c in over)
        if first is second:
            raise ValueError(f"over must be two different inputs, got {over!r}.")
        return first, second
    fixed = {known[c] for c in (at or {}) if c in known}
    left = [place for c, place in view.inputs.items() if c not in fixed]
    if len(left) != 2:
        raise ValueError(
            f"A map is over two inputs, and at leaves {len(left)} of {len(view.inputs)} "
            f"({listed}): fix all but two with at={{...}}, or name two with over=(..., ...)."
        )
    first, second = left
    names = [(place.name or "").lower() for place in left]
    upright = names[0] in _UPWARD and names[1] not in _UPWARD
    if upright or (second.axis is not None and first.axis is None):
        first, second = second, first
    return first, second


def panel_size(across: Input, up: Input, aspect=None) -> tuple[float, float]:
    """Return width and height of a panel in inches."""
    ratio = _aspect(across, up) if aspect is None else aspect
    shape = (up.upper - up.lower) / (across.upper - across.lower)
    if ratio == "auto":
        shape = 0.9
    elif ratio != "equal":
        shape *= ratio
    return 4.4, 0.9 + float(np.clip(3.2 * shape, 1.5, 6.0))


def _aspect(across: Input, up: Input) -> Any:
    """Return the units of the vertical per unit of the horizontal, if that means something."""
    if across.axis is not None or up.axis is not None:
        return "auto"
    names = [(place.name or "").lower() for place in (across, up)]
    if _AROUND.get(names[0]) == names[1]:
        middle = np.deg2rad(0.5 * (up.lower + up.upper))
        return 1.0 / max(float(np.cos(middle)), 0.1)
    ratio = (up.upper - up.lower) / (across.upper - across.lower)
    return "equal" if 1 / 3 <= ratio <= 3.0 else "auto"


def _near(view: View, columns, values: Array, held):
    """Return observations within a knot spacing of the slice, with linear effects moved to it."""
    keep = ~np.isnan(values)
    for column, value in held.items():
        if column in view.inputs:
            keep &= np.abs(columns[column] - value) <= view.inputs[column].spacing
    moved = view.moved(columns, values, held)
    return {c: np.asarray(x)[keep] for c, x in columns.items()}, moved[keep]


def _joined(limits: tuple[float, float], values: Array) -> tuple[float, float]:
    """Return colour limits for mean and observations together; a few outliers may saturate."""
    if len(values) == 0:
        return limits
    low, high = np.quantile(values, [0.01, 0.99])
    return min(limits[0], float(low)), max(limits[1], float(high))


def _observations(ax, across: Input, up: Input, columns, values, limits, grid) -> Any:
    """Draw observations as dots, or as averages of small rectangles; empty ones stay empty."""
    a, b = columns[across.column], columns[up.column]
    colours = palette(ax)
    ax.set_facecolor(colours.pale)
    if grid is None and len(values) <= _CROWD:
        size = float(np.clip(20_000.0 / max(len(values), 1), 2.0, 20.0))
        style = {"lw": 0, "vmin": limits[0], "vmax": limits[1], "rasterized": len(values) > 1000}
        _dress(ax, across, up)
        return ax.scatter(across.shown(a), up.shown(b), size, values, **style)
    counts = [min(n, _MOST) for n in pixels(ax)]
    if grid is not None:  # no finer than the data, or there would be stripes
        lengths = dict(zip(sorted((across.column, up.column)), grid.shape, strict=True))
        counts = [min(n, lengths[s.column]) for n, s in zip(counts, (across, up), strict=True)]
    else:
        thin = min(1.0, (len(values) / (2.0 * counts[0] * counts[1])) ** 0.5)
        counts = [max(1, int(n * thin)) for n in counts]
    edges = [
        np.linspace(s.lower, s.upper, n + 1) for s, n in zip((across, up), counts, strict=True)
    ]
    total, *_ = np.histogram2d(b, a, (edges[1], edges[0]), weights=values)
    number, *_ = np.histogram2d(b, a, (edges[1], edges[0]))
    with np.errstate(invalid="ignore"):
        average = total / number
    return _image(ax, across, up, average, limits)
