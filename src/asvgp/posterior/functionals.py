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

from dataclasses import dataclass
from math import factorial
from operator import index

import numpy as np

from asvgp.basis import Array, mean_powers
from asvgp.kernels.dynamics import Dynamics
from asvgp.linalg.chain.covariance import add_covariance
from asvgp.linalg.chain.sweep import assemble, stretches
from asvgp.posterior.line import Posterior
from asvgp.runtime.checks import finite_range, non_negative_integer
from asvgp.runtime.parallel import each_share

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
    >>> from asvgp.statistics.one_input import Statistics
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
    prior = _prior_of_derivative(posterior, np.zeros(1), order, component)[0]
    mean = np.empty((len(posterior.coefficients), len(x)))
    var = np.empty(len(x) if variance else 0)
    reduction = np.empty((0, 0, 0))
    if variance:
        before, after = posterior._cell_covariances
        reduction = before - after
    for start in range(0, len(x), _CHUNK):
        rows = slice(start, start + _CHUNK)
        cells, weights = _derivative_functionals(posterior, x[rows], order, component)
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
    >>> from asvgp.statistics.one_input import Statistics
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
    cells, weights = _derivative_functionals(posterior, ranked, order, component)
    out = _prior_of_derivative(
        posterior, np.abs(ranked[:, None] - ranked[None, :]), order, component
    )
    floor = _EPS * float(out.flat[0]) if out.size else 0.0
    for sign, chain in _chains(posterior, component):
        add_covariance(
            chain.states,
            chain.innovations,
            chain.shift,
            chain.settled,
            chain.gain,
            chain.cov[cells],
            cells,
            np.ascontiguousarray(weights[:, chain.where]),
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
    >>> from asvgp.statistics.one_input import Statistics
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


@dataclass(frozen=True, eq=False)
class _Chain:
    """One of the chains whose covariances are added up; letters as in `asvgp.linalg`."""

    where: Array  # its coefficients among those of the posterior's cells
    states: tuple[int, ...]
    innovations: tuple[int, ...]
    shift: Array
    settled: int
    gain: Array
    cov: Array


def _chains(posterior: Posterior, component: int | None) -> list[tuple[float, _Chain]]:
    """The prior's chains, with minus, and the posterior's."""
    model = posterior.model
    before, after = posterior._cell_covariances
    cells, every = np.arange(len(after)), np.arange(len(model.power))
    chains = []
    for number in _involved(posterior, component):
        where, prior = model.where[number], model.priors[number]
        own = before[np.ix_(cells, where, where)]
        gain = np.ascontiguousarray(prior.gain[:, None, :])
        chains.append(
            (-1.0, _Chain(where, prior.states, (0,), prior.shift, prior.first, gain, own))
        )
    whole = _Chain(
        every, model.states, model.innovations, model.shift, 0, posterior.chain.gain, after
    )
    return [*chains, (1.0, whole)]


def _check_component(posterior: Posterior, component: int | None) -> None:
    count = len(posterior.model.priors)
    if component is not None and not 0 <= index(component) < count:
        raise ValueError(
            f"component must be None or from 0 to {count - 1}, got {component!r}: the kernel is "
            f"{posterior.kernel!r}."
        )


def _involved(posterior: Posterior, component: int | None) -> list[int]:
    """Numbers of the components a functional acts on."""
    return list(range(len(posterior.model.priors))) if component is None else [component]


def _check_order(posterior: Posterior, order: int, component: int | None) -> int:
    """The order of a derivative that every component involved has."""
    _check_component(posterior, component)
    order = non_negative_integer(order, "order")
    components = posterior.kernel.components
    for number in _involved(posterior, component):
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
    """Prior covariance of the derivative at two points the given distances apart."""
    total = np.zeros(lag.shape)
    for number in _involved(posterior, component):
        dynamics = Dynamics(posterior.kernel.components[number])
        column = dynamics.powers[order] @ dynamics.stationary[:, order]
        total += dynamics.rows(lag) @ column / dynamics.unit ** (2 * order)
    return total


def _to_taylor(posterior: Posterior, number: int, unit: float, rows: Array, right: bool) -> Array:
    """Weights on a state beyond an end, in units of ``unit``, as weights on the end cell.

    Shape (m, k + 1), of one component's coefficients. Leftwards is a mirror image, in which
    odd derivatives change their sign.
    """
    prior = posterior.model.priors[number]
    size = rows.shape[1]
    ratio = unit / posterior.grid.spacing
    scaled = rows * np.array([factorial(i) * ratio**i for i in range(size)])
    if right:
        return scaled @ prior.shift[:size]
    out = np.zeros((len(rows), prior.degree + 1))
    out[:, :size] = scaled * (-1.0) ** np.arange(size)
    return out


def _derivative_functionals(
    posterior: Posterior, x: Array, order: int, component: int | None
) -> tuple[np.ndarray, Array]:
    """Differentiation at x as weights on the coefficients of one cell, beyond the ends too."""
    grid, model = posterior.grid, posterior.model
    cells, s = grid.locate(np.clip(x, grid.lower, grid.upper))
    right, left = x > grid.upper, x < grid.lower
    weights = np.zeros((len(x), len(model.power)))
    for number in _involved(posterior, component):
        where = model.where[number]
        for i in range(order, len(where)):
            falling = factorial(i) / factorial(i - order)
            weights[:, where[i]] = falling / grid.spacing**order * s ** (i - order)
        dynamics = Dynamics(posterior.kernel.components[number])
        power = dynamics.powers[order] / dynamics.unit**order
        for beyond, lag, sign in (
            (right, x[right] - grid.upper, 1.0),
            (left, grid.lower - x[left], (-1.0) ** order),
        ):
            if beyond.any():
                rows = sign * dynamics.rows(lag) @ power
                weights[np.ix_(beyond, where)] = _to_taylor(
                    posterior, number, dynamics.unit, rows, beyond is right
                )
    return cells, weights


@dataclass(frozen=True, eq=False)
class _Stretches:
    """Functionals over stretches of cells; see `asvgp.linalg.chain.sweep`."""

    begin: np.ndarray
    end: np.ndarray
    head: Array
    tail: Array
    full: Array
    whole: Array


def _averages(posterior: Posterior, low: Array, high: Array, component: int | None) -> _Stretches:
    """The averages of a spline, continued beyond the domain, over intervals low <= high."""
    grid, model = posterior.grid, posterior.model
    h = grid.spacing
    a, b = np.clip(low, grid.lower, grid.upper), np.clip(high, grid.lower, grid.upper)
    (begin, s), (end, t) = grid.locate(a), grid.locate(b)
    single = begin == end
    inside = np.where(single, (b - a) / h, (1.0 - s) + (end - begin - 1.0) + t)
    before = np.maximum(np.minimum(high, grid.lower) - low, 0.0) / h
    after = np.maximum(high - np.maximum(low, grid.upper), 0.0) / h
    total = before + inside + after
    point = total == 0.0  # then all of it lies in one place
    left, right = low < grid.lower, high > grid.upper
    divisor = np.where(point, 1.0, total)
    before = np.where(point & left, 1.0, before / divisor)
    after = np.where(point & right, 1.0, after / divisor)
    inside = np.where(point & ~left & ~right, 1.0, inside / divisor)
    involved = _involved(posterior, component)
    active = np.zeros(len(model.power), dtype=bool)
    for number in involved:
        active[model.where[number]] = True
    means = mean_powers(s, np.where(single, t, 1.0), int(model.power.max()))
    share = np.where(single, inside, (1.0 - s) / divisor)
    head = share[:, None] * means[:, model.power] * active
    share = np.where(single, 0.0, t / divisor)
    tail = (share[:, None] * t[:, None] ** model.power) / (model.power + 1.0) * active
    for number in involved:
        dynamics, where = Dynamics(posterior.kernel.components[number]), model.where[number]
        for beyond, share, gap in (
            (left, before, grid.lower - np.minimum(high, grid.lower)),
            (right, after, np.maximum(low, grid.upper) - grid.upper),
        ):
            rows = np.flatnonzero(beyond)
            if not len(rows):
                continue
            length = np.where(point, 0.0, share * divisor * h)[rows]
            means_beyond = np.einsum(
                "ti,tij->tj", dynamics.average_rows(length), dynamics.matrices(gap[rows])
            )
            weights = share[rows, None] * _to_taylor(
                posterior, number, dynamics.unit, means_beyond, beyond is right
            )
            late = np.zeros(len(rows), dtype=bool) if beyond is left else ~single[rows]
            head[np.ix_(rows[~late], where)] += weights[~late]
            tail[np.ix_(rows[late], where)] += weights[late]
    whole = active / (model.power + 1.0)
    return _Stretches(begin, end, head, tail, 1.0 / divisor, whole)


def _mean_averages(posterior: Posterior, functionals: _Stretches) -> Array:
    """Posterior means (outputs, m), the whole cells by prefix sums."""
    f, coef = functionals, posterior.coefficients
    running = np.zeros((coef.shape[0], coef.shape[1] + 1))
    np.cumsum(coef @ f.whole, axis=1, out=running[:, 1:])
    between = running[:, f.end] - running[:, np.minimum(f.begin + 1, f.end)]
    return (
        np.einsum("oti,ti->ot", coef[:, f.begin], f.head)
        + f.full * between
        + np.einsum("oti,ti->ot", coef[:, f.end], f.tail)
    )


def _variance_of_averages(
    posterior: Posterior, functionals: _Stretches, length: Array, component: int | None
) -> Array:
    """Posterior variances (m,)."""
    prior = np.zeros(len(length))
    for number in _involved(posterior, component):
        prior += Dynamics(posterior.kernel.components[number]).average_variance(length)
    total = prior.copy()
    for sign, chain in _chains(posterior, component):
        total += sign * _walk(chain, functionals, keep=False)[0]
    return np.maximum(total, _EPS * prior)


def _walk(chain: _Chain, functionals: _Stretches, keep: bool) -> tuple[Array, Array, Array, Array]:
    """Variances of stretches, and if kept what `assemble` needs besides."""
    f, where = functionals, chain.where
    count, size = len(f.full), len(where)
    kept = count if keep else 0
    variance, cross = np.empty(count), np.empty((kept, size))
    weights, bridges = np.empty((kept, size)), np.empty((kept, size, size))
    head, tail, whole = (np.ascontiguousarray(v[..., where]) for v in (f.head, f.tail, f.whole))

    def share(start: int, stop: int) -> None:
        own = slice(start, stop)
        stretches(
            chain.states,
            chain.innovations,
            chain.shift,
            chain.settled,
            chain.gain,
            chain.cov,
            whole,
            f.begin[own],
            f.end[own],
            head[own],
            tail[own],
            f.full[own],
            variance[own],
            cross[own],
            weights[own],
            bridges[own],
        )

    each_share(count, share)
    return variance, cross, weights, bridges


def _covariance_of_averages(
    posterior: Posterior, low: Array, high: Array, component: int | None
) -> Array:
    """Posterior covariance (m, m): by the pieces that the ends of the intervals cut.

    The pieces adjoin, so that prior, K^-1 and P^-1 are each a chain over the pieces.
    """
    if not len(low):
        return np.empty((0, 0))
    grid = posterior.grid
    point = low == high
    ends = np.unique(np.concatenate([low, high]))
    walls = np.array([grid.lower, grid.upper])
    walls = walls[(walls > ends[0]) & (walls < ends[-1])]
    cuts = np.union1d(ends, walls)
    cuts = np.sort(np.concatenate([cuts, np.unique(low[point])]))  # a piece of length zero each
    start, stop = cuts[:-1], cuts[1:]
    length = stop - start
    functionals = _averages(posterior, start, stop, component)
    count = len(length)
    prior = np.zeros((count, count))
    for number in _involved(posterior, component):
        dynamics = Dynamics(posterior.kernel.components[number])
        weights = dynamics.average_rows(length)
        averages = np.einsum("ti,rij->trj", weights, dynamics.powers)
        assemble(
            dynamics.average_variance(length),
            averages @ dynamics.stationary[:, 0],
            weights,
            np.ascontiguousarray(dynamics.matrices(length).transpose(0, 2, 1)),
            1.0,
            prior,
        )
    spread = prior.copy()
    for sign, chain in _chains(posterior, component):
        assemble(*_walk(chain, functionals, keep=True), sign, spread)
    first = np.searchsorted(cuts, low)
    last = np.searchsorted(cuts, high)
    pieces = np.arange(count)
    within = (pieces >= first[:, None]) & (pieces < last[:, None])
    shares = within * length / np.where(point, 1.0, high - low)[:, None]
    shares[np.flatnonzero(point), first[point]] = 1.0
    out = shares @ spread @ shares.T
    out = 0.5 * (out + out.T)
    floor = _EPS * np.einsum("ai,ij,aj->a", shares, prior, shares, optimize=True)
    _lift_diagonal(out, floor)
    return out


def _lift_diagonal(matrix: Array, floor) -> None:
    """No variance below what rounding of the prior's lets us tell from zero."""
    diagonal = np.einsum("ii->i", matrix)
    np.maximum(diagonal, floor, out=diagonal)
