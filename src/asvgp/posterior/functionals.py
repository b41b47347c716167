"""Linear functionals of the posterior: derivatives, integrals and averages of f.

Whatever is linear in f is Gaussian beside it, with covariance

    prior of the functionals - (their K^-1) + (their P^-1),

three terms of the same kind: a functional acts on the Taylor coefficients of a cell or a
stretch of cells (`asvgp.linalg`), and beyond the domain on the state at the nearer end,
through ``exp(A lag)`` of the kernel's process ``dF = A F dt + noise``,
``F = (f, f', ..., f^(p))``. The prior itself is such a chain as well: with the stationary
covariance C, ``cov(F(x + t), F(x)) = exp(A t) C`` for ``t >= 0``, and everything about
derivatives and integrals of the prior follows from ``exp(A t)``, exactly.
"""

from __future__ import annotations

from operator import index

import numpy as np

from asvgp.basis import Array
from asvgp.linalg.chain.covariance import add_covariance
from asvgp.posterior.averages import Chain, Pieces
from asvgp.posterior.line import Posterior
from asvgp.posterior.tails import Stretches
from asvgp.runtime.checks import finite_range, non_negative_integer

_EPS = float(np.finfo(float).eps)
_CHUNK = 1 << 13  # rows at a time where temporaries are a small matrix a row
_SMOOTHER = {1: "Matern32 or SHO", 2: "Matern52", 3: "Matern72"}


def derivative(
    posterior: Posterior, x, order: int = 1, variance: bool = True, component: int | None = None
) -> tuple[Array, Array]:
    """Mean and variance of a derivative of f, inside the domain and beyond it.

    Parameters
    ----------
    posterior : Posterior
    x : array of shape (n,)
        Inputs, in any order.
    order : int
        Which derivative; 0 is f itself. At most the order ``p`` of every kernel involved.
    variance : bool
        Without it the second array is empty.
    component : int, optional
        Of this component alone, counted from zero, instead of the sum.

    Returns
    -------
    mean : ndarray of shape (outputs, n)
    variance : ndarray of shape (n,)
        Shared by all outputs.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import Matern52
    >>> from asvgp.basis import Grid
    >>> from asvgp.statistics import Statistics
    >>> x = np.linspace(0, 1, 200)
    >>> stats = Statistics.from_data(x, np.sin(6 * x), Grid(0.0, 1.0, 50), degree=3)
    >>> posterior = Posterior(Matern52(0.5), 1e-6, stats, degree=3)
    >>> mean, variance = derivative(posterior, [0.25, 0.75])
    >>> mean.round(2)
    array([[ 0.42, -1.26]])
    >>> (6 * np.cos(6 * np.array([0.25, 0.75]))).round(2)
    array([ 0.42, -1.26])
    """
    x = np.asarray(x, dtype=float).ravel()
    finite_range(x, "x")
    order = _check_order(posterior, order, component)
    prior = float(_prior_of_derivative(posterior, np.zeros(1), order, component)[0])
    mean = np.empty((len(posterior.coefficients), len(x)))
    var = np.empty(len(x) if variance else 0)
    reduction = np.empty((0, 0, 0))
    if variance:
        before, after = posterior._cell_covariances
        reduction = before - after
    for start in range(0, len(x), _CHUNK):
        rows = slice(start, start + _CHUNK)
        cells, weights = posterior.rows(x[rows], order, component)
        mean[:, rows] = np.einsum("oti,ti->ot", posterior.coefficients[:, cells], weights)
        if variance:
            spread = np.einsum("tij,tj->ti", reduction[cells], weights)
            reduced = prior - np.einsum("ti,ti->t", spread, weights)
            var[rows] = np.maximum(reduced, _EPS * prior)
    return posterior.with_effects(
        mean, var, posterior.effect_values(x, component=component, power=order)
    )


def derivative_covariance(
    posterior: Posterior, x, order: int = 1, component: int | None = None
) -> Array:
    """Posterior covariance matrix (n, n) of a derivative of f at the given inputs.

    Parameters as in `derivative`.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import Matern32
    >>> from asvgp.basis import Grid
    >>> from asvgp.statistics import Statistics
    >>> nothing = Statistics.from_data(np.empty(0), np.empty(0), Grid(0.0, 1.0, 10), degree=2)
    >>> posterior = Posterior(Matern32(1.0), 0.1, nothing, degree=2)
    >>> derivative_covariance(posterior, [0.0, 0.5]).round(3)  # -k''
    array([[3.   , 0.169],
           [0.169, 3.   ]])
    """
    x = np.asarray(x, dtype=float).ravel()
    finite_range(x, "x")
    order = _check_order(posterior, order, component)
    rank = np.argsort(x, kind="stable")
    ranked = x[rank]
    cells, weights = posterior.rows(ranked, order, component)
    out = _prior_of_derivative(
        posterior, np.abs(ranked[:, None] - ranked[None, :]), order, component
    )
    floor = _EPS * float(out.flat[0]) if out.size else 0.0
    for sign, where, chain in _chains(posterior, component):
        add_covariance(
            chain.markers,
            chain.settled,
            chain.gain,
            chain.cov[cells],
            cells,
            np.ascontiguousarray(weights[:, where]),
            sign,
            out,
        )
    _lift_diagonal(out, floor)
    mean = np.einsum("oti,ti->ot", posterior.coefficients[:, cells], weights)
    design = posterior.effect_values(ranked, component=component, power=order)
    unsorted = np.empty_like(out)
    unsorted[np.ix_(rank, rank)] = posterior.with_effects(mean, out, design)[1]
    return unsorted


def integrate(
    posterior: Posterior,
    lower,
    upper,
    average: bool = False,
    covariance: bool = False,
    component: int | None = None,
) -> tuple[Array, Array]:
    """Definite integrals of f, or its averages, over intervals.

    Intervals may overlap, come in any order and reach beyond the domain. As with
    `scipy.integrate.quad`, an integral from right to left is negative.

    Parameters
    ----------
    posterior : Posterior
    lower, upper : float or array of shape (m,)
        Ends of the intervals.
    average : bool
        Divide by the length; the average over an interval of length zero is f there.
    covariance : bool
        Return the covariance matrix instead of the variances, at a cost of O(m**3).
    component : int, optional
        Of this component alone, counted from zero, instead of the sum.

    Returns
    -------
    mean : ndarray of shape (outputs, m)
    variance : ndarray of shape (m,) or (m, m)
        Shared by all outputs.

    Notes
    -----
    Means cost O(1) an interval, variances O(cells in it), for the covariance of a stretch
    is a walk along the chain. Nothing is a difference of integrals from a common origin:
    short intervals are as accurate as long ones.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import Matern52
    >>> from asvgp.basis import Grid
    >>> from asvgp.statistics import Statistics
    >>> x = np.linspace(0, 3, 200)
    >>> stats = Statistics.from_data(x, np.cos(x), Grid(0.0, 3.0, 50), degree=3)
    >>> posterior = Posterior(Matern52(1.0), 1e-6, stats, degree=3)
    >>> mean, variance = integrate(posterior, [0.0, 1.0], [np.pi / 2, 0.0])
    >>> mean.round(4)
    array([[ 1.    , -0.8415]])
    >>> bool(np.all(variance < 1e-4))
    True
    """
    lower, upper = np.broadcast_arrays(
        np.asarray(lower, dtype=float).ravel(), np.asarray(upper, dtype=float).ravel()
    )
    finite_range(lower, "lower")
    finite_range(upper, "upper")
    _check_component(posterior, component)
    low, high = np.minimum(lower, upper), np.maximum(lower, upper)
    factor = np.ones(len(lower)) if average else upper - lower
    functionals = _averages(posterior, low, high, component)
    mean = _mean_averages(posterior, functionals)
    if covariance:
        spread = _covariance_of_averages(posterior, low, high, component)
    else:
        spread = _variance_of_averages(posterior, functionals, high - low, component)
    # The effects are linear in x: their average is their value in the middle.
    design = posterior.effect_values(low + 0.5 * (high - low), component=component)
    mean, spread = posterior.with_effects(mean, spread, design)
    return mean * factor, spread * (np.outer(factor, factor) if covariance else factor**2)


def _chains(posterior: Posterior, component: int | None) -> list[tuple[float, Array, Chain]]:
    """Return the prior's chains, with minus, and the posterior's, with the places of each.

    The places are those of their coefficients among the posterior's.
    """
    model = posterior.model
    before, after = posterior._cell_covariances
    cells, every = np.arange(len(after)), np.arange(len(model.power))
    chains = []
    for number in posterior.involved(component):
        where = model.where[number]
        covariances = before[np.ix_(cells, where, where)]
        chains.append((-1.0, where, Chain.of_prior(model.priors[number], covariances)))
    gain = posterior.chain.gain
    whole = Chain(model.markers, 0, gain, after)
    return [*chains, (1.0, every, whole)]


def _check_component(posterior: Posterior, component: int | None) -> None:
    count = len(posterior.model.priors)
    if component is not None and not 0 <= index(component) < count:
        raise ValueError(
            f"component must be None or from 0 to {count - 1}, got {component!r}: the kernel is "
            f"{posterior.kernel!r}."
        )


def _check_order(posterior: Posterior, order: int, component: int | None) -> int:
    """The order of a derivative that every component involved has."""
    _check_component(posterior, component)
    order = non_negative_integer(order, "order")
    components = posterior.kernel.components
    for number in posterior.involved(component):
        part = components[number]
        if order <= part.order:
            continue
        known = ("no derivative", "one derivative", "2 derivatives", "3 derivatives")[part.order]
        name = repr(part)
        if len(components) > 1:
            name = f"component {number} of the sum, {part!r},"
        advice = "Matern72, the smoothest kernel there is, has 3"
        if order in _SMOOTHER:
            advice = f"take a smoother kernel in its place, such as {_SMOOTHER[order]}"
        smooth = [i for i, other in enumerate(components) if other.order >= order]
        if component is None and smooth:
            advice += (
                f", or take asvgp.posterior.functionals.derivative of component {smooth[0]} alone"
            )
        raise ValueError(
            f"The derivative of order {order} of f does not exist: {name} has {known}, and beyond "
            f"that its variance is infinite. Remedy: {advice}."
        )
    return order


def _prior_of_derivative(
    posterior: Posterior, lag: Array, order: int, component: int | None
) -> Array:
    """Return the prior covariance of the derivative at points these distances apart."""
    total = np.zeros(lag.shape)
    for number in posterior.involved(component):
        total += posterior.splines[number].covariance(lag, order)
    return total


def _averages(posterior: Posterior, low: Array, high: Array, component: int | None) -> Stretches:
    """Return the averages over intervals as weights on the coefficients of all components."""
    model = posterior.model
    head, tail = np.zeros((2, len(low), len(model.power)))
    whole, parts = np.zeros(len(model.power)), None
    for number in posterior.involved(component):
        where = model.where[number]
        parts = posterior.splines[number].averages(low, high)
        head[:, where], tail[:, where], whole[where] = parts.head, parts.tail, parts.whole
    assert parts is not None
    return Stretches(parts.begin, parts.end, head, tail, parts.full, whole)


def _of(averages: Stretches, where: Array) -> Stretches:
    """Return the part of averages that acts on some coefficients."""
    head, tail, whole = (
        np.ascontiguousarray(part[..., where])
        for part in (averages.head, averages.tail, averages.whole)
    )
    return averages._replace(head=head, tail=tail, whole=whole)


def _mean_averages(posterior: Posterior, averages: Stretches) -> Array:
    """Return posterior means (outputs, m), the whole cells by prefix sums."""
    f, coef = averages, posterior.coefficients
    running = np.zeros((coef.shape[0], coef.shape[1] + 1))
    np.cumsum(coef @ f.whole, axis=1, out=running[:, 1:])
    between = running[:, f.end] - running[:, np.minimum(f.begin + 1, f.end)]
    return (
        np.einsum("oti,ti->ot", coef[:, f.begin], f.head)
        + f.full * between
        + np.einsum("oti,ti->ot", coef[:, f.end], f.tail)
    )


def _variance_of_averages(
    posterior: Posterior, averages: Stretches, length: Array, component: int | None
) -> Array:
    """Return posterior variances (m,)."""
    prior = np.zeros(len(length))
    for number in posterior.involved(component):
        prior += posterior.splines[number].dynamics.average_variance(length)
    total = prior.copy()
    for sign, where, chain in _chains(posterior, component):
        total += sign * chain.variances(_of(averages, where))
    return np.maximum(total, _EPS * prior)


def _covariance_of_averages(
    posterior: Posterior, low: Array, high: Array, component: int | None
) -> Array:
    """Return the posterior covariance (m, m), by the pieces that the intervals' ends cut."""
    if not len(low):
        return np.empty((0, 0))
    pieces = Pieces(low, high, posterior.grid.lower, posterior.grid.upper)
    averages = _averages(posterior, pieces.start, pieces.stop, component)
    prior = np.zeros((len(pieces.length), len(pieces.length)))
    for number in posterior.involved(component):
        prior += pieces.prior(posterior.splines[number].dynamics)
    spread = prior.copy()
    for sign, where, chain in _chains(posterior, component):
        chain.add_covariance(_of(averages, where), sign, spread)
    out = pieces.joined(spread)
    floor = np.einsum("ai,ij,aj->a", pieces.shares, prior, pieces.shares, optimize=True)
    _lift_diagonal(out, _EPS * floor)
    return out


def _lift_diagonal(matrix: Array, floor) -> None:
    """No variance below what rounding of the prior's lets us tell from zero."""
    diagonal = np.einsum("ii->i", matrix)
    np.maximum(diagonal, floor, out=diagonal)
