"""What a fitted model can be asked: predictions, everything linear, checks, attributes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from asvgp.basis import Array
from asvgp.checking import LeaveOneOut, leave_one_out
from asvgp.functionals import derivative as derivative_of
from asvgp.functionals import derivative_covariance, integrate
from asvgp.inference.fitting import Fit
from asvgp.inference.optimise import Report
from asvgp.inference.resolution import Level
from asvgp.inputs import Seen, read_inputs, read_targets, read_weights, read_widths
from asvgp.kernels import Effect, Kernel, in_time
from asvgp.paths import draw_paths, sample
from asvgp.posterior import Posterior
from asvgp.stats import Statistics
from asvgp.summary import Summary, summary
from asvgp.validation import finite_range


class ComponentPrediction(NamedTuple):
    """One component's part of a prediction."""

    kernel: Kernel | Effect
    mean: Array
    std: Array


class EffectEstimate(NamedTuple):
    """A fixed effect: its coefficient and the standard deviation of that."""

    name: str
    estimate: float | Array
    std: float


class Answers(ABC):
    """The part of `GPRegressor` that does not learn: it asks for the fit, and answers."""

    @abstractmethod
    def _fitted(self) -> Fit:
        """The model of the data seen, trained if it has not been yet."""

    @abstractmethod
    def _seen(self) -> Seen:
        """The data seen."""

    def predict(
        self,
        X,
        return_std=False,
        return_cov=False,
        include_noise=False,
        derivative=0,
        components=False,
        noise_variance=None,
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
            Also every component's and every fixed effect's mean and standard deviation.
        noise_variance : float or array-like of shape (n,), optional
            With ``include_noise``: that of the new observations, by default the model's.
            Needed where the data came with known noise variances.

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
        x, covariates = self._inputs(X)
        noise = self._new_noise(noise_variance, len(x)) if include_noise else 0.0

        def evaluate(component: int | None, variance: bool):
            if derivative:
                return derivative_of(posterior, x, derivative, variance, component)
            return posterior.predict(x, variance, component, covariates)

        mean, variance = evaluate(None, return_std)
        results = [self._shaped(mean)]
        if return_std:
            results.append(self._spread(variance + noise, mean))
        if return_cov:
            cov = (
                derivative_covariance(posterior, x, derivative)
                if derivative
                else posterior.covariance(x, covariates)
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
            if posterior.effects is not None:
                beta, spread_of = posterior.effects.given
                design = posterior.effect_values(x, covariates, power=derivative, centred=False)
                for number, effect in enumerate(self.kernel_.effects):
                    part = np.outer(beta[number], design[:, number])
                    spread = design[:, number] ** 2 * spread_of[number, number]
                    parts.append(
                        ComponentPrediction(effect, self._shaped(part), self._spread(spread, part))
                    )
            results.append(parts)
        return results[0] if len(results) == 1 else tuple(results)

    def _inputs(self, X) -> tuple[Array, Array | None]:
        """New inputs and covariates, of the kind seen."""
        data = self._seen()
        x, covariates = read_inputs(self, X, data.layout, data.axis)
        finite_range(x)
        return x, covariates

    def _new_noise(self, noise_variance, rows: int):
        """Noise variance of new observations."""
        if noise_variance is not None:
            weights = read_weights(None, noise_variance, rows)
            assert weights is not None
            return 1.0 / weights
        if self._seen().known_noise:
            raise ValueError(
                "The data came with known noise variances, so that of a new observation is not "
                "the model's to say: give noise_variance."
            )
        return self.noise_variance_

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

        Linear effects of columns other than the splines' input are left out.

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
            if not self._seen().single:
                spread = np.repeat(spread[:, :, None], len(mean), axis=2)
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
        posterior = self._fitted().posterior
        x, covariates = self._inputs(X)
        draws = sample(posterior, x, n_samples, random_state, covariates=covariates)
        return draws[0] if self._seen().single else draws.transpose(1, 0, 2)

    def sample_paths(self, n_samples=1, random_state=None, component=None):
        """Posterior sample paths over the domain, as callable `scipy.interpolate.BSpline` objects.

        A list of ``n_samples``; with several outputs a path is vector-valued. The argument
        of a path is in the units of X, seconds since ``time_origin_`` where X holds times;
        outside the domain it is NaN.
        ``component`` counts from zero. Linear effects of other columns are left out.
        """
        return draw_paths(self._fitted().posterior, n_samples, random_state, component)

    def leave_one_out(
        self, X, y, sample_weight=None, noise_variance=None, width=None
    ) -> LeaveOneOut:
        """Predictions of the training data, each without itself, at fixed hyperparameters.

        Weights and widths as in `fit`; what is predicted is what was observed, averages too.
        """
        data = self._seen()
        x, covariates = read_inputs(self, X, data.layout, data.axis)
        y = read_targets(y, len(x))
        data.check_convention(noise_variance)
        weights = read_weights(sample_weight, noise_variance, len(x))
        width = read_widths(width, len(x), data.axis)
        return leave_one_out(self._fitted().posterior, x, y, weights, covariates, width)

    def summary(self) -> Summary:
        """What was fitted and whether to believe it; print it."""
        return summary(self)

    def log_predictive_density(self, X, y, noise_variance=None):
        """Log density of new observations under the posterior, one number per row.

        Parameters
        ----------
        X : array-like of shape (n,) or (n, 1)
        y : array-like of shape (n,) or (n, outputs)
        noise_variance : float or array-like of shape (n,), optional
            As in `predict`.

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
        mean, std = self.predict(
            X, return_std=True, include_noise=True, noise_variance=noise_variance
        )
        y = read_targets(y, len(mean))
        if y.shape != mean.shape:
            raise ValueError(f"y has shape {y.shape}, the predictions have {mean.shape}.")
        density = -0.5 * np.log(2.0 * np.pi) - np.log(std) - 0.5 * ((y - mean) / std) ** 2
        return density if density.ndim == 1 else density.sum(axis=1)

    @property
    def kernel_(self) -> Kernel:
        """The kernel with trained hyperparameters; scales are durations where X holds times."""
        data = self._seen()
        kernel = data.layout.relabelled(self._fitted().kernel)
        return kernel if data.axis is None else in_time(kernel)

    @property
    def effects_(self) -> list[EffectEstimate]:
        """The fixed effects: coefficients per unit of their column, per second for times."""
        effects = self._fitted().posterior.effects
        if effects is None:
            return []
        beta, covariance = effects.given
        errors = np.sqrt(np.diag(covariance))
        single = self._seen().single
        own = getattr(self.kernel_.components[0], "dim", None)
        timed = self._seen().axis is not None
        names = [
            effect.name + (" per second" if timed and getattr(effect, "dim", 0) == own else "")
            for effect in self.kernel_.effects
        ]
        return [
            EffectEstimate(name, float(value[0]) if single else value, float(error))
            for name, value, error in zip(names, beta, errors, strict=True)
        ]

    @property
    def noise_variance_(self) -> float:
        """Noise variance of an observation of weight one."""
        return self._fitted().noise

    @property
    def elbo_(self) -> float:
        """Lower bound on the log evidence."""
        return self._fitted().elbo

    @property
    def evidence_(self) -> float:
        """Log evidence of the spline field itself: what ``objective="evidence"`` maximises."""
        return self._fitted().evidence

    @property
    def time_origin_(self):
        """The time that seconds are counted from, in paths; None where X holds numbers."""
        axis = self._seen().axis
        return None if axis is None else axis.origin

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
        return ends if data.axis is None else data.axis.span(*ends)

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
