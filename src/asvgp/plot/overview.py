"""Six panels to look at first."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np

from asvgp.diagnostics.calibration import calibration as in_words
from asvgp.plot.bounds import draw_bounds, draw_levels
from asvgp.plot.classes import of_classes_too
from asvgp.plot.inputs import Input
from asvgp.plot.lines import series
from asvgp.plot.maps import draw_surface, evaluate, sides
from asvgp.plot.remainders import (
    Residuals,
    draw_bands,
    draw_correlation,
    draw_quantiles,
    draw_residuals,
    draw_transforms,
    standardised,
)
from asvgp.plot.style import colour_bar, palette, panels, titled
from asvgp.plot.traces import Cloud, follow
from asvgp.plot.view import View, drawn
from asvgp.policies import VERDICT
from asvgp.structures.observed import Beside


@of_classes_too
def check(
    gp: Any,
    X: Any,
    y: Any,
    *,
    held_out: bool = False,
    sample_weight: Any = None,
    noise_variance: Any = None,
    width: Any = None,
    output: Any = None,
    ax: Any = None,
    exposure: Any = None,
    offset: Any = None,
    event: Any = None,
    trials: Any = None,
) -> Any:
    """Draw six panels that say whether to believe a model: look at these first.

    The fit, the residuals, their quantiles, their correlation, the coverage of the bands, and
    what the resolutions reached (the bounds, where there is but one); above them, in words, what
    there is to object to. With a likelihood that is not Gaussian, residuals are normal scores, and
    the last panel has the probability integral transforms in place of bounds.

    Parameters
    ----------
    gp, X, y, held_out, sample_weight, noise_variance, width, output
        As in `asvgp.plot.residuals`, and so are exposure, offset, event and trials.
    ax : array of six Axes, optional

    Returns
    -------
    array of Axes, (2, 3)

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import GPRegressor, Matern32, plot
    >>> x = np.linspace(0.0, 10.0, 500)
    >>> y = np.sin(x) + 0.1 * np.random.default_rng(0).standard_normal(500)
    >>> plot.check(GPRegressor(Matern32(), num_basis=50).fit(x, y), x, y).shape
    (2, 3)
    """
    view = drawn(gp, output)
    beside = Beside(exposure, offset, event, trials)
    left = standardised(view, X, y, held_out, sample_weight, noise_variance, width, beside)
    inner = view.structure.facts(view.posterior, gp.objective_).verdict
    notes = list(in_words(left.z, view.order(left.columns), view.family).notes)
    if inner.penalty >= VERDICT.nearly_enough:
        notes.append(f"is the basis large enough? {inner.verdict}")
    with panels(ax, 2, 3, (14.0, 7.0)) as axes:
        _draw_fit(axes[0, 0], view, left, X, y, width, held_out, beside)
        draw_residuals(axes[0, 1], view, left)
        draw_quantiles(axes[0, 2], left.z)
        draw_correlation(axes[1, 0], view.correlations(left.z, left.columns), view.neighbour)
        draw_bands(axes[1, 1], view, left)
        if view.family is not None:
            draw_transforms(axes[1, 2], left.z)
        else:  # one resolution is no curve
            (draw_levels if len(gp.resolution_) > 1 else draw_bounds)(axes[1, 2], view)
        if ax is None:
            text = "; ".join(notes) if notes else "nothing to object to"
            axes[0, 0].figure.suptitle("\n".join(textwrap.wrap(text, 130)), fontsize="medium")
    return axes


def _draw_fit(ax, view: View, left: Residuals, X, y, width, held_out: bool, beside: Beside) -> None:
    """Draw the series, the map, or for more inputs the observations against their predictions."""
    if len(view.inputs) == 1:
        exposure, offset, _, trials = beside
        given = {"exposure": exposure, "offset": offset, "trials": trials}
        series(view.gp, X, y, width=width, output=view.output, ax=ax, **given)
        ax.get_legend().remove()  # there is no room for it
        titled(ax, "the fit")
    elif len(view.inputs) == 2:
        across, up = sides(view, None, None)
        held = view.fixed_values((across.column, up.column), None, left.columns)
        surface = evaluate(view, across, up, held, ax)
        image = draw_surface(ax, surface, False, surface.limits)
        colour_bar(ax, image)
        titled(ax, "posterior mean" if view.mean_name == "f" else view.mean_name)
    else:
        low, high = float(left.mean.min()), float(left.mean.max())
        name = "predicted" if held_out else "predicted without itself"
        place = Input(-1, name, None, low, high, 0.0)
        follow(ax, place, low, high, [Cloud(ax, place, left.mean, left.observed)])
        ends = np.array([low, high])
        ax.plot(ends, ends, color=palette(ax).expected, lw=1.0, zorder=3)
        ax.set_ylabel(view.target_label(y))
        titled(ax, "the fit")
