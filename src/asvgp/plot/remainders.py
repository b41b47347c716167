"""Standardised residuals, drawn in four ways, and the calibration of bands by them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import erf, ndtr, ndtri
from scipy.stats import beta, binom, norm

from asvgp.basis import Array
from asvgp.data.inputs import as_rows
from asvgp.estimators.scores import normal_scores
from asvgp.likelihoods import Bernoulli
from asvgp.plot.classes import of_classes_too
from asvgp.plot.neighbours import Correlations
from asvgp.plot.style import legend, palette, panels, titled, written
from asvgp.plot.traces import Cloud, follow
from asvgp.plot.view import View, drawn
from asvgp.structures.observed import NOTHING, Beside

_BINS = 20  # of the histogram of probability integral transforms
_GROUPS = 15  # of rows of like probability


class Residuals(NamedTuple):
    """Standardised residuals of observations, missing ones left out."""

    z: Array  # observed minus predicted, in standard deviations
    mean: Array  # the prediction
    observed: Array
    columns: dict[int, Array]  # of X, as numbers


@of_classes_too
def residuals(
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
    """Draw standardised residuals: over x, their histogram, quantiles, and correlation.

    A right model's are independent and standard normal. Every observation is predicted without
    itself (`GPRegressor.leave_one_out`), so that none can have drawn the fit towards it. With a
    likelihood that is not Gaussian they are normal scores: of counts and classes, randomised
    quantile residuals.

    Parameters
    ----------
    gp : GPRegressor
        Fitted.
    X, y : array-like
        The data it was fitted to, or some of them; other data with ``held_out``.
    held_out : bool
        The data are new to the model: predict them as they are.
    sample_weight, noise_variance, width, exposure, offset, event, trials : optional
        As they were given to `GPRegressor.fit`.
    output : int, optional
        Which of several outputs.
    ax : array of four Axes, optional

    Returns
    -------
    array of four Axes

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import GPRegressor, Matern32, plot
    >>> x = np.linspace(0.0, 10.0, 500)
    >>> y = np.sin(x) + 0.1 * np.random.default_rng(0).standard_normal(500)
    >>> axes = plot.residuals(GPRegressor(Matern32(), num_basis=50).fit(x, y), x, y)
    >>> len(axes)
    4
    """
    view = drawn(gp, output)
    beside = Beside(exposure, offset, event, trials)
    left = standardised(view, X, y, held_out, sample_weight, noise_variance, width, beside)
    with panels(ax, *((1, 4) if ax is not None else (2, 2)), (9.0, 6.0)) as axes:
        axes = axes.reshape(-1)
        draw_residuals(axes[0], view, left)
        draw_histogram(axes[1], left.z)
        draw_quantiles(axes[2], left.z)
        draw_correlation(axes[3], view.correlations(left.z, left.columns), view.neighbour)
    return axes


@of_classes_too
def calibration(
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
    """Draw the share of observations inside central bands, and where in their bands they lie.

    Left: the share inside against the probability of the band. Right: the histogram of
    probability integral transforms, flat if the model is right; a hump in the middle means
    bands too wide, horns at the ends bands too narrow. Shaded is what chance allows so many
    independent observations. `asvgp.diagnostics.calibration.calibration` says the same in numbers
    and words. Of classes, yes or no, the left panel is the share of yes against its probability.

    Parameters
    ----------
    gp, X, y, held_out, sample_weight, noise_variance, width, output
        As in `asvgp.plot.residuals`, and so are exposure, offset, event and trials.
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
    beside = Beside(exposure, offset, event, trials)
    left = standardised(view, X, y, held_out, sample_weight, noise_variance, width, beside)
    with panels(ax, 1, 2, (9.0, 3.8)) as axes:
        draw_bands(axes[0, 0], view, left)
        draw_transforms(axes[0, 1], left.z)
    return axes[0]


def standardised(
    view: View,
    X,
    y,
    held_out=False,
    sample_weight=None,
    noise_variance=None,
    width=None,
    beside: Beside = NOTHING,
) -> Residuals:
    """Return residuals of the data of the fit, each predicted without itself, or of new data."""
    columns, observed = view.data(X, y)
    if view.family is not None:
        if noise_variance is not None or width is not None:
            raise ValueError(
                f"noise_variance and width belong to Gaussian noise, not to {view.family!r}."
            )
        z, mean = normal_scores(view.gp, X, y, sample_weight, beside, held_out)
    elif held_out:
        if width is not None:
            raise ValueError("Averages over intervals (width) cannot be predicted as held out.")
        mean, std = view.predict(columns)
        noise, transform = noise_variance, view.transform
        if noise is None:
            noise = view.noise
        elif view.known_noise:
            noise = view.gp.noise_variance_ * np.asarray(noise, dtype=float)
        spread = std**2 + np.ravel(noise)
        with np.errstate(invalid="ignore", divide="ignore"):  # what is no y has no residual
            z = (transform.forward(observed) - mean) / np.sqrt(spread)
        mean, _ = transform.moments(mean, spread)
    else:
        beside.refuse()
        X, y, sample_weight, noise_variance = as_rows(X, y, sample_weight, noise_variance)
        found = view.gp.leave_one_out(X, y, sample_weight, noise_variance, width)
        z, mean = (np.atleast_2d(part)[view.output] for part in (found.z, found.mean))
    keep = np.isfinite(z)
    if np.count_nonzero(keep) < 2:
        raise ValueError(f"There are {np.count_nonzero(keep)} residuals to draw of {len(z)} rows.")
    return Residuals(
        z[keep], mean[keep], observed[keep], {c: np.asarray(x)[keep] for c, x in columns.items()}
    )


def draw_residuals(ax, view: View, left: Residuals) -> None:
    """Draw residuals over x, or over the prediction for models of several inputs."""
    place, x = view.abscissa(left.columns, left.mean)
    cloud = Cloud(ax, place, x, left.z, "residuals")
    start, stop = float(np.min(x)), float(np.max(x))
    follow(ax, place, start, stop if start < stop else start + 1.0, [cloud])
    colour = palette(ax).expected
    for height, style in ((0.0, "-"), (-1.96, "--"), (1.96, "--")):
        ax.axhline(height, color=colour, lw=0.8, ls=style, zorder=3)
    most = 1.08 * max(4.0, float(np.abs(left.z).max()))
    name = "standardised residual" if view.family is None else "normal score"
    ax.set(ylabel=name, ylim=(-most, most))
    titled(ax, "residuals, and where 95 % should be")


def draw_histogram(ax, z: Array) -> None:
    """Draw the histogram of residuals against the standard normal; the outermost bins are open."""
    colours = palette(ax)
    edges = np.linspace(-4.5, 4.5, 46)
    counts, _ = np.histogram(np.clip(z, -4.49, 4.49), edges)
    ax.stairs(counts / (len(z) * np.diff(edges)), edges, fill=True, color=colours.middle)
    x = np.linspace(-4.5, 4.5, 300)
    ax.plot(x, norm.pdf(x), color=colours.expected, lw=1.2, label="standard normal")
    beyond = int(np.count_nonzero(np.abs(z) > 4.5))
    if beyond:
        expected = 2.0 * len(z) * float(ndtr(-4.5))
        text = f"{beyond:,} beyond ±4.5\n({expected:.2g} expected)"
        written(ax, 0.02, 0.97, text, va="top")
    ax.set(xlabel="standardised residual", ylabel="density", xlim=(-4.5, 4.5), ylim=(0, None))
    titled(ax, "histogram")
    legend(ax, loc="upper right")


def draw_quantiles(ax, z: Array) -> None:
    """Draw quantiles of residuals against the normal's, with what chance allows each of them."""
    colours, n = palette(ax), len(z)
    # All of the tails, and of the middle what a line needs.
    steps = np.unique(np.concatenate([np.arange(min(n, 50)), np.geomspace(1, n, 200).astype(int)]))
    ranks = np.unique(np.clip(np.concatenate([steps, n - 1 - steps]), 0, n - 1))
    expected = ndtri((ranks + 0.5) / n)
    low, high = (ndtri(beta.ppf(p, ranks + 1, n - ranks)) for p in (0.025, 0.975))
    ax.fill_between(
        expected, low, high, color=colours.expected, alpha=0.25, lw=0, label="95 % of right models"
    )
    ax.plot(expected, expected, color=colours.expected, lw=0.8)
    ax.plot(expected, np.sort(z)[ranks], ".", ms=3, color=colours.model, zorder=3)
    ax.set(xlabel="standard normal quantile", ylabel="residual quantile")
    titled(ax, "quantiles")
    legend(ax, loc="upper left")


def draw_correlation(ax, correlations: Correlations, label: str) -> None:
    """Draw the correlations of residuals with their neighbours."""
    found, pairs = correlations
    colours, lags = palette(ax), np.arange(1, len(found) + 1)
    reach = 1.96 / np.sqrt(pairs)
    style = {"color": colours.expected, "alpha": 0.25, "lw": 0, "label": "95 % if independent"}
    ax.axhspan(-reach, reach, **style)
    ax.axhline(0.0, color=colours.expected, lw=0.8)
    ax.vlines(lags, 0.0, found, color=colours.model, lw=1.2, zorder=3)
    ax.plot(lags, found, ".", ms=5, color=colours.model, zorder=3)
    most = 1.15 * max(0.1, float(np.abs(found).max(initial=0.0)), 1.2 * reach)
    ax.set(ylim=(-most, most), ylabel="correlation", xlim=(0.0, len(found) + 1.0))
    ax.set_xlabel(label)
    titled(ax, "correlation of residuals")
    legend(ax, loc="lower right")


def draw_bands(ax, view: View, left: Residuals) -> None:
    """Draw what bands hold; of classes, which have no bands, what probabilities are worth."""
    if isinstance(view.family, Bernoulli):
        draw_reliability(ax, left.mean, left.observed)
    else:
        draw_coverage(ax, left.z)


def draw_reliability(ax, chance: Array, seen: Array) -> None:
    """Draw the share of yes among rows of like probability against that probability."""
    colours = palette(ax)
    groups = np.array_split(np.argsort(chance, kind="stable"), min(_GROUPS, len(chance)))
    middle = np.array([chance[group].mean() for group in groups])
    share = np.array([seen[group].mean() for group in groups])
    size = np.array([len(group) for group in groups])
    low, high = (binom.ppf(p, size, np.clip(middle, 0.0, 1.0)) / size for p in (0.025, 0.975))
    label = "95 % of right models"
    ax.fill_between(middle, low, high, color=colours.expected, alpha=0.25, lw=0, label=label)
    ax.plot([0.0, 1.0], [0.0, 1.0], color=colours.expected, lw=0.8)
    ax.plot(middle, share, "o", ms=4, color=colours.model, zorder=3, label=f"{len(seen):,} rows")
    ax.set(xlabel="predicted probability", ylabel="share of yes", xlim=(0, 1), ylim=(0, 1))
    titled(ax, "probabilities")
    legend(ax, loc="upper left")


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
