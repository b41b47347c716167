"""Ordered levels: a latent f between cut points."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numba
import numpy as np
from scipy.special import expit

from asvgp.basis import Array
from asvgp.likelihoods.family import Family, weighted_mean
from asvgp.likelihoods.mixture import root
from asvgp.likelihoods.quadrature import softplus


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _ordinal_rows(y, m, v, cuts, value, slope, weight, by_lower, by_upper):
    """Fill in expectations; by_lower and by_upper are the slopes by the cuts around y.

    The probability of a level between cuts a and b has the logarithm
    log(1 - exp(a - b)) - log(1 + exp(f - b)) - log(1 + exp(a - f)).
    """
    last = cuts.shape[0]
    for i in range(y.shape[0]):
        level = int(y[i])
        total, g, w, lower, upper = 0.0, 0.0, 0.0, 0.0, 0.0
        if level < last:
            mean, share, bend = softplus(m[i] - cuts[level], v[i])
            total, g, w, upper = total - mean, g - share, w + bend, upper + share
        if level > 0:
            mean, share, bend = softplus(cuts[level - 1] - m[i], v[i])
            total, g, w, lower = total - mean, g + share, w + bend, lower - share
        if 0 < level < last:
            gap = cuts[level] - cuts[level - 1]
            total += math.log(-math.expm1(-gap))
            pull = 1.0 / math.expm1(gap)
            lower -= pull
            upper += pull
        value[i], slope[i], weight[i] = total, g, w
        by_lower[i], by_upper[i] = lower, upper


@dataclass(frozen=True, repr=False)
class Ordinal(Family):
    """Levels 0, 1, ..., in this order: P(Y >= k) = 1 / (1 + exp(cut_k - f)).

    Parameters
    ----------
    levels : int
        How many levels there are, two or more.
    gaps : tuple of float or "auto", default="auto"
        Distances between neighbouring cut points, of which there are ``levels - 1``.
    first : float, default=0.0
        The first cut point. A constant in the kernel moves f instead, so that it is not trained.

    Examples
    --------
    >>> import numpy as np
    >>> grades = Ordinal(levels=3, gaps=(2.0,), first=-1.0)
    >>> grades.probabilities(np.zeros(1), np.zeros(1)).round(3)
    array([[0.269, 0.462, 0.269]])
    """

    levels: int = 2
    gaps: tuple[float, ...] | str = "auto"
    first: float = 0.0

    name: ClassVar[str] = "ordinal"
    inverse_link: ClassVar[str] = "level"
    whole: ClassVar[bool] = True
    # Gaps beyond thirty leave nothing for the levels at their ends to be told by.
    _limits: ClassVar[tuple[float, float]] = (1e-3, 30.0)

    def __post_init__(self) -> None:
        if isinstance(self.levels, bool) or int(self.levels) != self.levels or self.levels < 2:
            raise ValueError(f"levels of Ordinal must be a whole number >= 2, got {self.levels}.")
        names = tuple(f"gap {j}" for j in range(1, int(self.levels) - 1))
        gaps, free = self.gaps, self.free
        if isinstance(gaps, str):
            if gaps != "auto":
                raise ValueError(f'gaps of Ordinal must be numbers or "auto", got {gaps!r}.')
            gaps, free = (1.0,) * len(names), names
        gaps = tuple(float(gap) for gap in gaps)
        if len(gaps) != len(names) or not all(0.0 < gap < math.inf for gap in gaps):
            raise ValueError(
                f"Ordinal with {self.levels} levels needs {len(names)} positive gaps between its "
                f"cut points, got {gaps}."
            )
        if tuple(free) not in ((), names):
            raise ValueError(f"All gaps of Ordinal are free or none is, got free={free!r}.")
        for name, given in (("levels", int(self.levels)), ("gaps", gaps), ("free", tuple(free))):
            object.__setattr__(self, name, given)

    def _shown(self) -> list[str]:
        fresh = bool(self.free) and set(self._gaps) == {1.0}
        gaps = '"auto"' if fresh else repr(self.gaps)
        return [f"levels={self.levels}", f"gaps={gaps}", f"first={self.first!r}"]

    @property
    def _gaps(self) -> tuple[float, ...]:
        return tuple(map(float, self.gaps))

    @property
    def cuts(self) -> Array:
        """The cut points, in ascending order."""
        return self.first + np.concatenate([[0.0], np.cumsum(self._gaps)])

    @property
    def values(self) -> Array:
        """The gaps, where they are free."""
        return np.array(self._gaps if self.free else (), dtype=np.float64)

    def with_values(self, values: Any) -> Self:
        """Return a copy with other gaps, which stay free."""
        given = tuple(map(float, values))
        return replace(self, gaps=given) if self.free else self

    def limits(self) -> list[tuple[float, float]]:
        """Return (lower, upper) for every gap, where they are free."""
        return [self._limits] * len(self.free)

    def check(self, y: Array, extra: Any = None, first_row: int = 0) -> None:
        """Raise ValueError unless all y are levels."""
        y = np.asarray(y, dtype=np.float64)
        self._check_counts(y, first_row)
        problem = f"y must contain levels from 0 to {self.levels - 1}"
        self._refuse(y >= self.levels, y, problem, first_row)

    def _rows(self, y: Any, m: Any, v: Any) -> Any:
        out = np.empty((5, len(m)))
        _ordinal_rows(y, m, v, self.cuts, *out)
        return out

    def expected(self, y: Array, extra: Any, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """Return V = E log p(y | f) under f ~ N(m, v), dV/dm and -2 dV/dv, row by row."""
        value, slope, weight, _, _ = self._rows(y, m, v)
        return value, slope, weight

    def slopes(self, y: Array, extra: Any, m: Array, v: Array) -> Array:
        """Return dV / dlog(gap) of every gap, where they are free."""
        if not self.free:
            return np.zeros((0, len(m)))
        _, _, _, lower, upper = self._rows(y, m, v)
        # A gap moves all cuts above it.
        return np.array(
            [
                gap * (np.where(y - 1.0 > j, lower, 0.0) + np.where(y > j, upper, 0.0))
                for j, gap in enumerate(self._gaps)
            ]
        )

    def start(self, y: Array, extra: Any, weight: Any, offset: Any) -> Array:
        """Return the middle between the cuts of a level, and one beyond the last ones."""
        cuts = self.cuts
        ends = np.concatenate([[cuts[0] - 2.0], cuts, [cuts[-1] + 2.0]])
        f = 0.5 * (ends[:-1] + ends[1:])[y.astype(np.int64)]
        return f if offset is None else f - offset

    def begin(self, y: Array, extra: Any, weight: Any, offset: Any) -> Self:
        """Return a copy whose free gaps, and the first cut with them, are started from data.

        The cuts are such that the levels have their shares at f = 0.
        """
        if not self.free:
            return self
        rows = float(len(y)) if weight is None else float(np.sum(weight))
        shares = np.array(
            [
                (rows * weighted_mean((y <= level).astype(np.float64), weight) + 0.5) / (rows + 1.0)
                for level in range(self.levels - 1)
            ]
        )
        cuts = np.log(shares) - np.log1p(-shares)
        gaps = np.clip(np.diff(cuts), 0.05, 10.0)
        return replace(self, gaps=tuple(map(float, gaps)), first=float(cuts[0]))

    def _at_least(self, f: Array) -> Array:
        """Return P(Y >= k | f) for k from one on, along a last axis."""
        return expit(np.asarray(f)[..., None] - self.cuts)

    def response(self, f: Array, extra: Any = None) -> Array:
        """Return the mean level."""
        return self._at_least(f).sum(axis=-1)

    def _scatter(self, f: Array, extra: Any) -> Array:
        above = self._at_least(f)
        odd = 2.0 * np.arange(1.0, self.levels) - 1.0
        return above @ odd - above.sum(axis=-1) ** 2

    def _share_below(self, y: Array, f: Array, extra: Any) -> Array:
        ends = np.concatenate([self.cuts, [math.inf]])
        level = np.clip(np.floor(y), 0, self.levels - 1).astype(np.int64)
        return np.where(y < 0.0, 0.0, expit(ends[level] - f))

    def _point(self, share: float, f: Array, extra: Any) -> Array:
        return np.sum(expit(self.cuts - np.asarray(f)[..., None]) < share, axis=-1).astype(float)

    def probabilities(self, m: Array, v: Array) -> Array:
        """Return the probabilities of all levels under f ~ N(m, v), of shape (rows, levels)."""
        below = [self.cdf(np.full(len(m), float(k)), m, v) for k in range(self.levels)]
        return np.diff(below, axis=0, prepend=0.0).T

    def sample(self, f: Array, rng: np.random.Generator, extra: Any = None) -> Array:
        """Return one level for every f."""
        noise = rng.logistic(size=np.shape(f))
        return np.searchsorted(self.cuts, f + noise).astype(np.float64)

    def deviance(self, y: Array, mean: Array, extra: Any = None) -> Array:
        """Return twice what log p lacks with this mean level to the best one."""
        far = 50.0 + np.abs(self.cuts).max()
        best = self.start(y, None, None, None)
        best = np.where(y == 0.0, -far, np.where(y == self.levels - 1, far, best))
        at = root(lambda f: self.response(f) - mean, np.full(len(y), -far), np.full(len(y), far))
        zero = np.zeros(len(y))
        log_p = [self.expected(y, None, f, zero)[0] for f in (best, at)]
        return np.maximum(2.0 * (log_p[0] - log_p[1]), 0.0)
