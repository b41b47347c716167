"""What a family of distributions is: how observations y scatter, given the latent f.

A family is an immutable dataclass. Its numbers (a dispersion, a shape) are positive and trained as
logarithms where they are free: a number that is given is kept, "auto" is estimated. Of a row,
training needs the mean of log p(y | f) under f ~ N(m, v) and its derivatives, predictions need the
distribution of y given f, which they mix over f.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from math import inf
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import ndtri

from asvgp.basis import Array
from asvgp.likelihoods import mixture
from asvgp.policies import SITES


class BadRows(ValueError):
    """Rows with values that a likelihood cannot have; the message names the first five.

    The problem says what a column "must contain".

    Examples
    --------
    >>> problem, wrong = "y must contain positive numbers", np.array([False, True])
    >>> str(BadRows.of(problem, np.array([1.0, -2.0]), wrong).among(np.array([3, 8]), 9))
    'y must contain positive numbers, but 1 of 9 rows does not: -2 in row 8.'
    """

    found: tuple[str, int, Array, Array]  # problem, number of rows, bad ones and their values

    @classmethod
    def of(cls, problem: str, values: Array, wrong: Array, first_row: int = 0) -> BadRows:
        """Return the error of the rows that are ``wrong``, counted from ``first_row``."""
        rows = np.flatnonzero(wrong)
        return cls._said(problem, len(values), first_row + rows, values[rows])

    @classmethod
    def _said(cls, problem: str, total: int, rows: Array, values: Array) -> BadRows:
        pairs = zip(values[:5], rows[:5], strict=True)
        first = ", ".join(f"{value:g} in row {row}" for value, row in pairs)
        more = ", ..." if len(rows) > 5 else ""
        do = "does" if len(rows) == 1 else "do"
        error = cls(f"{problem}, but {len(rows)} of {total} rows {do} not: {first}{more}.")
        error.found = problem, total, rows, values
        return error

    def among(self, numbers: Array, total: int) -> BadRows:
        """Return the error where rows have these numbers, among so many."""
        problem, _, rows, values = self.found
        return self._said(problem, total, numbers[rows], values)


def weighted_mean(values: Array, weight: Array | None) -> float:
    """Return the mean of values, or zero where no weight is left."""
    if weight is None:
        return float(np.mean(values)) if len(values) else 0.0
    total = float(np.sum(weight))
    return float(weight @ values) / total if total > 0.0 else 0.0


@dataclass(frozen=True, repr=False)
class Family(ABC):
    """Distributions of y given f, of which one member is meant.

    Parameters
    ----------
    free : tuple of str
        Names of the numbers that training may change; those given as "auto" are added.
    """

    free: tuple[str, ...] = field(default=(), kw_only=True)

    name: ClassVar[str]  # on the command line and in model files
    # The mean of y is f itself ("identity"), a multiple of exp(f) ("exp"), a share of the trials
    # ("share"), or the mean of levels ("level").
    inverse_link: ClassVar[str] = "exp"
    log_concave: ClassVar[bool] = True  # of p(y | f) in f: no weight of a site is then negative
    takes: ClassVar[frozenset[str]] = frozenset()  # of "exposure", "event" and "trials"
    starts: ClassVar[dict[str, float]] = {}  # values of numbers given as "auto", before data
    bounds: ClassVar[dict[str, tuple[float, float]]] = {}
    whole: ClassVar[bool] = False  # y is a whole number
    support: ClassVar[tuple[float, float]] = (-inf, inf)  # what y may be, its ends excluded
    # Whether weights of working responses say nothing of their noise, which is to be estimated.
    relative: ClassVar[bool] = False
    sharper: ClassVar[tuple[str, ...]] = ()  # numbers that y scatters the less by, the larger

    def __post_init__(self) -> None:
        free = set(self.free)
        for name, start in self.starts.items():
            given = getattr(self, name)
            if isinstance(given, str) and given == "auto":
                free.add(name)
                given = start
            try:
                number = float(given)
            except (TypeError, ValueError):
                number = inf
            if not 0.0 < number < inf:
                raise ValueError(
                    f'{name} of {type(self).__name__} must be a positive number or "auto", '
                    f"got {given!r}."
                )
            object.__setattr__(self, name, number)
        if unknown := free - set(self.starts):
            raise ValueError(
                f"{type(self).__name__} has no parameter {', '.join(sorted(unknown))} that could "
                f"be free; it has {', '.join(self.starts) or 'none'}."
            )
        object.__setattr__(self, "free", tuple(name for name in self.starts if name in free))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._shown())})"

    def _shown(self) -> list[str]:
        """Return the arguments of `__repr__`: "auto" stands for a number that data have not set."""
        out = []
        for entry in fields(self):
            given = getattr(self, entry.name)
            if entry.name in self.free and given == self.starts[entry.name]:
                out.append(f'{entry.name}="auto"')
            elif entry.name != "free":
                out.append(f"{entry.name}={given!r}")
        return out

    def number(self, name: str) -> float:
        """Return the current value of a number, whether it is free or not."""
        return float(getattr(self, name))

    # --- free parameters

    @property
    def one_read(self) -> bool:
        """Whether log p = factor * (T f - B A(f)) + c(y), so that the data are read once."""
        return False

    @property
    def offset_in_one_read(self) -> bool:
        """Whether offsets of rows can be taken into B and T."""
        return False

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the free parameters, all of them positive and trained as logarithms."""
        return self.free

    @property
    def values(self) -> Array:
        """The free parameters, in the order of ``parameters``."""
        return np.array([self.number(name) for name in self.free], dtype=np.float64)

    def with_values(self, values: Any) -> Self:
        """Return a copy with other values of the free parameters, which stay free."""
        return replace(self, **dict(zip(self.free, map(float, values), strict=True)))

    def limits(self) -> list[tuple[float, float]]:
        """Return (lower, upper) for every free parameter."""
        return [self.bounds[name] for name in self.free]

    # --- data

    @abstractmethod
    def check(self, y: Array, extra: Array | None = None, first_row: int = 0) -> None:
        """Raise ValueError unless all y, and their trials or events, are possible.

        The message has the number of bad rows, and the first five with their values; rows are
        counted from ``first_row``.
        """

    def _refuse(self, wrong: Array, values: Array, problem: str, first_row: int) -> None:
        """Raise ValueError if anything is wrong, with the problem and the first rows."""
        if np.any(wrong):
            raise BadRows.of(f"{type(self).__name__}: {problem}", values, wrong, first_row)

    def _check_counts(self, y: Array, first_row: int) -> None:
        """Raise ValueError unless y are whole numbers from zero on."""
        self._refuse(~np.isfinite(y), y, "y must contain finite numbers", first_row)
        self._refuse(y < 0.0, y, "y must contain non-negative counts", first_row)
        self._refuse(
            y != np.floor(y), y, "y must contain counts, that is, whole numbers", first_row
        )

    def _check_times(self, y: Array, event: Array | None, first_row: int) -> None:
        """Raise ValueError unless y are positive, and events, if given, zero or one."""
        self._refuse(~np.isfinite(y), y, "y must contain finite numbers", first_row)
        self._refuse(y <= 0.0, y, "y must contain positive numbers", first_row)
        most = SITES.extreme_units
        between = f"{1.0 / most:g} and {most:g}"
        problem = f"y must contain numbers between {between} (choose another unit)"
        self._refuse((y < 1.0 / most) | (y > most), y, problem, first_row)
        if event is not None:
            event = np.asarray(event, dtype=np.float64)
            problem = "event must contain 1 (observed) or 0 (censored)"
            self._refuse((event != 0.0) & (event != 1.0), event, problem, first_row)

    # --- expectations

    @abstractmethod
    def expected(
        self, y: Array, extra: Array | None, m: Array, v: Array
    ) -> tuple[Array, Array, Array]:
        """Return V = E log p(y | f) under f ~ N(m, v), dV/dm and -2 dV/dv, row by row."""

    def slopes(self, y: Array, extra: Array | None, m: Array, v: Array) -> Array:
        """Return dV / dlog(parameter) of every free parameter, as rows of a matrix."""
        return np.zeros((0, len(m)))

    def expected_and_slopes(
        self, y: Array, extra: Array | None, m: Array, v: Array
    ) -> tuple[Array, Array, Array, Array]:
        """Return what `expected` and `slopes` do, where both are needed."""
        return *self.expected(y, extra, m, v), self.slopes(y, extra, m, v)

    def robust_weights(
        self, y: Array, extra: Array | None, m: Array, v: Array
    ) -> tuple[Array, Array] | None:
        """Return slopes and positive weights for first steps, where those of V may be negative."""
        return None

    def working(self, y: Array, extra: Array | None, f: Array) -> tuple[Array, Array]:
        """Return slopes and weights at f, for working responses to begin with."""
        narrow = np.zeros(len(f))
        robust = self.robust_weights(y, extra, f, narrow)
        return self.expected(y, extra, f, narrow)[1:] if robust is None else robust

    # --- what one read keeps

    def _reads_again(self) -> TypeError:
        return TypeError(
            f"{self!r} reads the rows anew for every step: no sums can stand for them."
        )

    def _no_offset(self, offset: Array | None) -> None:
        """Raise ValueError if there are offsets, where the curve is not that of exp(f)."""
        if offset is not None and np.any(offset):
            raise ValueError(
                f"{self!r} cannot take offsets in one read: only exp(f + offset) is a product. "
                "Read the rows at every step instead."
            )

    def measure(
        self, y: Array, extra: Array | None, weight: Array | None, offset: Array | None
    ) -> tuple[Array, Array]:
        """Return masses B and linear parts T of rows, times their weights."""
        raise self._reads_again()

    def constants(
        self, y: Array, extra: Array | None, weight: Array | None, offset: Array | None
    ) -> Array:
        """Return what rows add to the sums that `constant` needs, of shape (sums, rows)."""
        raise self._reads_again()

    def constant(self, sums: Array) -> tuple[float, Array]:
        """Return the sum of c(y) and its derivatives by the logarithms of free parameters.

        Here it is the only one of the sums, and no parameter changes it.
        """
        if not self.one_read:
            raise self._reads_again()
        return float(sums[0]), np.zeros(0)

    @property
    def factor(self) -> float:
        """What T f - B A(f) is multiplied by."""
        return 1.0

    def factor_slopes(self) -> Array:
        """Return dlog(factor) / dlog(parameter)."""
        return np.zeros(len(self.parameters))

    def curve(self, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """Return the means of A(f), of its slope and of its second derivative under N(m, v)."""
        raise self._reads_again()

    def first_bend(self, shares: Array, bend: Array) -> Array:
        """Return second derivatives of A for first sites, where T / B has these means."""
        return bend

    def start_from_sums(self, linear: Array, mass: Array) -> Array:
        """Return f to start from where T and B have these sums, shrunken to the overall mean."""
        raise self._reads_again()

    # --- starts

    @abstractmethod
    def start(
        self, y: Array, extra: Array | None, weight: Array | None, offset: Array | None
    ) -> Array:
        """Return f to start from, row by row, less the offset: finite whatever y is."""

    def begin(
        self, y: Array, extra: Array | None, weight: Array | None, offset: Array | None
    ) -> Self:
        """Return a copy whose free parameters are started from data."""
        guess = self._guess(y, extra, weight, offset) if self.free else {}
        clipped = {
            name: float(np.clip(guess[name], *self.bounds[name]))
            for name in self.free
            if name in guess and np.isfinite(guess[name])
        }
        return replace(self, **clipped)

    def alternatives(self) -> Sequence[Family]:
        """Return copies with other free parameters, which training should look at, too.

        The first guess takes all scatter of y for its own, most of which may be the field's.
        """
        return [
            replace(self, **{name: factor * self.number(name)})
            for name in self.sharper
            for factor in (10.0, 100.0)
            if name in self.free and factor * self.number(name) < self.bounds[name][1]
        ]

    def _guess(
        self, y: Array, extra: Array | None, weight: Array | None, offset: Array | None
    ) -> dict[str, float]:
        """Return guesses of parameters from the moments of y."""
        return {}

    # --- new observations; m contains the offset

    @abstractmethod
    def response(self, f: Array, extra: Array | None = None) -> Array:
        """Return the mean of y given f."""

    @abstractmethod
    def _scatter(self, f: Array, extra: Array | None) -> Array:
        """Return the variance of y given f."""

    @abstractmethod
    def _share_below(self, y: Array, f: Array, extra: Array | None) -> Array:
        """Return P(Y <= y | f)."""

    @abstractmethod
    def _point(self, share: float, f: Array, extra: Array | None) -> Array:
        """Return the quantile of y given f."""

    @abstractmethod
    def sample(self, f: Array, rng: np.random.Generator, extra: Array | None = None) -> Array:
        """Return one draw of y for every f."""

    @abstractmethod
    def deviance(self, y: Array, mean: Array, extra: Array | None = None) -> Array:
        """Return unit deviances: twice what log p lacks with this mean to the best one."""

    def _sharpness(self, m: Array, v: Array, extra: Array | None) -> Array | float:
        """Return how finely P(Y <= y | f) varies with f: one over the squared distance."""
        return 1.0

    def response_moments(
        self, m: Array, v: Array, extra: Array | None = None
    ) -> tuple[Array, Array]:
        """Return mean and variance of the response under f ~ N(m, v)."""
        return mixture.moments(lambda f, rows: self.response(f, _column(extra, rows)), m, v)

    def variance(self, m: Array, v: Array, extra: Array | None = None) -> Array:
        """Return the variance of a new y under f ~ N(m, v)."""
        inner = mixture.expectation(
            lambda f, rows: self._scatter(f, _column(extra, rows)), m, v, 4.0
        )
        return inner + self.response_moments(m, v, extra)[1]

    def cdf(
        self, y: Array, m: Array, v: Array, extra: Array | None = None, below: bool = False
    ) -> Array:
        """Return P(Y <= y) of a new Y under f ~ N(m, v); with ``below`` P(Y < y)."""
        y = np.asarray(y, dtype=np.float64)
        if below and self.whole:
            y = np.ceil(y) - 1.0

        def function(f, rows):
            return self._share_below(y[rows, None], f, _column(extra, rows))

        return mixture.expectation(function, m, v, self._sharpness(m, v, extra))

    def quantiles(self, shares: Any, m: Array, v: Array, extra: Array | None = None) -> Array:
        """Return quantiles of a new y under f ~ N(m, v), of shape (rows, shares)."""
        shares = np.atleast_1d(np.asarray(shares, dtype=np.float64))
        if not np.all((shares > 0.0) & (shares < 1.0)):
            raise ValueError(f"Quantiles are of shares between 0 and 1, got {shares.tolist()}.")
        out = np.empty((len(m), len(shares)))
        s = np.sqrt(np.maximum(v, 0.0))
        for j, share in enumerate(shares):
            # With f this far down or up, less than a hundredth of either tail is left out.
            reach = -float(ndtri(0.01 * min(share, 1.0 - share)))
            low = self._point(0.99 * share, m - reach * s, extra)
            high = self._point(min(1.01 * share, 0.99 * share + 0.01), m + reach * s, extra)
            if self.whole:
                out[:, j] = mixture.first_whole(
                    lambda y, share=share: self.cdf(y, m, v, extra) - share, low - 1.0, high + 1.0
                )
            else:
                out[:, j] = self._from_line(
                    mixture.root(
                        lambda z, share=share: self.cdf(self._from_line(z), m, v, extra) - share,
                        self._to_line(low),
                        self._to_line(high),
                    )
                )
        return out

    def _to_line(self, y: Array) -> Array:
        """Return y, as far as it is positive only its logarithm, for a search of quantiles."""
        return np.log(np.maximum(y, 1e-300)) if self.support[0] == 0.0 else y

    def _from_line(self, z: Array) -> Array:
        """Return the inverse of `_to_line`."""
        return np.exp(z) if self.support[0] == 0.0 else z

    def log_predictive_density(
        self, y: Array, m: Array, v: Array, extra: Array | None = None
    ) -> Array:
        """Return the log density of new observations y under f ~ N(m, v)."""
        zero = np.zeros(len(m))
        return mixture.log_density(
            lambda f: self.expected(y, extra, f, zero), self.start(y, extra, None, None), m, v
        )


def _column(extra: Array | None, rows: Array) -> Array | None:
    """Return rows of a further column, to be combined with places beside them."""
    return None if extra is None else np.asarray(extra, dtype=np.float64)[rows, None]
