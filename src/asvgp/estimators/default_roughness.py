"""Whether the irregular part of a default series is a rough process beside a smooth one.

The default kernel has one Matérn of order 3/2 for all that is irregular. Many series have more:
minutes of electric power change at once where something is switched on, and that lasts for hours.
Whether another Matérn, of order 1/2, is worth having is decided by the evidence of small dense
Gaussian processes on a sample of the rows, as it is for fields: some sets of neighbours, some of
rows from a part of the series, some of rows from anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from asvgp.basis import Array
from asvgp.policies import DEFAULT, SAMPLE
from asvgp.runtime.parallel import one_blas_thread
from asvgp.training.sample_evidence import Factor, Model, Rows, Sample, reaches, train

_SMOOTH, _ROUGH = (Factor((0,), 1.5),), (Factor((0,), 0.5),)


def rough_and_smooth(x: Array, y: Array) -> tuple[float, float] | None:
    """Return lengthscales of a Matérn of order 1/2 and one of order 3/2, if y needs both.

    None where one of order 3/2 will do. Inputs are sorted; y (rows, outputs) has neither seasons
    nor a trend.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, noise = np.arange(4000.0), rng.standard_normal((4000, 1))
    >>> steps = np.repeat(rng.standard_normal((100, 1)), 40, axis=0)
    >>> rough_and_smooth(x, noise) is None, rough_and_smooth(x, steps + 0.1 * noise) is None
    (True, False)
    """
    sample = _sample_of(x, y)
    with one_blas_thread:  # matrices are small
        one = train(Model((_SMOOTH,)), sample, list(_singles(float(sample.gaps[0]))))
        both = train(Model((_ROUGH, _SMOOTH)), sample, list(_sums(one.theta)))
    rough, smooth = float(sample.units[0]) * np.exp(both.theta[[0, 2]])
    return (float(rough), float(smooth)) if both.judged > one.judged else None


def _sample_of(x: Array, y: Array) -> Sample:
    """Return sets of rows to learn from, and others to judge by."""
    span = float(x[-1] - x[0])
    gap = float(np.median(np.diff(np.unique(x)))) / span
    scale = float(np.sqrt(np.mean(np.var(y, axis=0))))
    whole = Rows(((x - x[0]) / span)[:, None], (y - y.mean(axis=0)) / scale, np.ones(len(x)))
    rng = np.random.default_rng(0)
    learnt, judged = (tuple(_sets(whole, rng)) for _ in range(2))
    return Sample(learnt, judged, (), np.array([span]), np.array([gap]), scale)


def _sets(whole: Rows, rng: np.random.Generator) -> Iterator[Rows]:
    """Yield sets of neighbours, of rows in a part, and of rows anywhere."""
    for reach in reaches(len(whole.x)):
        for _ in range(DEFAULT.sampled_sets):
            first = int(rng.integers(len(whole.x) - reach + 1))
            chosen = first + np.sort(rng.choice(reach, SAMPLE.set_rows, replace=False))
            yield Rows(*(part[chosen] for part in whole))


def _singles(gap: float) -> Iterator[Array]:
    """Yield log-hyperparameters of one term to start from."""
    for length, noise in product(DEFAULT.sampled_lengths, SAMPLE.start_noises):
        yield np.log([length * gap, max(1.0 - noise, 0.1), noise])


def _sums(one: Array) -> Iterator[Array]:
    """Yield log-hyperparameters of a sum to start from: either term may be the longer one."""
    length, variance, noise = one
    for times, share in product(DEFAULT.sampled_pairs, SAMPLE.start_shares):
        for rough, smooth in (times, times[::-1]):
            own, rest = variance + np.log([share, 1.0 - share])
            yield np.array([length + np.log(rough), own, length + np.log(smooth), rest, noise])
