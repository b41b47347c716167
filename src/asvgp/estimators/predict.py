"""The part of an estimator that does not learn: predictions, functionals, and checks."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri
from sklearn.metrics import r2_score

from asvgp.basis import Array
from asvgp.data.columns import Gridded
from asvgp.data.inputs import as_rows, read_targets, read_weights
from asvgp.data.settings import Settings
from asvgp.diagnostics.summary import Summary, summary
from asvgp.estimators.attributes import AttributesMixin
from asvgp.estimators.in_units import Integrals, PathOfY, left_out
from asvgp.estimators.portable import Predictor
from asvgp.kernels import Effect, Kernel
from asvgp.likelihoods import Gaussian, Likelihood
from asvgp.posterior.integrals import integrate
from asvgp.posterior.leave_one_out import LeaveOneOut, leave_one_out
from asvgp.runtime.memory import as_bytes
from asvgp.runtime.progress import Progress
from asvgp.sources.answers import in_memory, source_to_predict
from asvgp.sources.source import Chunk, Source, is_source, source_for


class ComponentPrediction(NamedTuple):
    """The contribution of one component to a prediction."""

    kernel: Kernel | Effect
    mean: Array
    std: Array


def _on_grid(values: Array, shape: tuple[int, ...] | None) -> Array:
    """Return values of rows in the shape of the grid whose points they are."""
    return values if shape is None else values.reshape(*shape, *values.shape[1:])


def _grid_shape(X) -> tuple[int, ...] | None:
    """Return the shape of the grid whose axes X holds; None for other X."""
    grid = None if isinstance(X, Gridded) else Gridded.of(X)
    return None if grid is None else grid.shape


def _wide(variance: Array, mean: Array) -> Array:
    """Return the variance that all outputs share for each of them, as a view."""
    return np.broadcast_to(variance, mean.shape)


def _flat(X):
    """Return axes as their grid, or as the only column; other X as they are."""
    grid = Gridded.of(X)
    return X if grid is None else grid.plain


class PredictMixin(AttributesMixin):
    """The part of `GPRegressor` that does not learn: it asks for the fit, and answers."""

    kernel: Kernel | None
    memory_limit: float | str | None
    progress: Any

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

        With a ``transform``, f is what the process stands for in the units of y, exp(f) for
        the logarithm, and mean and standard deviation are those of its skewed distribution: not
        the median, and no band. Bands come from `predict_quantiles`. The mean of a new observation
        then is above that of f: give ``include_noise``.

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
            several inputs say along which: ``{"lon": 1}``. Not with a ``transform``.
        components : bool
            Also every component's and every fixed effect's mean and standard deviation. With a
            ``transform`` they are on its scale, where they add up.
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
        shape, transform, posterior = _grid_shape(X), self.transform_, self._fitted().posterior
        if derivative and not transform.identity:
            raise ValueError(
                f"Derivatives are not available in the units of y, as the model is of {transform}. "
                "That of the transformed y is posterior_.predict(x, order=1); of log y it is the "
                "relative rate of change."
            )
        data = self._fit_data()
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

        latent, variance = evaluate(None, return_std or not transform.identity)
        mean = latent
        if variance.size:
            mean, variance = transform.moments(latent, _wide(observed(variance), latent))
        results: list = [_on_grid(self._shaped(mean), shape)]
        if return_std:
            results.append(shaped(mean, variance)[1])
        if return_cov:
            limit = as_bytes(self.memory_limit)
            cov = structure.covariance(posterior, points, derivative, limit)
            diagonal = np.diag_indices_from(cov)
            cov[diagonal] = observed(cov[diagonal])
            if not transform.identity:
                cov = np.stack([transform.covariance(centre, cov) for centre in latent])
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
        """Return a covariance matrix, with several outputs one for each along a last axis.

        It is that of all outputs, or one for each along the first axis.
        """
        if covariance.ndim == 3:
            return covariance[0] if self._fit_data().single else np.moveaxis(covariance, 0, 2)
        if self._fit_data().single:
            return covariance
        return np.repeat(covariance[:, :, None], outputs, axis=2)

    def _likelihood(self, noise_variance, rows: int) -> tuple[Likelihood, Array | float]:
        """Return the likelihood of new observations, and their weights."""
        if noise_variance is not None:
            if not self.transform_.identity:
                raise ValueError(
                    f"The model is of {self.transform_}, and so is its noise: a noise_variance of "
                    "y has no place in it."
                )
            weights = read_weights(None, noise_variance, rows)
            assert weights is not None
            given = self._fit_data().known_noise
            return (self._fitted().likelihood if given else Gaussian(1.0)), weights
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
        return np.array(self._shaped(_wide(np.sqrt(variance), mean)))  # writable, as users expect

    def predict_quantiles(self, X, quantiles=(0.025, 0.5, 0.975), include_noise=False):
        """Predict quantiles of f, or of new observations, in the units of y.

        Parameters
        ----------
        X : array-like of shape (n,) or (n, columns), or axes of a grid
            As in `predict`; a source is read whole.
        quantiles : float or sequence of float
            Probabilities between 0 and 1.
        include_noise : bool
            Of new observations (of weight one) rather than of f.

        Returns
        -------
        ndarray of shape (n, quantiles) or (n, outputs, quantiles)
            For a number in place of a sequence, without the last axis. On the axes of a grid, its
            shape is in place of n.

        Examples
        --------
        >>> import numpy as np
        >>> from asvgp import Constant, GPRegressor, Matern32
        >>> x = np.linspace(0, 10, 200)
        >>> gp = GPRegressor(Matern32() + Constant(), num_basis=30, transform="log")
        >>> gp = gp.fit(x, np.exp(np.sin(x)))
        >>> low, middle, high = gp.predict_quantiles([5.0])[0]
        >>> bool(0.0 < low < middle < high)
        True
        """
        shares = np.asarray(quantiles, dtype=float)
        if shares.ndim > 1 or not np.all((shares > 0.0) & (shares < 1.0)):
            raise ValueError(f"quantiles must be between 0 and 1, got {quantiles!r:.80}.")
        shape = _grid_shape(X)
        X = self._rows_in_memory(_flat(X)).X
        mean, std = self._gaussian(X, include_noise)
        out = self.transform_.inverse(mean[..., None] + std[..., None] * ndtri(shares.ravel()))
        out = out[0] if self._fit_data().single else out.transpose(1, 0, 2)
        return _on_grid(out[..., 0] if shares.ndim == 0 else out, shape)

    def _gaussian(self, X, include_noise: bool = False, noise_variance=None) -> tuple[Array, Array]:
        """Return mean and standard deviation on the scale of the transform, (outputs, n)."""
        posterior, data = self._fitted().posterior, self._fit_data()
        points = data.points(X)
        mean, variance = data.structure.predict(posterior, points)
        if include_noise:
            likelihood, weights = self._likelihood(noise_variance, points.count)
            variance = likelihood.observation_variance(variance, weights)
        return mean, np.sqrt(_wide(variance, mean))

    def _ends(
        self, X, factor: float, mean, std, include_noise: bool = False, noise_variance=None
    ) -> tuple[Array, Array]:
        """Return the ends of central bands around predictions, whose mean and std are known.

        They reach ``factor`` standard deviations to either side on the scale of the transform.
        """
        if self.transform_.identity:
            return mean - factor * std, mean + factor * std
        ends = self.transform_.band(*self._gaussian(X, include_noise, noise_variance), factor)
        return self._shaped(ends[1]), self._shaped(ends[2])

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
        standard deviations take one solve with the factored matrix per box. With a ``transform``,
        integrals of y are found by quadrature from its moments at many places.

        Examples
        --------
        >>> import numpy as np
        >>> from asvgp import GPRegressor, Matern12, Matern52
        >>> x = np.linspace(0, np.pi, 500)
        >>> gp = GPRegressor(Matern52(), num_basis=100).fit(x, np.sin(x))
        >>> round(float(gp.integrate(0.0, np.pi)), 3)
        2.0

        Over a square, and its average over one half of it:

        >>> X = np.stack([x.ravel() for x in np.meshgrid(*[np.linspace(0, 1, 30)] * 2)], axis=1)
        >>> gp = GPRegressor(Matern12(), num_basis=12).fit(X, X[:, 0] * X[:, 1])
        >>> round(float(gp.integrate([0.0, 0.0], [1.0, 1.0])), 2)
        0.25
        >>> round(float(gp.integrate([0.6, 0.0], [1.0, 1.0], average=True)), 2)
        0.4
        """
        if return_std and return_cov:
            raise ValueError("At most one of return_std and return_cov can be requested.")
        structure, posterior = self._fit_data().structure, self._fitted().posterior
        lower, upper, scalar = structure.corners(a, b)
        if self.transform_.identity:
            mean, spread = integrate(posterior, lower, upper, average, return_std, return_cov)
        else:
            found = Integrals(structure, posterior, self.transform_, lower, upper, average)
            mean, spread, limit = found.mean, np.empty(0), as_bytes(self.memory_limit)
            if return_std or return_cov:
                spread = found.covariance(limit) if return_cov else found.variance(limit)
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

        For a tuple with the axes of a grid, the grid's shape is in place of n. They are in the
        units of y, whatever its ``transform``.

        Examples
        --------
        >>> from asvgp import GPRegressor, Matern12
        >>> gp = GPRegressor(Matern12(), num_basis=9, noise_variance=0.1, optimizer=None)
        >>> gp.fit([0, 1, 2], [1.0, 0.0, -1.0]).sample_y([0.5, 9.0], 5, random_state=0).shape
        (2, 5)
        """
        shape = _grid_shape(X)
        draws = self._draws(self._rows_in_memory(_flat(X)).X, n_samples, random_state)
        return _on_grid(self.transform_.inverse(draws), shape)

    def _draws(self, X, n_samples: int, random_state) -> Array:
        """Return joint samples of f on the scale of the transform, in the shape of `sample_y`."""
        posterior, data = self._fitted().posterior, self._fit_data()
        points, limit = data.points(X), as_bytes(self.memory_limit)
        draws = data.structure.sample(posterior, points, n_samples, random_state, limit)
        return draws[0] if data.single else draws.transpose(1, 0, 2)

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

        With a ``transform``, paths are callable objects in the units of y, and those of components
        on the scale of the transform.
        """
        transform, posterior = self.transform_, self._fitted().posterior
        paths = self._fit_data().structure.paths(posterior, n_samples, random_state, component)
        if transform.identity or component is not None:
            return paths
        return [PathOfY(path, transform) for path in paths]

    def leave_one_out(
        self, X, y=None, sample_weight=None, noise_variance=None, width=None
    ) -> LeaveOneOut:
        """Predict the training data, each without itself, at fixed hyperparameters.

        Arguments are those of `fit`; observations that are averages are predicted as averages. A
        source is read whole. For a tuple with the axes of a grid, the arrays have the grid's shape.
        With a ``transform``, all are in the units of y but the standardised residuals, which are
        normal on its scale.
        """
        shape = _grid_shape(X)
        posterior, data = self._fitted().posterior, self._fit_data()
        chunk = self._rows_in_memory(X, y, sample_weight, noise_variance, width)
        X, y, sample_weight, noise_variance = as_rows(*tuple(chunk)[:4])
        rows = data.rows(X, y, sample_weight, noise_variance, chunk.width)
        places = data.structure.places(rows.points)
        found = leave_one_out(posterior, places, rows.y, rows.weights)
        found = left_out(found, read_targets(y, rows.points.count), data.transform)
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
        return float(r2_score(y, self._means(X), sample_weight=sample_weight))

    def _means(self, X) -> Any:
        """Return the means of new observations; without a transform the noise does not matter."""
        return self._predict(X, include_noise=not self.transform_.identity)

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
        mean, std = self._gaussian(X)
        rows, single, transform = mean.shape[1], self._fit_data().single, self.transform_
        y = read_targets(y, rows)
        wanted = (rows,) if single else (rows, len(mean))
        if y.shape != wanted:
            raise ValueError(f"y has shape {y.shape}, the predictions have {wanted}.")
        likelihood, weights = self._likelihood(noise_variance, rows)
        y = y[None] if single else y.T
        with np.errstate(invalid="ignore", divide="ignore"):  # where there is no density
            z = transform.forward(y)
            density = likelihood.log_predictive_density(z, mean, std**2, weights)
        density = transform.log_density(y, density).sum(axis=0)
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
            mean = np.reshape(self._means(chunk.X), y.shape)
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
