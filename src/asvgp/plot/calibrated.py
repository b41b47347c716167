"""Are the bands as wide as they say? Coverage, and probability integral transforms."""

from __future__ import annotations

import numpy as np
from scipy.special import erf, ndtr
from scipy.stats import binom

from asvgp.basis import Array
from asvgp.plot.remainders import standardised
from asvgp.plot.style import legend, palette, panels, titled, written
from asvgp.plot.view import drawn

_BINS = 20


def calibration(
    gp,
    X,
    y,
    *,
    held_out=False,
    sample_weight=None,
    noise_variance=None,
    width=None,
    output=None,
    ax=None,
):
    """Draw the share of observations inside central bands, and where in their bands they lie.

    Left: the share inside against the probability of the band. Right: the histogram of
    probability integral transforms, flat if the model is right; a hump in the middle means
    bands too wide, horns at the ends bands too narrow. Shaded is what chance allows so many
    independent observations. `asvgp.diagnostics.calibration.calibration` says the same in numbers
    and words.

    Parameters
    ----------
    gp, X, y, held_out, sample_weight, noise_variance, width, output
        As in `asvgp.plot.residuals`.
    ax : array of two Axes, optional

    Returns
    -------
    array of two Axes

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import GPRegressor, Matern32, plot
    >>> x = np.linspace(0.0, 10.0, 500)
    >>> y = np.sin(x) + 0.1 * np.random.default_rng(0).standard_normal(500)
    >>> axes = plot.calibration(GPRegressor(Matern32(), num_basis=50).fit(x, y), x, y)
    >>> axes[0].get_xlabel()
    'probability of the band'
    """
    view = drawn(gp, output)
    z = standardised(view, X, y, held_out, sample_weight, noise_variance, width).z
    with panels(ax, 1, 2, (9.0, 3.8)) as axes:
        draw_coverage(axes[0, 0], z)
        draw_transforms(axes[0, 1], z)
    return axes[0]


def draw_coverage(ax, z: Array) -> None:
    """Draw the observed against the nominal share of observations in central bands."""
    colours, n = palette(ax), len(z)
    level = np.linspace(0.0, 1.0, 201)
    touched = np.sort(erf(np.abs(z) / 2.0**0.5))  # level of the band that each just touches
    inside = np.searchsorted(touched, level, side="right") / n
    low, high = (binom.ppf(p, n, level) / n for p in (0.025, 0.975))
    ax.fill_between(
        level, low, high, color=colours.expected, alpha=0.25, lw=0, label="95 % of right models"
    )
    ax.plot([0.0, 1.0], [0.0, 1.0], color=colours.expected, lw=0.8)
    ax.plot(level, inside, color=colours.model, lw=1.6, zorder=3, label=f"{n:,} observations")
    rows = [f"{p:.0%}: {np.mean(touched <= p):.1%}" for p in (0.5, 0.8, 0.95, 0.99)]
    written(ax, 0.97, 0.04, "\n".join(["band: covers", *rows]), ha="right")
    ax.set(xlabel="probability of the band", ylabel="share inside", xlim=(0, 1), ylim=(0, 1))
    titled(ax, "coverage")
    legend(ax, loc="upper left")


def draw_transforms(ax, z: Array) -> None:
    """Draw the histogram of the predictive distribution's probabilities of the observations."""
    colours, n = palette(ax), len(z)
    edges = np.linspace(0.0, 1.0, _BINS + 1)
    counts, _ = np.histogram(ndtr(z), edges)
    low, high = (binom.ppf(p, n, 1.0 / _BINS) * _BINS / n for p in (0.025, 0.975))
    ax.stairs(counts * (_BINS / n), edges, fill=True, color=colours.middle)
    label = "95 % of right models"
    ax.axhspan(low, high, color=colours.expected, alpha=0.25, lw=0, zorder=3, label=label)
    ax.axhline(1.0, color=colours.expected, lw=0.8, zorder=3)
    ax.set(xlim=(0, 1), ylim=(0, 1.3 * max(1.0, high, counts.max() * _BINS / n)))
    ax.set(xlabel="probability integral transform", ylabel="density")
    titled(ax, "transforms")
    legend(ax, loc="upper right")
