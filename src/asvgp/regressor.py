"""The scikit-learn estimator: validates, orchestrates, holds no mathematics."""

from __future__ import annotations

import time
import warnings
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from asvgp.basis import Array, Grid
from asvgp.checking import LeaveOneOut, leave_one_out
from asvgp.functionals import derivative as derivative_of
from asvgp.functionals import derivative_covariance, integrate
from asvgp.inference.fitting import Fit, fit_statistics
from asvgp.inference.optimise import LBFGS, Report
from asvgp.inference.resolution import FIRST, Level, finest_cells
from asvgp.inference.start import mean_weight, signal_power
from asvgp.inference.train import Problem
from asvgp.inputs import read_inputs, read_range, read_targets, read_weights
from asvgp.kernels import Kernel, Matern32, check_units, in_time
from asvgp.parallel import one_blas_thread
from asvgp.paths import draw_paths, sample
from asvgp.posterior import Posterior
from asvgp.progress import Progress
from asvgp.stats import Statistics
from asvgp.summary import Summary, summary
from asvgp.times import TimeAxis, is_time
from asvgp.validation import (
    check_degree,
    check_domain,
    check_num_basis,
    check_settings,
    finite_range,
)


class ComponentPrediction(NamedTuple):
    """One component's part of a prediction."""

    kernel: Kernel
    mean: Array
    std: Array


class GPRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Gaussian process regression by actually sparse B-splines.

    One pass over the data, then everything costs O(num_basis), however many observations
    there are. The prior mean is zero.

    Parameters
    ----------
    kernel : Kernel, default=Matern32()
        Its hyperparameters are one of the starting points of training, beside those that
        the data suggest; with ``optimizer=None`` they are used as given.
    num_basis : "auto" or int
        Number of B-splines. "auto" refines until the bound stops improving.
    noise_variance : "auto" or float
        Starting value of the noise variance, kept fixed with ``optimizer=None``.
    domain : None or (float, float)
        Interval of the splines; by default the range of X, to its very ends.
    degree : None or int
        Spline degree, by default the smallest the kernel allows. One more converges faster
        in ``num_basis`` and costs half as much again.
    objective : {"elbo", "evidence"}
        What training maximises: the lower bound on the evidence, or the evidence of the
        spline field itself (the bound without its trace term).
    optimizer : "lbfgs", LBFGS or None
        None keeps all hyperparameters as given.
    device : {"cpu"}
    progress : {"auto", True, False}
        Progress on standard error for work of more than two seconds; "auto": on a
        terminal.

    Attributes
    ----------
    kernel_ : Kernel
        With trained hyperparameters.
    noise_variance_ : float
    elbo_, evidence_upper_bound_ : float
        The log evidence of the exact Gaussian process lies between the two.
    num_basis_ : int
    domain_ : tuple of float
    stats_ : Statistics
        Of all data seen; they add, subtract and coarsen.
    posterior_ : Posterior
    resolution_ : list of Level
        What every resolution that was tried reached.
    optimization_ : Report
        How training went; print it.
    timings_ : dict
        Seconds per stage.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import GPRegressor, Matern52
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(0, 10, 100_000)
    >>> y = np.sin(x) + 0.1 * rng.standard_normal(100_000)
    >>> gp = GPRegressor(Matern52()).fit(x, y)
    >>> mean, std = gp.predict([5.0, 12.0], return_std=True)
    >>> bool(abs(mean[0] - np.sin(5.0)) < 4 * std[0])
    True
    >>> round(gp.noise_variance_, 3)
    0.01
    >>> gp.elbo_ <= gp.evidence_upper_bound_
    True
    """

    def __init__(
        self,
        kernel: Kernel = Matern32(),  # noqa: B008 (kernels are immutable)
        *,
        num_basis="auto",
        noise_variance="auto",
        domain=None,
        degree=None,
        objective="elbo",
        optimizer="lbfgs",
        device="cpu",
        progress="auto",
    ):
        self.kernel = kernel
        self.num_basis = num_basis
        self.noise_variance = noise_variance
        self.domain = domain
        self.degree = degree
        self.objective = objective
        self.optimizer = optimizer
        self.device = device
        self.progress = progress

    def fit(self, X, y, sample_weight=None, noise_variance=None) -> GPRegressor:
        """Fit to data, forgetting what was fitted before.

        Parameters
        ----------
        X : array-like of shape (n,) or (n, 1)
            Numbers or times, in any order.
        y : array-like of shape (n,) or (n, outputs)
            NaN means missing. Several outputs share kernel, noise and X.
        sample_weight : array-like of shape (n,), optional
            Inverse relative noise variances: observation i has noise variance
            ``noise_variance_ / sample_weight[i]``.
        noise_variance : array-like of shape (n,), optional
            Known noise variances of the observations; nothing is then estimated of them,
            and ``noise_variance_`` is one, a factor that they all share.

        Returns
        -------
        GPRegressor
            Itself.

        Examples
        --------
        >>> from asvgp import GPRegressor, Matern32
        >>> gp = GPRegressor(Matern32(2.0), num_basis=20, noise_variance=0.1, optimizer=None)
        >>> gp.fit([0, 1, 2, 3], [0.0, 1.0, 0.5, -0.5]).num_basis_
        20
        """
        before = dict(vars(self))
        try:
            for name in ("_data", "_fit_now", "_warm"):
                vars(self).pop(name, None)
            self._absorb(X, y, sample_weight, noise_variance)
            self._fitted()
        except BaseException:  # what was fitted before stays as it was
            vars(self).clear()
            vars(self).update(before)
            raise
        return self

    def partial_fit(self, X, y, sample_weight=None, noise_variance=None) -> GPRegressor:
        """Add data to those seen before; training waits until something is asked for.

        The statistics are those of all data at once, in whatever order and portions they
        came. Where new inputs lie outside the domain, it grows by whole knot intervals.
        Parameters as in `fit`.

        Examples
        --------
        >>> import numpy as np
        >>> from asvgp import GPRegressor
        >>> x = np.linspace(0, 10, 1000)
        >>> gp = GPRegressor(num_basis=100)
        >>> for part in np.split(x, 4):
        ...     _ = gp.partial_fit(part, np.sin(part))
        >>> gp.stats_.count
        1000
        """
        before = dict(vars(self))
        try:
            self._absorb(X, y, sample_weight, noise_variance)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise
        return self

    def forget(self, X, y, sample_weight=None, noise_variance=None) -> GPRegressor:
        """Take out data that were added before, with the weights they had.

        Examples
        --------
        >>> import numpy as np
        >>> from asvgp import GPRegressor
        >>> x = np.linspace(0, 10, 1000)
        >>> gp = GPRegressor(num_basis=100).fit(x, np.sin(x))
        >>> gp.forget(x[:300], np.sin(x[:300])).stats_.count
        700
        """
        data = self._seen()
        x, y = self._read(X, y)
        data.check_convention(noise_variance)
        weights = read_weights(sample_weight, noise_variance, len(x))
        lower, upper = finite_range(x)
        grid = data.stats.grid
        if lower < grid.lower or upper > grid.upper:
            raise ValueError(
                f"These data cannot be forgotten, because they were never added: X from {lower:g} "
                f"to {upper:g} is outside the domain {self.domain_}."
            )
        old = Statistics.from_data(x, y, grid, data.stats.degree, weights)
        self._replace(data._replace(stats=data.stats - old))
        return self

    def merge(self, other: GPRegressor) -> GPRegressor:
        """Add the data of another model of the same domain, num_basis and degree.

        Examples
        --------
        >>> import numpy as np
        >>> from asvgp import GPRegressor
        >>> x = np.linspace(0, 10, 1000)
        >>> a, b = (GPRegressor(num_basis=100, domain=(0, 10)) for _ in range(2))
        >>> _ = a.fit(x[:500], np.sin(x[:500])), b.fit(x[500:], np.sin(x[500:]))
        >>> a.merge(b).stats_.count
        1000
        """
        mine, theirs = self._seen(), other._seen()
        if mine.known_noise != theirs.known_noise:
            raise ValueError(
                "One of the models knows its noise variances and the other has relative weights: "
                "their statistics do not add."
            )
        if mine.axis != theirs.axis:
            raise ValueError(
                f"The models count time from different origins, {mine.axis} and {theirs.axis}. "
                "Give both the same domain."
            )
        self._replace(mine._replace(stats=mine.stats + theirs.stats))
        return self

    def _absorb(self, X, y, sample_weight, noise_variance) -> None:
        """One pass over new data into the statistics."""
        begin = time.perf_counter()
        check_settings(self)
        degrees = check_degree(self.degree, self.kernel)
        degree = max(degrees)
        num_basis = check_num_basis(self.num_basis, degree)
        data = vars(self).get("_data")
        axis = data.axis if data else (TimeAxis.from_values(X) if is_time(X) else None)
        check_units(self.kernel, axis is not None)
        x, y = self._read(X, y, axis, reset=data is None)
        weights = read_weights(sample_weight, noise_variance, len(x))
        lower, upper, domain = read_range(x, self.domain, axis)
        if data is None:
            domain = check_domain(domain, x, lower, upper)
            cells = finest_cells(x, *domain) if num_basis is None else num_basis - degree
            data = _Data(
                Statistics.empty(Grid(*domain, cells), degree, 1 if y.ndim == 1 else y.shape[1]),
                axis,
                noise_variance is not None,
                y.ndim == 1,
            )
        else:
            data.check_convention(noise_variance)
            data = data._replace(stats=self._grown(data.stats, x, lower, upper, domain))
        progress = Progress(self.progress)
        try:
            new = Statistics.from_data(
                x, y, data.stats.grid, degree, weights, progress.passing(len(x))
            )
        finally:
            progress.close()
        self._check_finite(new, y)
        total = new if data.stats.count == 0 else data.stats + new
        if data.stats.count == 0:
            self._check_variation(total, y)
        self._replace(
            data._replace(stats=total, seconds=data.seconds + time.perf_counter() - begin)
        )

    def _grown(self, stats: Statistics, x, lower: float, upper: float, domain) -> Statistics:
        """The statistics on a grid that holds the new inputs too."""
        if domain is not None:
            check_domain(domain, x, lower, upper)
            return stats
        keep = stats.grid.cells // FIRST if self.num_basis == "auto" else 1
        return stats.extend(lower, upper, max(1, keep))

    def _read(self, X, y, axis: TimeAxis | None = None, reset: bool = False):
        axis = axis if reset else (self._seen().axis if "_data" in vars(self) else axis)
        x = read_inputs(self, X, axis, reset)
        return x, read_targets(y, len(x))

    def _replace(self, data: _Data) -> None:
        """New statistics: what was learnt from the old is a start, no more."""
        fitted = vars(self).pop("_fit_now", None)
        if fitted is not None:
            self._warm = (fitted.kernel, fitted.noise)
        self._data = data

    def _seen(self) -> _Data:
        if "_data" not in vars(self):
            raise NotFittedError(
                f"This {type(self).__name__} has seen no data. Call fit or partial_fit first."
            )
        return self._data

    def _fitted(self) -> Fit:
        """The model of the data seen, trained if it has not been yet."""
        data = self._seen()
        if "_fit_now" not in vars(self):
            degrees = check_degree(self.degree, self.kernel)
            noise = None if self.noise_variance == "auto" else float(self.noise_variance)
            progress = Progress(self.progress)
            problem = Problem(
                self.kernel,
                1.0 if data.known_noise else noise,
                degrees,
                self.objective,
                self.optimizer if isinstance(self.optimizer, LBFGS) else LBFGS(),
                progress.training,
                data.known_noise,
            )
            if data.stats.count == 0:
                raise ValueError("There are no observations left to fit.")
            try:
                with one_blas_thread:
                    fitted = fit_statistics(
                        problem,
                        data.stats,
                        auto=check_num_basis(self.num_basis, max(degrees)) is None,
                        trained=self.optimizer is not None,
                        warm=vars(self).get("_warm"),
                    )
            finally:
                progress.close()
            self._fit_now = fitted
            self._announce(fitted)
        return self._fit_now

    def _announce(self, fitted: Fit) -> None:
        """Warnings about how training went."""
        report = fitted.report
        if not report.converged:
            warnings.warn(
                f"Training did not converge: {report.message}. The best state found is used: "
                f"{self.kernel_!r}, noise variance {fitted.noise:.4g}.",
                ConvergenceWarning,
                stacklevel=4,
            )
        for note in report.notes:
            warnings.warn(note[0].upper() + note[1:] + ".", UserWarning, stacklevel=4)

    def _check_finite(self, stats: Statistics, y) -> None:
        """What the pass found: missing, infinite or unusable targets."""
        if not np.all(np.isfinite(stats.squares)):
            rows = np.asarray(y, dtype=float).reshape(len(y), -1)
            with np.errstate(over="ignore"):
                bad = np.flatnonzero(np.isinf(rows**2).any(axis=1))
            raise ValueError(
                "Input y contains infinity or a value too large for dtype('float64') to be "
                f"squared. First rows: {', '.join(map(str, bad[:5]))}."
            )
        if stats.count == 0:
            raise ValueError(f"All {stats.missing} values of y are NaN: nothing to fit.")
        if stats.missing:
            warnings.warn(
                f"{stats.missing} of {stats.missing + stats.count} rows have y = NaN and are "
                "left out as missing.",
                UserWarning,
                stacklevel=4,
            )
        power, weight = signal_power(stats), mean_weight(stats)
        if not (power == 0.0 and self.noise_variance != "auto") and not (
            1e-250 < power * weight < 1e250
        ):
            raise ValueError(
                f"y has a root mean square of {power**0.5:.3g} (and mean weight {weight:.3g}), "
                "which double precision cannot work with. Rescale y, or drop what is zero "
                "throughout."
            )

    def _check_variation(self, stats: Statistics, y) -> None:
        """Whether there is something to train on."""
        if self.optimizer is None:
            return
        means = stats.targets[:, :, 0].sum(axis=1) / stats.weight
        spread = stats.squares / stats.weight - means**2
        if np.all(spread <= 1e-9 * means**2):  # the sums only raise the suspicion
            low, high = np.nanmin(y), np.nanmax(y)
            if low == high:
                raise ValueError(
                    f"y is constant ({low:g}, n_samples = {stats.count}): there is nothing to "
                    "train a kernel on. Fix the hyperparameters with optimizer=None and a "
                    "noise_variance."
                )
        if np.any(means**2 > 1e4 * spread):
            worst = int(np.argmax(means**2 / np.maximum(spread, 1e-300)))
            warnings.warn(
                f"y has a mean of {means[worst]:g}, more than a hundred times its standard "
                "deviation, and the prior mean is zero. Subtract it from y before fitting.",
                UserWarning,
                stacklevel=4,
            )

    def predict(
        self,
        X,
        return_std=False,
        return_cov=False,
        include_noise=False,
        derivative=0,
        components=False,
    ):
        """Posterior mean, with standard deviation or covariance, anywhere on the line.

        Outside the domain the forecast is exact: mean and variance return to the prior's
        as the kernel forgets.

        Parameters
        ----------
        X : array-like of shape (n,) or (n, 1)
        return_std, return_cov : bool
            At most one of them.
        include_noise : bool
            Uncertainty of a new observation (of weight one) rather than of f.
        derivative : int
            Of f, as often as the kernel is differentiable; per second where X holds times.
        components : bool
            Also every component's mean and standard deviation.

        Returns
        -------
        mean : ndarray of shape (n,) or (n, outputs)
        std : ndarray of the same shape, with ``return_std``
        cov : ndarray of shape (n, n) or (n, n, outputs), with ``return_cov``
        components : list of ComponentPrediction, with ``components``

        Examples
        --------
        >>> from asvgp import GPRegressor, Matern12
        >>> gp = GPRegressor(Matern12(), num_basis=9, noise_variance=0.1, optimizer=None)
        >>> mean, std = gp.fit([0, 1, 2], [-1.0, 0.0, 1.0]).predict([99.0], return_std=True)
        >>> mean.round(6).tolist(), std.round(6).tolist()
        ([0.0], [1.0])
        """
        if return_std and return_cov:
            raise ValueError("At most one of return_std and return_cov can be asked for.")
        if derivative and include_noise:
            raise ValueError("A derivative is of f: there is no noise to include.")
        posterior = self._fitted().posterior
        x = read_inputs(self, X, self._seen().axis)
        finite_range(x)
        noise = self.noise_variance_ if include_noise else 0.0

        def evaluate(component: int | None, variance: bool):
            if derivative:
                return derivative_of(posterior, x, derivative, variance, component)
            return posterior.predict(x, variance, component)

        mean, variance = evaluate(None, return_std)
        results = [self._shaped(mean)]
        if return_std:
            results.append(self._spread(variance + noise, mean))
        if return_cov:
            cov = (
                derivative_covariance(posterior, x, derivative)
                if derivative
                else posterior.covariance(x)
            )
            cov[np.diag_indices_from(cov)] += noise
            if not self._seen().single:
                cov = np.repeat(cov[:, :, None], len(mean), axis=2)
            results.append(cov)
        if components:
            parts = []
            for number, kernel in enumerate(self.kernel_.components):
                part, spread = evaluate(number, True)
                parts.append(
                    ComponentPrediction(kernel, self._shaped(part), self._spread(spread, part))
                )
            results.append(parts)
        return results[0] if len(results) == 1 else tuple(results)

    def _shaped(self, values):
        """(outputs, n) as scikit-learn has it."""
        return values[0] if self._seen().single else values.T

    def _spread(self, variance, mean):
        """Standard deviations in the shape of the mean."""
        wide = np.broadcast_to(np.sqrt(variance), mean.shape)
        return np.ascontiguousarray(self._shaped(wide))

    def integrate(self, a, b, return_std=False, return_cov=False, average=False):
        """Integral of f over intervals, or its average over them.

        Parameters
        ----------
        a, b : scalars or array-like of shape (m,)
            The ends, anywhere on the line.
        return_std, return_cov : bool
            At most one of them.
        average : bool
            Divide by the length.

        Examples
        --------
        >>> import numpy as np
        >>> from asvgp import GPRegressor, Matern52
        >>> x = np.linspace(0, np.pi, 500)
        >>> gp = GPRegressor(Matern52(), num_basis=100).fit(x, np.sin(x))
        >>> round(float(gp.integrate(0.0, np.pi)), 3)
        2.0
        """
        if return_std and return_cov:
            raise ValueError("At most one of return_std and return_cov can be asked for.")
        axis, posterior = self._seen().axis, self._fitted().posterior
        scalar = np.ndim(a) == 0 and np.ndim(b) == 0
        low, high = (
            np.atleast_1d(axis.to_seconds(np.atleast_1d(end)) if axis else np.asarray(end, float))
            for end in (a, b)
        )
        mean, spread = integrate(posterior, low, high, average, covariance=return_cov)
        result = self._shaped(mean)
        result = result[0] if scalar else result
        if return_cov:
            return result, spread
        if return_std:
            std = self._spread(spread, mean)
            return result, std[0] if scalar else std
        return result

    def sample_y(self, X, n_samples=1, random_state=None):
        """Joint samples of f at X: shape (n, n_samples) or (n, outputs, n_samples).

        Examples
        --------
        >>> from asvgp import GPRegressor, Matern12
        >>> gp = GPRegressor(Matern12(), num_basis=9, noise_variance=0.1, optimizer=None)
        >>> gp.fit([0, 1, 2], [1.0, 0.0, -1.0]).sample_y([0.5, 9.0], 5, random_state=0).shape
        (2, 5)
        """
        x = read_inputs(self, X, self._seen().axis)
        finite_range(x)
        draws = sample(self._fitted().posterior, x, n_samples, random_state)
        return draws[0] if self._seen().single else draws.transpose(1, 0, 2)

    def sample_paths(self, n_samples=1, random_state=None, component=None):
        """Posterior sample paths over the domain, as callable `scipy.interpolate.BSpline` objects.

        A list of ``n_samples``; with several outputs a path is vector-valued. The argument
        of a path is in the units of X, seconds since the first time where X holds times.
        ``component`` counts from zero.
        """
        return draw_paths(self._fitted().posterior, n_samples, random_state, component)

    def leave_one_out(self, X, y, sample_weight=None, noise_variance=None) -> LeaveOneOut:
        """Predictions of the training data, each without itself, at fixed hyperparameters."""
        x, y = self._read(X, y)
        weights = read_weights(sample_weight, noise_variance, len(x))
        return leave_one_out(self._fitted().posterior, x, y, weights)

    def summary(self) -> Summary:
        """What was fitted and whether to believe it; print it."""
        return summary(self)

    def log_predictive_density(self, X, y):
        """Log density of new observations under the posterior, one number per row.

        Parameters
        ----------
        X : array-like of shape (n,) or (n, 1)
        y : array-like of shape (n,) or (n, outputs)

        Returns
        -------
        ndarray of shape (n,)
            Summed over outputs. Its negative mean is the NLPD.

        Examples
        --------
        >>> from asvgp import GPRegressor, Matern12
        >>> gp = GPRegressor(Matern12(), num_basis=9, noise_variance=0.1, optimizer=None)
        >>> gp.fit([0, 1, 2], [1.0, 0.0, -1.0]).log_predictive_density([99.0], [0.0]).round(3)
        array([-0.967])
        """
        mean, std = self.predict(X, return_std=True, include_noise=True)
        y = read_targets(y, len(mean))
        if y.shape != mean.shape:
            raise ValueError(f"y has shape {y.shape}, the predictions have {mean.shape}.")
        density = -0.5 * np.log(2.0 * np.pi) - np.log(std) - 0.5 * ((y - mean) / std) ** 2
        return density if density.ndim == 1 else density.sum(axis=1)

    @property
    def kernel_(self) -> Kernel:
        """The kernel with trained hyperparameters; scales are durations where X holds times."""
        kernel = self._fitted().kernel
        return kernel if self._seen().axis is None else in_time(kernel)

    @property
    def noise_variance_(self) -> float:
        """Noise variance of an observation of weight one."""
        return self._fitted().noise

    @property
    def elbo_(self) -> float:
        """Lower bound on the log evidence."""
        return self._fitted().elbo

    @property
    def evidence_upper_bound_(self) -> float:
        """Upper bound on the log evidence."""
        return self._fitted().upper

    @property
    def num_basis_(self) -> int:
        """Number of basis functions, of each component."""
        stats = self._fitted().posterior.stats
        return stats.grid.cells + stats.degree

    @property
    def domain_(self) -> tuple:
        """The interval of the splines."""
        data = self._seen()
        ends = (data.stats.grid.lower, data.stats.grid.upper)
        return ends if data.axis is None else tuple(data.axis.to_times(np.array(ends)))

    @property
    def stats_(self) -> Statistics:
        """Sufficient statistics of all data seen."""
        return self._seen().stats

    @property
    def posterior_(self) -> Posterior:
        """The factored posterior."""
        return self._fitted().posterior

    @property
    def optimization_(self) -> Report:
        """How training went."""
        return self._fitted().report

    @property
    def resolution_(self) -> list[Level]:
        """What every resolution that was tried reached."""
        return self._fitted().resolution

    @property
    def timings_(self) -> dict[str, float]:
        """Seconds per stage."""
        return {"pass": self._seen().seconds, **self._fitted().timings}

    def __sklearn_is_fitted__(self) -> bool:
        return "_data" in vars(self)

    def __sklearn_tags__(self):
        """One input for now: the score on the first of many columns says little."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


class _Data(NamedTuple):
    """What was seen: the statistics, and how to read more of the same kind."""

    stats: Statistics
    axis: TimeAxis | None
    known_noise: bool
    single: bool  # y came as a vector
    seconds: float = 0.0

    def check_convention(self, noise_variance) -> None:
        """Known noise variances and relative weights do not mix."""
        if self.known_noise != (noise_variance is not None):
            raise ValueError(
                "The data so far came "
                + ("with" if self.known_noise else "without")
                + " known noise variances, these come the other way: statistics with different "
                "conventions for the weights do not add."
            )
