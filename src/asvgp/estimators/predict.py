"""The part of an estimator that does not learn: predictions, functionals, checks, attributes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import r2_score

from asvgp.basis import Array
from asvgp.data.columns import Gridded
from asvgp.data.inputs import as_rows, read_targets, read_weights
from asvgp.data.settings import Settings
from asvgp.diagnostics.summary import Summary, summary
from asvgp.estimators.portable import Predictor
from asvgp.kernels import Effect, Kernel
from asvgp.likelihoods import Gaussian, Likelihood
from asvgp.posterior.integrals import integrate
from asvgp.posterior.leave_one_out import LeaveOneOut, leave_one_out
from asvgp.posterior.posterior import Posterior
from asvgp.runtime.memory import as_bytes
from asvgp.runtime.progress import Progress
from asvgp.sources.answers import in_memory, source_to_predict
from asvgp.sources.source import Chunk, Source, is_source, source_for
from asvgp.statistics import Statistics
from asvgp.structures.fit_data import FitData
from asvgp.training.fit import Fit
from asvgp.training.optimise import Report
from asvgp.training.problem import Level


class ComponentPrediction(NamedTuple):
    """The contribution of one component to a prediction."""

    kernel: Kernel | Effect
    mean: Array
    std: Array


class EffectEstimate(NamedTuple):
    """A fixed effect: its coefficient and the standard deviation of the coefficient."""

    name: str
    estimate: float | Array
    std: float


def _on_grid(values: Array, shape: tuple[int, ...] | None) -> Array:
    """Return values of rows in the shape of the grid whose points they are."""
    return values if shape is None else values.reshape(*shape, *values.shape[1:])


def _grid_shape(X) -> tuple[int, ...] | None:
    """Return the shape of the grid whose axes X holds; None for other X."""
    grid = None if isinstance(X, Gridded) else Gridded.of(X)
    return None if grid is None else grid.shape


def _flat(X):
    """Return axes as their grid, or as the only column; other X as they are."""
    grid = Gridded.of(X)
    return X if grid is None else grid.plain


class PredictMixin(ABC):
    """The part of `GPRegressor` that does not learn: it asks for the fit, and answers."""

    kernel: Kernel | None
    memory_limit: float | str | None
    progress: Any

    @abstractmethod
    def _fitted(self) -> Fit:
        """Return the model of the data so far, trained if it has not been yet."""

    @abstractmethod
    def _fit_data(self) -> FitData:
        """Return the data so far."""

    @abstractmethod
    def _settings(self) -> Settings:
        """Return the constructor's arguments, checked."""

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
        """Predict f: its posterior mean, with standard deviation or covariance, anywhere.

        Outside the domain the forecast is exact: mean and variance return to the prior's
        as the kernel forgets.

        Parameters
        ----------
        X : array-like of shape (n,) or (n, columns), axes of a grid, or source
            A tuple of one-dimensional arrays, or a dict of them by name, holds the axes of a
            grid: means and standard deviations have its shape.
            Of a source (see `asvgp.scan`), and of a frame where the model was fitted to one,
            only the columns that the model needs are read, by name.
        return_std, return_cov : bool
            At most one of them.
        include_noise : bool
            Uncertainty of a new observation (of weight one) rather than of f.
        derivative : int, or dict of columns and orders
            Of f, as often as the kernel is differentiable; per second where X holds times. With
            several inputs say along which: ``{"lon": 1}``.
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
        frame, reader of Arrow record batches, or xarray.Dataset
            Instead of all these, of a source: in kind, with columns ``mean`` and ``std`` and a
            pair for every component. Files and queries are read as the answer is, and what is
            of Dask is computed when the answer is. Of Dask arrays the answer is as above.

        Examples
        --------
        >>> from asvgp import GPRegressor, Matern12
        >>> gp = GPRegressor(Matern12(), num_basis=9, noise_variance=0.1, optimizer=None)
        >>> mean, std = gp.fit([0, 1, 2], [-1.0, 0.0, 1.0]).predict([99.0], return_std=True)
        >>> mean.round(6).tolist(), std.round(6).tolist()
        ([0.0], [1.0])
        """
        source = self._source_to_predict(X)
        if source is None:
            return self._predict(
                X, return_std, return_cov, include_noise, derivative, components, noise_variance
            )
        if return_cov:
            raise ValueError("Covariances are of all rows at once: give X as arrays.")
        self._fitted()
        options = {"include_noise": include_noise, "derivative": derivative}
        columns = Predictor(self, components, noise_variance=noise_variance, **options)
        found = source.answer(columns)
        return self._unnamed(found, return_std) if isinstance(found, dict) else found

    def _unnamed(self, found: dict, return_std: bool):
        """Return columns by name as arrays, in the shapes of `_predict`."""
        arrays, outputs = list(found.values()), len(self.stats_.squares)

        def shaped(first: int):
            own = arrays[first : first + 2 * outputs : 2]
            return own[0] if self._fit_data().single else np.stack(own, axis=1)

        step = 2 * outputs
        results: list = [shaped(0), *([shaped(1)] if return_std else [])]
        if len(arrays) > step:
            parts = (*self.kernel_.components, *self.kernel_.effects)
            pairs = [(shaped(i), shaped(i + 1)) for i in range(step, len(arrays), step)]
            results.append(
                [ComponentPrediction(k, *pair) for k, pair in zip(parts, pairs, strict=True)]
            )
        return results[0] if len(results) == 1 else tuple(results)

    def _predict(
        self,
        X,
        return_std=False,
        return_cov=False,
        include_noise=False,
        derivative=0,
        components=False,
        noise_variance=None,
    ):
        """Return predictions as arrays."""
        if return_std and return_cov:
            raise ValueError("At most one of return_std and return_cov can be requested.")
        if isinstance(derivative, np.ndarray):
            derivative = derivative.tolist()
        if derivative and include_noise:
            raise ValueError("A derivative is that of f: there is no noise to include.")
        shape, data, posterior = _grid_shape(X), self._fit_data(), self._fitted().posterior
        structure, points = data.structure, data.points(_flat(X))

        def observed(variance: Array) -> Array:
            """Return the variance of what is predicted, given that of f."""
            if not include_noise:
                return variance
            likelihood, weights = self._likelihood(noise_variance, points.count)
            return likelihood.observation_variance(variance, weights)

        def evaluate(component: int | None, variance: bool) -> tuple[Array, Array]:
            return structure.predict(posterior, points, variance, component, derivative)

        def shaped(mean: Array, variance: Array) -> tuple[Array, Array]:
            """Return mean and standard deviation in the shape that users expect."""
            std = self._spread(variance, mean)
            return _on_grid(self._shaped(mean), shape), _on_grid(std, shape)

        mean, variance = evaluate(None, return_std)
        results: list = [_on_grid(self._shaped(mean), shape)]
        if return_std:
            results.append(shaped(mean, observed(variance))[1])
        if return_cov:
            limit = as_bytes(self.memory_limit)
            cov = structure.covariance(posterior, points, derivative, limit)
            diagonal = np.diag_indices_from(cov)
            cov[diagonal] = observed(cov[diagonal])
            results.append(self._for_outputs(cov, len(mean)))
        if components:
            kernel = self.kernel_
            parts = [evaluate(number, True) for number in range(len(kernel.components))]
            beta, spread_of, design = structure.effects(posterior, points, derivative)
            parts += [
                (np.outer(beta[i], design[:, i]), design[:, i] ** 2 * spread_of[i, i])
                for i in range(len(kernel.effects))
            ]
            pairs = zip((*kernel.components, *kernel.effects), parts, strict=True)
            results.append([ComponentPrediction(of, *shaped(*part)) for of, part in pairs])
        return results[0] if len(results) == 1 else tuple(results)

    def _for_outputs(self, covariance: Array, outputs: int) -> Array:
        """Return a covariance matrix, with several outputs one for each along a last axis."""
        if self._fit_data().single:
            return covariance
        return np.repeat(covariance[:, :, None], outputs, axis=2)

    def _likelihood(self, noise_variance, rows: int) -> tuple[Likelihood, Array | float]:
        """Return the likelihood of new observations, and their weights."""
        if noise_variance is not None:
            weights = read_weights(None, noise_variance, rows)
            assert weights is not None
            return Gaussian(1.0), weights
        if self._fit_data().known_noise:
            raise ValueError(
                "The data came with known noise variances, so the model cannot know that of a new "
                "observation: give noise_variance."
            )
        return self._fitted().likelihood, 1.0

    def _shaped(self, values):
        """Return values of shape (outputs, n) in scikit-learn's shape."""
        return values[0] if self._fit_data().single else values.T

    def _spread(self, variance, mean):
        """Return standard deviations in the shape of the mean."""
        wide = np.broadcast_to(np.sqrt(variance), mean.shape)
        return np.array(self._shaped(wide))  # writable, as users expect

    def integrate(self, a, b, return_std=False, return_cov=False, average=False):
        """Integrate f over intervals or boxes, or return its average over them.

        Parameters
        ----------
        a, b : scalars or array-like of shape (m,); with D inputs, of shape (D,) or (m, D)
            The ends of the intervals, or opposite corners of the boxes, anywhere. The columns
            are the inputs that splines are over, in the order of their columns in X.
        return_std, return_cov : bool
            At most one of them.
        average : bool
            Divide by the length or volume. Along an input where both ends are the same, the
            average is f there.

        Returns
        -------
        integral : float or ndarray of shape (m,) or (m, outputs)
            A number, or one per output, where there is only one interval or box.
        std : of the same shape, with ``return_std``
        cov : ndarray of shape (m, m) or (m, m, outputs), with ``return_cov``

        Notes
        -----
        Linear effects of columns that no splines are over are left out. With several inputs,
        standard deviations take one solve with the factored matrix per box.

        Examples
        --------
        >>> import numpy as np
        >>> from asvgp import GPRegressor, Matern52
        >>> x = np.linspace(0, np.pi, 500)
        >>> gp = GPRegressor(Matern52(), num_basis=100).fit(x, np.sin(x))
        >>> round(float(gp.integrate(0.0, np.pi)), 3)
        2.0

        Over a square, and its average over one half of it:

        >>> X = np.stack([x.ravel() for x in np.meshgrid(*[np.linspace(0, 1, 30)] * 2)], axis=1)
        >>> gp = GPRegressor(num_basis=12).fit(X, X[:, 0] * X[:, 1])
        >>> round(float(gp.integrate([0.0, 0.0], [1.0, 1.0])), 2)
        0.25
        >>> round(float(gp.integrate([0.5, 0.0], [1.0, 1.0], average=True)), 2)
        0.38
        """
        if return_std and return_cov:
            raise ValueError("At most one of return_std and return_cov can be requested.")
        structure, posterior = self._fit_data().structure, self._fitted().posterior
        lower, upper, scalar = structure.corners(a, b)
        mean, spread = integrate(posterior, lower, upper, average, return_std, return_cov)
        result = self._shaped(mean)
        result = result[0] if scalar else result
        if return_cov:
            return result, self._for_outputs(spread, len(mean))
        if return_std:
            std = self._spread(spread, mean)
            return result, std[0] if scalar else std
        return result

    def sample_y(self, X, n_samples=1, random_state=None):
        """Draw joint samples of f at X, of shape (n, n_samples) or (n, outputs, n_samples).

        For a tuple with the axes of a grid, the grid's shape is in place of n.

        Examples
        --------
        >>> from asvgp import GPRegressor, Matern12
        >>> gp = GPRegressor(Matern12(), num_basis=9, noise_variance=0.1, optimizer=None)
        >>> gp.fit([0, 1, 2], [1.0, 0.0, -1.0]).sample_y([0.5, 9.0], 5, random_state=0).shape
        (2, 5)
        """
        shape = _grid_shape(X)
        X = self._rows_in_memory(_flat(X)).X
        structure, posterior = self._fit_data().structure, self._fitted().posterior
        points, limit = self._fit_data().points(X), as_bytes(self.memory_limit)
        draws = structure.sample(posterior, points, n_samples, random_state, limit)
        draws = draws[0] if self._fit_data().single else draws.transpose(1, 0, 2)
        return _on_grid(draws, shape)

    def sample_paths(self, n_samples=1, random_state=None, component=None):
        """Draw posterior sample paths over the domain, as callable objects.

        A list of ``n_samples``; with several outputs a path is vector-valued. Of models of one
        input it is a `scipy.interpolate.BSpline`, whose argument is in the units of X, seconds
        since ``time_origin_`` where X holds times; outside the domain it is NaN. Linear effects
        of other columns are left out. With several inputs a path is called with rows as
        `predict` is, and has all effects.

        ``component`` counts from zero: the paths of this component alone. The same
        ``random_state`` draws the same joint sample, so that the components' paths and the
        effects add up.
        """
        structure, posterior = self._fit_data().structure, self._fitted().posterior
        return structure.paths(posterior, n_samples, random_state, component)

    def leave_one_out(
        self, X, y=None, sample_weight=None, noise_variance=None, width=None
    ) -> LeaveOneOut:
        """Predict the training data, each without itself, at fixed hyperparameters.

        Arguments are those of `fit`; observations that are averages are predicted as averages. A
        source is read whole. For a tuple with the axes of a grid, the arrays have the grid's shape.
        """
        shape = _grid_shape(X)
        data, posterior = self._fit_data(), self._fitted().posterior
        chunk = self._rows_in_memory(X, y, sample_weight, noise_variance, width)
        X, y, sample_weight, noise_variance = as_rows(*tuple(chunk)[:4])
        points, y, weights = data.rows(X, y, sample_weight, noise_variance, chunk.width)
        found = leave_one_out(posterior, data.structure.places(points), y, weights)
        return found if shape is None else found.on_grid(shape)

    def summary(self) -> Summary:
        """Return a summary of what was fitted and whether to believe it; print it.

        The first call after a fit computes two bounds per hyperparameter, for standard errors;
        further calls reuse them.
        """
        return summary(self)

    def score(self, X, y=None, sample_weight=None) -> float:
        """Return the coefficient of determination of the predicted means: one is perfect.

        With several outputs it is their mean. Missing targets of a source are left out.

        Examples
        --------
        >>> import numpy as np
        >>> from asvgp import GPRegressor
        >>> x = np.linspace(0, 10, 1000)
        >>> round(GPRegressor(num_basis=50).fit(x, np.sin(x)).score(x, np.sin(x)), 3)
        1.0
        """
        if is_source(X, y):
            return self._score_of(source_for(X, y, sample_weight))
        X = self._rows_in_memory(X).X
        return float(r2_score(y, self._predict(X), sample_weight=sample_weight))

    def log_predictive_density(self, X, y=None, noise_variance=None):
        """Return the log density of new observations under the posterior, one number per row.

        Parameters
        ----------
        X : array-like of shape (n,) or (n, columns), axes of a grid, or source
            As in `predict`.
        y : array-like of shape (n,) or (n, outputs), or names of columns
            As in `fit`; on a grid, values of its shape.
        noise_variance : float or array-like of shape (n,), optional
            As in `predict`.

        Returns
        -------
        ndarray of shape (n,)
            Summed over outputs; the points of a grid one by one, the last axis the fastest.
            Its negative mean is the NLPD.

        Examples
        --------
        >>> from asvgp import GPRegressor, Matern12
        >>> gp = GPRegressor(Matern12(), num_basis=9, noise_variance=0.1, optimizer=None)
        >>> gp.fit([0, 1, 2], [1.0, 0.0, -1.0]).log_predictive_density([99.0], [0.0]).round(3)
        array([-0.967])
        """
        shape = _grid_shape(X)
        chunk = self._rows_in_memory(X, y, None, noise_variance)
        X, y, noise_variance = as_rows(chunk.X, chunk.y, chunk.noise_variance)
        mean, std = self._predict(X, return_std=True)
        y = read_targets(y, len(mean))
        if y.shape != mean.shape:
            raise ValueError(f"y has shape {y.shape}, the predictions have {mean.shape}.")
        likelihood, weights = self._likelihood(noise_variance, len(mean))
        # Rows last, along which the weights are.
        density = likelihood.log_predictive_density(y.T, mean.T, std.T**2, weights)
        density = density if density.ndim == 1 else density.sum(axis=0)
        return _on_grid(density, shape)

    def _source_to_predict(self, X) -> Source | None:
        """Return the source of inputs that X stands for; None for arrays."""
        data = self._fit_data()
        return source_to_predict(X, data.targets is not None, data.features.names)

    def _rows_in_memory(
        self, X, y=None, sample_weight=None, noise_variance=None, width=None
    ) -> Chunk:
        """Return arguments of `GPRegressor.fit` as rows in memory: those of a source are read."""
        progress = Progress(self.progress)
        if is_source(X, y):
            source = source_for(X, y, sample_weight, noise_variance, width)
            names = self._fit_data().features.names
            return in_memory(source.prepared(self.kernel, names), progress)
        inputs = self._source_to_predict(X)
        if inputs is not None:
            X = in_memory(inputs, progress, inputs_only=True).X
        return Chunk(X, y, sample_weight, noise_variance, width)

    def _score_of(self, source: Source) -> float:
        """Return the coefficient of determination of predictions of a source, read once."""
        sums, centre = 0.0, None
        for chunk in source.prepared(self.kernel, self._fit_data().features.names).chunks():
            if chunk.y is None:
                raise ValueError("Name the target: score compares predictions with it.")
            y = np.asarray(chunk.y, dtype=float).reshape(chunk.rows, -1)
            mean = np.reshape(self._predict(chunk.X), y.shape)
            known = ~np.isnan(y).any(axis=1)
            weight = 1.0 if chunk.sample_weight is None else chunk.sample_weight[known, None]
            y, mean = y[known], mean[known]
            if centre is None and len(y):
                centre = y.mean(axis=0)
            parts = (np.ones_like(y), y - centre, (y - centre) ** 2, (y - mean) ** 2)
            sums = sums + np.array([np.sum(weight * part, axis=0) for part in parts])
        total, first, second, missed = np.broadcast_to(sums, (4, np.size(sums) // 4 or 1))
        if not np.all(total > 0.0):
            raise ValueError("There are no rows with a target to compare with.")
        return float(np.mean(1.0 - missed / (second - first**2 / total)))

    @property
    def kernel_(self) -> Kernel:
        """The kernel with trained hyperparameters; scales are durations where X holds times."""
        data = self._fit_data()
        return data.structure.labelled(self._fitted().kernel)

    @property
    def effects_(self) -> list[EffectEstimate]:
        """The fixed effects: coefficients per unit of their column, per second for times."""
        data, posterior = self._fit_data(), self._fitted().posterior
        beta, covariance, _ = data.structure.effects(posterior, None, 0)
        errors = np.sqrt(np.diag(covariance))
        timed = data.structure.timed_effects()
        names = [
            effect.name + (" per second" if number in timed else "")
            for number, effect in enumerate(self.kernel_.effects)
        ]
        return [
            EffectEstimate(name, float(value[0]) if data.single else value, float(error))
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
        """Log evidence of the spline field itself, without a price on missed variance."""
        return self._fitted().evidence

    @property
    def time_origin_(self):
        """The time that seconds are counted from, in paths; None where X holds numbers."""
        axis = self._fit_data().axis
        return None if axis is None else axis.origin

    @property
    def evidence_upper_bound_(self) -> float:
        """Upper bound on the log evidence."""
        return self._fitted().upper

    @property
    def num_basis_(self) -> int | tuple[int, ...]:
        """Number of basis functions of each component, along every input if several."""
        return self._fit_data().structure.num_basis(self._fitted().posterior)

    @property
    def domain_(self) -> tuple:
        """The interval of the splines; with several inputs one per input."""
        data = self._fit_data()
        return data.structure.domain(data.stats)

    @property
    def stats_(self) -> Statistics:
        """Sufficient statistics of all data so far."""
        return self._fit_data().stats

    @property
    def posterior_(self) -> Posterior[Any]:
        """The factored posterior."""
        return self._fitted().posterior

    @property
    def optimization_(self) -> Report:
        """How training went."""
        return self._fitted().report

    @property
    def resolution_(self) -> list[Level]:
        """Bounds and hyperparameters that were reached on every resolution that was tried."""
        return self._fitted().resolution

    @property
    def timings_(self) -> dict[str, float]:
        """Seconds per stage."""
        return {"pass": self._fit_data().seconds, **self._fitted().timings}
