"""The evidence of small dense Gaussian processes on samples of a field.

A few sets of rows stand for all: some that lie side by side, some spread over a part of the field,
some over all of it, so that short and long scales show. Sets are taken to be independent, and each
has exact evidence: no splines, and no cells to choose before anything is known. Inputs and y are
scaled; lengths are in units of the range of an input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import pi, sqrt
from typing import NamedTuple

import numpy as np
from scipy.linalg import get_lapack_funcs
from scipy.optimize import minimize

from asvgp.basis import Array
from asvgp.policies import SAMPLE
from asvgp.training.correlation import correlation

_POTRF, _POTRI, _POTRS = get_lapack_funcs(("potrf", "potri", "potrs"), dtype=np.float64)


class Factor(NamedTuple):
    """A Matérn kernel over one input, or over several jointly."""

    columns: tuple[int, ...]
    nu: float
    alike: bool = False  # True with one lengthscale for all

    @property
    def lengths(self) -> int:
        """Number of lengthscales."""
        return 1 if self.alike else len(self.columns)

    def unit(self, units: Array) -> Array:
        """Return what the lengthscales are in units of, from the ranges of all inputs."""
        own = units[list(self.columns)]
        return np.exp(np.log(own).mean(keepdims=True)) if self.alike else own


Term = tuple[Factor, ...]  # a product over different inputs


class Model(NamedTuple):
    """A sum of terms, with a constant and perhaps a linear effect of every input."""

    terms: tuple[Term, ...]
    linear: bool = False

    @property
    def sizes(self) -> list[int]:
        """Number of hyperparameters of every term: lengths of all factors, then the variance."""
        return [sum(factor.lengths for factor in term) + 1 for term in self.terms]

    @property
    def parameters(self) -> int:
        """Number of all hyperparameters, the noise included; slopes have a prior of their own."""
        return sum(self.sizes) + 1


class Rows(NamedTuple):
    """Rows of a set, scaled."""

    x: Array  # (rows, inputs), in units of the ranges
    y: Array  # (rows, outputs), centred, with variance one over all rows
    inverse_weight: Array  # noise variance of every row, relative to that of all


@dataclass(frozen=True)
class Sample:
    """Sets of rows to learn from, and more of them to learn further from and to judge by."""

    learnt: tuple[Rows, ...]
    judged: tuple[Rows, ...]  # of a field those sets and, unless rows are few, others
    spread: tuple[Rows, ...]  # one set, of rows anywhere, to judge trends by
    units: Array  # range of every input
    gaps: Array  # typical distance of neighbours along every input, in units of its range
    scale: float  # standard deviation of y
    mean_weight: float = 1.0  # the noise of the sample is that at this weight
    noise: float | None = None  # known noise variance, in units of y
    around: tuple[Rows, ...] = ()  # many rows: neighbours of places, the nearest first
    further: bool = False  # many rows: models learn from all sets, and not from the first ones only


def sample_of(
    x: Array, y: Array, weights: Array | None = None, known_noise: bool = False
) -> Sample | None:
    """Return sets of rows of x (rows, inputs) and y (rows, outputs); None of a constant field.

    A single row is a constant field. Rows without y are left out. The same rows give the same sets.
    """
    good = np.isfinite(y).all(axis=1)
    if weights is not None:
        good &= weights > 0.0
    x, y = x[good], y[good]
    weight = np.ones(len(x)) if weights is None else weights[good]
    if len(x) < 2:
        return None
    units, scale = np.ptp(x, axis=0), float(np.sqrt(np.mean(np.var(y, axis=0))))
    if not units.all() or not scale > 1e-12 * float(np.sqrt(np.mean(y**2))):
        return None
    mean = 1.0 if known_noise else float(weight.mean())
    weight = weight / mean
    rng = np.random.default_rng(0)
    some = rng.permutation(len(x))[: SAMPLE.most_seen]
    gaps = 1.0 / np.maximum([len(np.unique(column)) - 1 for column in x[some].T], 1.0)
    whole = Rows((x - x.min(axis=0)) / units, (y - y.mean(axis=0)) / scale, 1.0 / weight)
    if len(x) <= SAMPLE.whole_rows:
        learnt = judged = spread = (whole,)
    else:
        learnt = tuple(_sets(whole, gaps, rng, SAMPLE.learnt_sets))
        judged = (*learnt, *_sets(whole, gaps, rng, SAMPLE.further_sets))
        anywhere = np.random.default_rng(1).permutation(len(x))[: SAMPLE.spread_rows]
        spread = (Rows(*(part[anywhere] for part in whole)),)
    around = _surroundings(whole, gaps, rng) if len(x) >= SAMPLE.fewest_around else ()
    known, further = 1.0 if known_noise else None, len(x) >= SAMPLE.fewest_further
    return Sample(learnt, judged, spread, units, gaps, scale, mean, known, tuple(around), further)


def reaches(count: int) -> tuple[int, int, int]:
    """Return the numbers of rows, of ``count``, among which sets of every kind are drawn."""
    return SAMPLE.set_rows, int(sqrt(SAMPLE.set_rows * count)), count


def _sets(rows: Rows, gaps: Array, rng: np.random.Generator, each: int) -> list[Rows]:
    """Return so many sets of every kind: of neighbours, of rows in a part, of rows anywhere."""
    count, size = len(rows.x), SAMPLE.set_rows
    sets = []
    for reach in reaches(count):
        for _ in range(each):
            near = np.arange(count)
            if reach < count:
                centre = rows.x[rng.integers(count)]
                distance = np.sum(((rows.x - centre) / gaps) ** 2, axis=1)
                near = np.argpartition(distance, reach)[:reach]
            chosen = near if len(near) <= size else rng.choice(near, size, replace=False)
            sets.append(Rows(*(part[chosen] for part in rows)))
    return sets


def _surroundings(rows: Rows, gaps: Array, rng: np.random.Generator) -> Iterator[Rows]:
    """Yield the rows around some of them, the nearest first."""
    for centre in rows.x[rng.integers(len(rows.x), size=SAMPLE.holes)]:
        distance = np.sum(((rows.x - centre) / gaps) ** 2, axis=1)
        near = np.argpartition(distance, SAMPLE.around_rows)[: SAMPLE.around_rows]
        near = near[np.argsort(distance[near], kind="stable")]
        yield Rows(*(part[near] for part in rows))


# ------------------------------------------------------------ the evidence


class SampleEvidence:
    """The evidence of a model on sets of rows, as a function of its log-hyperparameters.

    They are those of every term, the lengths of its factors before its variance, then the noise.
    """

    def __init__(self, model: Model, sets: Sequence[Rows], units: Array):
        self.model, self.sets, self.units = model, sets, units
        self._lags = [self._squares(rows.x) for rows in sets]
        self._priors = [self._effects(rows.x) for rows in sets]

    @staticmethod
    def _squares(x: Array) -> Array:
        """Return squared distances of pairs of rows, along every input."""
        low, high = _pairs(len(x))
        return np.ascontiguousarray(np.square(x[low] - x[high]).T)

    def _effects(self, x: Array) -> Array:
        """Return the covariance of the effects: what they add has the variance of y, about."""
        out = np.ones((len(x), len(x)))
        if self.model.linear:
            centred = sqrt(12.0) * (x - 0.5)
            out += centred @ centred.T
        return out

    def __call__(self, theta: Array, slopes: bool = True) -> tuple[float, Array]:
        """Return value and gradient; the value is -inf where a matrix cannot be factored."""
        value, gradient = 0.0, np.zeros(len(theta))
        for rows, lags, effects in zip(self.sets, self._lags, self._priors, strict=True):
            part, slope = self._of_set(theta, rows, lags, effects, slopes)
            value, gradient = value + part, gradient + slope
        return value, gradient

    def _of_set(
        self, theta: Array, rows: Rows, lags: Array, effects: Array, slopes: bool
    ) -> tuple[float, Array]:
        count, outputs = rows.y.shape
        matrix, noise, d_pairs, d_variance = self._matrix(theta, rows, lags, effects, slopes)
        below = _pairs(count)
        root, failed = _POTRF(matrix, lower=1, overwrite_a=1)
        if failed:
            return -np.inf, np.zeros(len(theta))
        log_det = 2.0 * float(np.sum(np.log(np.diag(root))))
        alpha, _ = _POTRS(root, rows.y, lower=1)
        value = -0.5 * float(np.sum(alpha * rows.y))
        value -= 0.5 * outputs * (log_det + count * np.log(2.0 * pi))
        if not slopes:
            return value, np.zeros(len(theta))
        inverse, _ = _POTRI(root, lower=1, overwrite_c=1)  # its lower half
        weights = 0.5 * (alpha @ alpha.T - outputs * inverse)
        inside, across = np.diag(weights), 2.0 * weights[below]
        gradient = [
            float(across @ d) + own * float(inside.sum())
            for d, own in zip(d_pairs, d_variance, strict=True)
        ]
        return value, np.array([*gradient, float(inside @ noise)])

    def covariance(self, theta: Array, number: int) -> Array:
        """Return the covariance of y in one of the sets, noise included; the lower half."""
        given = self.sets[number], self._lags[number], self._priors[number]
        return self._matrix(theta, *given, slopes=False)[0]

    def derivatives(self, theta: Array, number: int) -> tuple[Array, list[Array]]:
        """Return the covariance of y in one of the sets, and its derivatives by theta, whole."""
        rows, lags, effects = self.sets[number], self._lags[number], self._priors[number]
        matrix, noise, d_pairs, d_variance = self._matrix(theta, rows, lags, effects, slopes=True)
        below, found = _pairs(len(rows.x)), []
        for pairs, own in zip(d_pairs, d_variance, strict=True):
            whole = np.diag(np.full(len(rows.x), own))
            whole[below] = pairs
            whole.T[below] = pairs
            found.append(whole)
        return matrix, [*found, np.diag(noise)]

    def _matrix(
        self, theta: Array, rows: Rows, lags: Array, effects: Array, slopes: bool
    ) -> tuple[Array, Array, list[Array], list[float]]:
        """Return the covariance, its noise, and derivatives of pairs and of the diagonal."""
        variance, d_variance = 0.0, []
        pairs, d_pairs, place = 0.0, [], 0
        for term, size in zip(self.model.terms, self.model.sizes, strict=True):
            values, derivatives = self._term(term, theta[place : place + size], lags, slopes)
            pairs, d_pairs = pairs + values, [*d_pairs, *derivatives]
            own = float(np.exp(theta[place + size - 1]))
            variance, d_variance = variance + own, [*d_variance, *[0.0] * (size - 1), own]
            place += size
        noise = float(np.exp(theta[-1])) * rows.inverse_weight
        matrix = effects.copy(order="F")
        matrix[_pairs(len(rows.x))] += pairs
        matrix[np.diag_indices(len(rows.x))] += variance + noise
        return matrix, noise, d_pairs, d_variance

    def _term(
        self, term: Term, theta: Array, lags: Array, slopes: bool
    ) -> tuple[Array, list[Array]]:
        """Return covariances of pairs and their derivatives by lengths and variance."""
        place, found = 0, []
        for factor in term:
            lengths = np.exp(theta[place : place + factor.lengths])
            columns = list(factor.columns)
            units = self.units[columns] / factor.unit(self.units) if factor.alike else 1.0
            scaled = lags[columns] * (2.0 * factor.nu * (units / lengths) ** 2)[:, None]
            value, slope = correlation(factor.nu, scaled.sum(axis=0))
            by_length = [scaled.sum(axis=0)] if factor.alike else list(scaled)
            found.append((value, [slope * part for part in by_length] if slopes else []))
            place += factor.lengths
        variance = float(np.exp(theta[-1]))
        whole = variance * np.prod([value for value, _ in found], axis=0)
        derivatives = []
        for number, (_, own) in enumerate(found):
            others = [value for other, (value, _) in enumerate(found) if other != number]
            rest = variance * np.prod(others, axis=0) if others else variance
            derivatives += [rest * part for part in own]
        return whole, [*derivatives, whole] if slopes else []


@lru_cache(maxsize=4)
def _pairs(count: int) -> tuple[Array, Array]:
    """Return the rows of all pairs."""
    return np.tril_indices(count, -1)


# ------------------------------------------------------------ training


class Trained(NamedTuple):
    """A model with its hyperparameters, and what they reach."""

    model: Model
    theta: Array
    learnt: float  # evidence of the first sets after training on them
    judged: float  # evidence of all sets, less a price for the number of hyperparameters


def train(model: Model, sample: Sample, starts: Sequence[Array]) -> Trained:
    """Return a model with the highest evidence of the first sets, from the best of the starts."""
    evidence = SampleEvidence(model, sample.learnt, sample.units)
    limits = _limits(model, sample)
    starts = [np.clip(start, *limits.T) for start in starts]
    values = [evidence(start, slopes=False)[0] for start in starts]
    floor = min(value for value in [*values, 0.0] if np.isfinite(value))
    theta = _climb(evidence, starts[int(np.argmax(values))], limits, SAMPLE.iterations, floor)
    learnt = evidence(theta, slopes=False)[0]
    if sample.judged is sample.learnt:
        return _priced(model, theta, learnt, learnt, sample)
    every = SampleEvidence(model, sample.judged, sample.units)
    return _priced(model, theta, learnt, every(theta, slopes=False)[0], sample)


def trained_further(tried: Sequence[Trained], sample: Sample) -> list[Trained]:
    """Return models of which the best ones are trained on all sets.

    Nine small sets know the lengths and the noise of a sum badly, and one that has learnt their
    details would lose to a single term on other rows. Few rows are in the first sets already.
    """
    if not sample.further:
        return list(tried)
    count = sum(rows.y.size for rows in sample.learnt)
    least = max(each.learnt for each in tried) - SAMPLE.contending * count
    return [_further(each, sample) if each.learnt >= least else each for each in tried]


def _further(trained: Trained, sample: Sample) -> Trained:
    """Return a model trained on all sets, or of few rows the first, from where it is."""
    model, theta, learnt, judged = trained
    every = SampleEvidence(model, sample.judged, sample.units)
    sets = every if sample.further else SampleEvidence(model, sample.learnt, sample.units)
    theta = _climb(sets, theta, _limits(model, sample), SAMPLE.further_iterations, -abs(judged))
    return _priced(model, theta, learnt, every(theta, slopes=False)[0], sample)


def _climb(
    evidence: SampleEvidence, start: Array, limits: Array, iterations: int, floor: float
) -> Array:
    """Return log-hyperparameters of higher evidence; ``floor`` is a low but usual value."""
    values = []

    def downwards(theta: Array) -> tuple[float, Array]:
        value, slope = evidence(theta)
        values.append(value)
        if not np.isfinite(value):
            return -2.0 * floor + abs(floor), np.zeros(len(theta))
        return -value, -slope

    options = {"maxiter": iterations, "ftol": SAMPLE.tolerance, "maxcor": 20}
    found = minimize(
        downwards, start, jac=True, method="L-BFGS-B", bounds=limits.tolist(), options=options
    )
    return np.asarray(found.x if -found.fun > values[0] else start)


def _priced(model: Model, theta: Array, learnt: float, judged: float, sample: Sample) -> Trained:
    """Return a trained model, whose hyperparameters have their price."""
    price = SAMPLE.prices[len(sample.judged) > 1]
    price *= np.log(sum(rows.y.size for rows in sample.judged))
    return Trained(model, theta, learnt, judged - price * model.parameters)


def trend(without: Trained, sample: Sample) -> list[Trained]:
    """Return a model trained further, without slopes and with them.

    Slopes are judged by what they gain on rows anywhere. Sets are taken to be independent, so that
    each would pay for slopes of its own. One set pays once, and its long distances show what is a
    trend; the evidence for it has to be strong.
    """
    linear = without._replace(model=without.model._replace(linear=True))
    found = [_further(each, sample) for each in (without, linear)]
    before, after = (
        SampleEvidence(each.model, sample.spread, sample.units)(each.theta, slopes=False)[0]
        for each in found
    )
    judged = found[0].judged + after - before - SAMPLE.trend_gain
    return [found[0], found[1]._replace(judged=judged)]


def _limits(model: Model, sample: Sample) -> Array:
    """Return the limits of the log-hyperparameters."""
    limits = []
    for term in model.terms:
        for factor in term:
            gaps = [sample.gaps[list(factor.columns)].min()] if factor.alike else []
            for gap in gaps or sample.gaps[list(factor.columns)]:
                limits.append((SAMPLE.shortest * gap, SAMPLE.longest))
        limits.append(SAMPLE.variances)
    known = sample.noise
    scaled = None if known is None else known / sample.scale**2
    limits.append(SAMPLE.noises if scaled is None else (scaled, scaled))
    return np.log(limits)
