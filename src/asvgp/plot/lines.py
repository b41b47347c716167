"""A series: mean, band and observations of a model of one input, at any zoom."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from asvgp.data.response import NewResponse
from asvgp.likelihoods import Bernoulli
from asvgp.likelihoods.gaussian import band_factor, probability
from asvgp.plot.classes import of_classes_too
from asvgp.plot.style import legend, legend_above, palette, panels, percent, titled
from asvgp.plot.traces import Cloud, Curve, follow
from asvgp.plot.view import drawn, term_name
from asvgp.structures.observed import Beside

_CROWD = 200  # classes beyond which shares of them are drawn,
_STRETCHES = 60  # as many


@of_classes_too
def series(
    gp: Any,
    X: Any = None,
    y: Any = None,
    *,
    interval: Any = None,
    level: Any = 0.95,
    include_noise: bool = False,
    forecast: Any = 0.0,
    components: bool = False,
    width: Any = None,
    at: Any = None,
    output: Any = None,
    ax: Any = None,
    exposure: Any = None,
    offset: Any = None,
    trials: Any = None,
) -> Any:
    """Draw the posterior mean and band of a model of one input, with observations if given.

    The model is evaluated at two points per pixel; where its knots are closer than that, at all of
    them, and each column of pixels shows the range of the mean and the whole of the band, so that
    no peak is lost. Where there are more observations than pixels can show, each column of pixels
    shows their range, and the central 90 % of them darker: no outlier is lost, and none passes for
    the rule. All is done anew whenever the limits of the x axis change, by a zoom in a window or by
    ``ax.set_xlim``.

    With a likelihood that is not Gaussian, the mean is that of y and bands are quantiles in its
    units: of a rate, of a probability. Of many classes, shares of equal numbers of rows are drawn.

    Parameters
    ----------
    gp : GPRegressor, GPClassifier or CoxProcess
        Fitted.
    X, y : array-like, optional
        Observations to draw, as in `GPRegressor.fit`.
    interval : pair, optional
        What to show, in the units of X; by default the domain. A forecast is shown too.
    level : float
        Probability that the band holds at every place.
    include_noise : bool
        Band of new observations rather than of f; of counts, of exposure one.
    forecast : number or duration
        How far to go on beyond the end of the domain, also where an interval ends before; a
        duration ("7 days") where X holds times.
    components : bool
        Also the means of all components, as lines; not with a transform of y, on whose scale they
        are.
    width : number, duration or array-like, optional
        As it was given to `GPRegressor.fit`: observations are drawn at the middle of the
        intervals that they are averages over.
    at : dict, optional
        Values of columns with linear effects, by name or number; by default their medians in X.
        Observations are drawn with those effects taken to these values.
    output : int, optional
        Which of several outputs.
    ax : Axes, optional
    exposure, offset, trials : optional
        As they were given to `GPRegressor.fit`: counts are drawn as rates, per unit of exposure,
        and successes as shares of the trials.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import GPRegressor, Matern32, plot
    >>> x = np.linspace(0.0, 10.0, 500)
    >>> gp = GPRegressor(Matern32(), num_basis=50).fit(x, np.sin(x))
    >>> ax = plot.series(gp, forecast=3.0)
    >>> [float(end) for end in ax.get_xlim()]
    [0.0, 13.0]
    """
    view, factor = drawn(gp, output), band_factor(level)
    if not view.is_line:
        names = ", ".join(view.naming(column) for column in view.inputs)
        raise ValueError(
            f"plot.series is for models of one input, this one has {len(view.inputs)} ({names}): "
            "use plot.map or plot.components."
        )
    if components and not view.transform.identity:
        raise ValueError(
            f"Components are on the scale of {view.transform}, the series is of y: draw them with "
            "plot.components."
        )
    place = view.line
    start, stop = place.interval(interval, forecast)
    noise = view.noise if include_noise and view.family is None else 0.0
    transform = view.transform
    process = gp._fitted().noise_process
    if include_noise and view.family is not None and process is None:
        transform, place = NewResponse(family=view.family), place._replace(spacing=0.0)
    columns = values = None
    if X is not None or y is not None:
        columns, values = view.data(X, y, width)
        values = view.rates(values, Beside(exposure, offset, None, trials))
    held = view.fixed_values((place.column,), at, columns)

    def evaluate(x, component=None):
        here = {**held, place.column: x}
        mean, std = view.predict(here, component)
        if include_noise and process is not None and component is None:
            return mean, view.with_noise_process(process, here, std, factor)
        return mean, np.sqrt(std**2 + noise) if component is None else std

    placed = legend if ax is not None or held else legend_above  # beside titles, where it is free
    with panels(ax, 1, 1, (9.0, 3.6)) as axes:
        ax = axes[0, 0]
        colours = palette(ax)
        traces = []
        if columns is not None and values is not None:
            x, values = columns[place.column], view.moved(columns, values, held)
            known = ~(np.isnan(x) | np.isnan(values))
            if isinstance(view.family, Bernoulli) and np.count_nonzero(known) > _CROWD:
                each = np.array_split(np.argsort(x[known], kind="stable"), _STRETCHES)
                x, values = (
                    np.array([part[known][i].mean() for i in each]) for part in (x, values)
                )
                traces.append(Cloud(ax, place, x, values, f"shares of {len(each[0]):,} rows"))
            else:
                traces.append(Cloud(ax, place, x, values))
        if components:
            for number, part in enumerate(gp.kernel_.components):
                colour = colours.terms[1 + number % (len(colours.terms) - 1)]
                mean = partial(evaluate, component=number)
                traces.append(Curve(ax, place, mean, 0.0, colour, term_name(part)))
        what = "new observations" if include_noise else view.mean_name
        what = what if what in ("f", "new observations") else f"the {what}"
        band = f"{percent(probability(level))} band of {what}"
        named = colours.model, "posterior mean", band, transform
        traces.append(Curve(ax, place, evaluate, factor, *named))
        follow(ax, place, start, stop, traces)
        if stop > place.upper:
            ax.axvline(place.shown(place.upper), color=colours.ink, lw=0.8, ls=":", zorder=2)
        if held:
            titled(ax, f"at {view.in_words(held)}")
        label = view.target_label(y)
        label = f"{label} per unit of exposure" if exposure is not None else label
        ax.set_ylabel(f"share of {label}" if trials is not None else label)
        placed(ax)
    return ax
