"""The scikit-learn estimator: validates, orchestrates, holds no mathematics."""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from asvgp.basis import Grid
from asvgp.inference.bound import lower_bound, upper_bound
from asvgp.inference.optimise import LBFGS, Report
from asvgp.inference.resolution import TOLERANCE, choose, finest_cells
from asvgp.inference.start import mean_weight, noise_estimate, signal_power
from asvgp.inference.train import Problem, train
from asvgp.kernels import Kernel, Matern32
from asvgp.parallel import one_blas_thread
from asvgp.posterior import Posterior
from asvgp.progress import Progress
from asvgp.stats import Statistics
from asvgp.validation import (
    check_degree,
    check_domain,
    check_num_basis,
    check_one_input,
    check_settings,
    check_weights,
    finite_range,
)


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
    posterior_ : Posterior
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

    def fit(self, X, y, sample_weight=None) -> GPRegressor:
        """Fit to data.

        Parameters
        ----------
        X : array-like of shape (n,) or (n, 1)
            Any numeric type, any order; finite.
        y : array-like of shape (n,) or (n, outputs)
            NaN means missing. Several outputs share kernel, noise and X.
        sample_weight : array-like of shape (n,), optional
            Inverse relative noise variances: observation i has noise variance
            ``noise_variance_ / sample_weight[i]``.

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
        columns = {name: vars(self).get(name) for name in ("n_features_in_", "feature_names_in_")}
        try:
            return self._fit(X, y, sample_weight)
        except BaseException:  # what was fitted before stays as it was
            for name, value in columns.items():
                vars(self).pop(name, None)
                if value is not None:
                    setattr(self, name, value)
            raise

    def _fit(self, X, y, sample_weight) -> GPRegressor:
        begin = time.perf_counter()
        check_settings(self)
        degrees = check_degree(self.degree, self.kernel)
        degree = max(degrees)
        num_basis = check_num_basis(self.num_basis, degree)
        x = self._inputs(X, reset=True)
        y = self._targets(y, len(x))
        weights = check_weights(sample_weight, len(x))
        lower, upper = finite_range(x)
        domain = check_domain(self.domain, x, lower, upper)
        cells = finest_cells(x, *domain) if num_basis is None else num_basis - degree
        progress = Progress(self.progress)
        try:
            stats = Statistics.from_data(
                x, y, Grid(*domain, cells), degree, weights, progress.passing(len(x))
            )
            self._check_observed(stats, y)
            passed = time.perf_counter()
            with one_blas_thread:
                stats, (kernel, noise), report = self._train(stats, degrees, num_basis, progress)
        finally:
            progress.close()
        trained = time.perf_counter()
        model = (kernel, noise, stats, degrees)
        try:
            posterior, elbo, above = _factored(model)
        except KeyboardInterrupt:  # training is done: what is left is short, so finish it
            report.converged, report.interrupted = False, True
            report.message = "interrupted; the best state so far is kept"
            posterior, elbo, above = _factored(model)

        self.kernel_, self.noise_variance_ = kernel, noise
        self.elbo_, self.evidence_upper_bound_ = elbo, above
        self.num_basis_ = stats.grid.cells + degree
        self.domain_ = domain
        self.stats_, self.posterior_ = stats, posterior
        self.optimization_ = report
        self._single_output = y.ndim == 1
        self.timings_ = {
            "pass": passed - begin,
            "training": trained - passed,
            "posterior": time.perf_counter() - trained,
        }
        if not report.converged:
            warnings.warn(
                f"Training did not converge: {report.message}. The best state found is used: "
                f"{kernel!r}, noise variance {noise:.4g}.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _train(self, stats: Statistics, degree, num_basis: int | None, progress: Progress):
        """Statistics at the resolution to use, the state to use there, and the report."""
        noise = None if self.noise_variance == "auto" else float(self.noise_variance)
        settings = self.optimizer if isinstance(self.optimizer, LBFGS) else LBFGS()
        problem = Problem(self.kernel, noise, degree, self.objective, settings, progress.training)
        given = None
        if self.optimizer is None:
            given = (self.kernel, noise if noise is not None else noise_estimate(stats))
        if num_basis is None:
            choice = choose(problem, stats, given)
            if choice.stats is stats and choice.gain > 10.0 * TOLERANCE:
                warnings.warn(
                    f"The automatic resolution stopped at {stats.grid.cells + stats.degree} basis "
                    f"functions, the last doubling having gained {choice.gain:.3g} nats per "
                    "datum. Give a larger num_basis if the fit should be finer.",
                    UserWarning,
                    stacklevel=3,
                )
            return choice.stats, choice.state, choice.report
        if given is not None:
            return stats, given, Report()
        state, report = train(problem, stats)
        return stats, state, report

    def _inputs(self, X, reset: bool = False):
        """One column of X, in the type it came in."""
        if np.ma.is_masked(X):
            rows = np.flatnonzero(np.ma.getmaskarray(X).reshape(len(X), -1).any(axis=1))
            raise ValueError(
                f"X is masked in {len(rows)} of {len(X)} rows ({', '.join(map(str, rows[:5]))}"
                f"{', ...' if len(rows) > 5 else ''}). Drop those rows."
            )
        if not hasattr(X, "shape") or getattr(X, "ndim", 2) == 1:
            X = np.asarray(X)
            X = X.reshape(-1, 1) if X.ndim == 1 else X
        if getattr(X, "dtype", np.dtype(float)).kind in "mM":
            check_one_input(X)
        X = validate_data(
            self,
            X,  # pyright: ignore[reportArgumentType]
            reset=reset,
            dtype="numeric",
            ensure_all_finite=False,
        )
        X = np.asarray(X)
        check_one_input(X)
        return X[:, 0]

    def _targets(self, y, length: int):
        """Y as given, checked for shape and type."""
        if y is None:
            raise ValueError("GPRegressor requires y to be passed, but the target y is None.")
        if np.ma.is_masked(y):
            y = np.ma.asarray(y, dtype=float).filled(np.nan)
        y = check_array(
            y, ensure_2d=False, dtype="numeric", ensure_all_finite=False, input_name="y"
        )
        if y.dtype.kind not in "fiub" or y.ndim > 2 or y.ndim == 0:
            raise ValueError(
                f"y must be numbers of shape (n,) or (n, outputs), got dtype {y.dtype} and "
                f"shape {y.shape}."
            )
        if len(y) != length:
            raise ValueError(
                f"X and y have inconsistent numbers of samples: {length} and {len(y)}."
            )
        return y

    def _check_observed(self, stats: Statistics, y) -> None:
        """What the pass found: missing, infinite or constant targets."""
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
                stacklevel=3,
            )
        power, weight = signal_power(stats), mean_weight(stats)
        if not 1e-250 < power * weight < 1e250:
            raise ValueError(
                f"y has a root mean square of {power**0.5:.3g} (and mean weight {weight:.3g}), "
                "which double precision cannot work with. Rescale y, or drop what is zero "
                "throughout."
            )
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
                stacklevel=3,
            )

    def predict(self, X, return_std=False, return_cov=False, include_noise=False):
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

        Returns
        -------
        mean : ndarray of shape (n,) or (n, outputs)
        std : ndarray of the same shape, with ``return_std``
        cov : ndarray of shape (n, n) or (n, n, outputs), with ``return_cov``

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
        check_is_fitted(self)
        x = self._inputs(X)
        finite_range(x)
        mean, variance = self.posterior_.predict(x, variance=return_std)
        noise = self.noise_variance_ if include_noise else 0.0
        result = self._shaped(mean)
        if return_std:
            std = np.sqrt(variance + noise)
            return result, np.ascontiguousarray(self._shaped(np.broadcast_to(std, mean.shape)))
        if return_cov:
            cov = self.posterior_.covariance(x)
            cov[np.diag_indices_from(cov)] += noise
            if not self._single_output:
                cov = np.repeat(cov[:, :, None], len(mean), axis=2)
            return result, cov
        return result

    def _shaped(self, values):
        """(outputs, n) as scikit-learn has it."""
        return values[0] if self._single_output else values.T

    def __sklearn_tags__(self):
        """One input for now: the score on the first of many columns says little."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

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
        y = self._targets(y, len(mean))
        if y.shape != mean.shape:
            raise ValueError(f"y has shape {y.shape}, the predictions have {mean.shape}.")
        density = -0.5 * np.log(2.0 * np.pi) - np.log(std) - 0.5 * ((y - mean) / std) ** 2
        return density if density.ndim == 1 else density.sum(axis=1)


def _factored(model) -> tuple[Posterior, float, float]:
    """The posterior and both bounds, from one factorisation."""
    posterior = Posterior(*model)
    elbo = lower_bound(*model, chain=posterior.chain).elbo
    # With next to no noise the two meet, and only rounding could exchange them.
    return posterior, elbo, max(elbo, upper_bound(*model, chain=posterior.chain))
