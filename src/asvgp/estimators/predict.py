"""The part of an estimator that does not learn: predictions, functionals, and checks."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import ndtr

from asvgp.basis import Array
from asvgp.data.columns import Gridded
from asvgp.data.inputs import read_weights
from asvgp.data.response import Response
from asvgp.data.settings import Settings
from asvgp.data.transforms import IDENTITY
from asvgp.estimators.attributes import AttributesMixin
from asvgp.estimators.observations import (
    FamilyObservations,
    GaussianObservations,
    Observations,
)
from asvgp.estimators.portable import Predictor, without_beside
from asvgp.kernels import Effect, Kernel
from asvgp.likelihoods import Gaussian, Heteroscedastic, Likelihood
from asvgp.runtime.interrupts import plain_interrupts
from asvgp.runtime.memory import as_bytes
from asvgp.runtime.progress import Progress
from asvgp.sources.answers import in_memory, source_to_predict
from asvgp.sources.roles import BESIDE
from asvgp.sources.source import Chunk, Source, is_source, source_for
from asvgp.structures.observed import NOTHING, Beside
from asvgp.structures.structure import Points


class ComponentPrediction(NamedTuple):
    """The contribution of one component to a prediction."""

    kernel: Kernel | Effect
    mean: Array
    std: Array


def on_grid(values: Array, shape: tuple[int, ...] | None) -> Array:
    """Return values of rows in the shape of the grid whose points they are."""
    return values if shape is None else values.reshape(*shape, *values.shape[1:])


def in_rows(values: Any, shape: tuple[int, ...] | None) -> Any:
    """Return values of the points of a grid, which have its shape, as those of rows."""
    return np.ravel(values) if shape is not None and np.shape(values) == shape else values


def grid_shape(X) -> tuple[int, ...] | None:
    """Return the shape of the grid whose axes X holds; None for other X."""
    grid = None if isinstance(X, Gridded) else Gridded.of(X)
    return None if grid is None else grid.shape


def _wide(variance: Array, mean: Array) -> Array:
    """Return the variance that all outputs share for each of them, as a view."""
    return np.broadcast_to(variance, mean.shape)


def flat(X):
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
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        include_noise: bool = False,
        derivative: Any = 0,
        components: bool = False,
        noise_variance: Any = None,
        *,
        type: Literal["response", "link"] = "response",
        exposure: Any = None,
        offset: Any = None,
        trials: Any = None,
    ) -> Any:
        """Predict the mean of f, and optionally its standard deviation or covariance.

        X may lie anywhere, also beyond the data. There, predictions return to the prior.

        With a ``transform``, predictions are in the units of y, where the distribution is skewed.
        The mean is then not the median, and mean plus or minus two standard deviations is not a
        valid interval: use `predict_quantiles`. The mean of a new observation (``include_noise``)
        is higher than the mean of f.

        With a ``likelihood`` other than Gaussian noise, the mean of y is predicted, such as a rate
        or a probability. The standard deviation is that of this mean, or of a new observation with
        ``include_noise``.

        Parameters
        ----------
        X : array-like of shape (n,) or (n, columns), axes of a grid, or source
            Where to predict. The axes of a grid are given as in `fit`; the results then have the
            shape of the grid. From a source (see `asvgp.scan`) or a data frame, only the columns
            that the model needs are read.
        return_std : bool
            Whether to return standard deviations.
        return_cov : bool
            Whether to return the covariance matrix. It cannot be combined with ``return_std``.
        include_noise : bool
            If True, return the uncertainty of a new observation (with weight one), otherwise
            that of f.
        derivative : int, or dict of columns and orders
            Order of the derivative of f, at most as high as the kernel allows. With several inputs,
            say along which: ``{"lon": 1}``. Along times it is per second. It cannot be combined
            with a ``transform``.
        components : bool
            Whether to also return the mean and standard deviation of every component and every
            effect. With a ``transform`` these are on the transformed scale, where they add up.
        noise_variance : float or array-like of shape (n,), optional
            Noise variance of the new observations, for ``include_noise``. By default it is that of
            the model. You must give it if the model was fitted with known noise variances.
        type : {"response", "link"}
            "link" predicts f itself if the likelihood is not Gaussian, for example the logarithm of
            a rate or the logit of a probability.
        exposure, offset, trials : number or array-like of shape (n,), optional
            The same as in `fit`, for the new observations. They default to one, zero and one. If X
            is a source, names of columns or numbers.

        Returns
        -------
        mean : ndarray of shape (n,) or (n, outputs)
        std : ndarray of the same shape, with ``return_std``
        cov : ndarray of shape (n, n) or (n, n, outputs), with ``return_cov``
        components : list of ComponentPrediction, with ``components``
        frame, reader of Arrow record batches, or xarray.Dataset
            For a source, this replaces all of the above. The result is of the same kind as X and
            has the columns ``mean`` and ``std``, and a pair for every component. Files and queries
            are read while you read the result; Dask frames are computed when the result is. For
            Dask arrays, arrays are returned as above.

        Examples
        --------
        >>> from asvgp import GPRegressor, Matern12
        >>> gp = GPRegressor(Matern12(), num_basis=9, noise_variance=0.1, optimizer=None)
        >>> mean, std = gp.fit([0, 1, 2], [-1.0, 0.0, 1.0]).predict([99.0], return_std=True)
        >>> mean.round(6).tolist(), std.round(6).tolist()
        ([0.0], [1.0])
        """
        beside = {"type": type, "exposure": exposure, "offset": offset, "trials": trials}
        source = self._source_to_predict(X, exposure, offset, trials)
        if source is None:
            flags = return_std, return_cov, include_noise, derivative, components, noise_variance
            return self._predict(X, *flags, **beside)
        if return_cov:
            raise ValueError("Covariances are of all rows at once: give X as arrays.")
        self._fitted()
        options = {"include_noise": include_noise, "derivative": derivative, **beside}
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

    @plain_interrupts()
    def _predict(
        self,
        X,
        return_std=False,
        return_cov=False,
        include_noise=False,
        derivative=0,
        components=False,
        noise_variance=None,
        type="response",
        exposure=None,
        offset=None,
        trials=None,
    ):
        """Return predictions as arrays."""
        if return_std and return_cov:
            raise ValueError("At most one of return_std and return_cov can be requested.")
        if type not in ("response", "link"):
            raise ValueError(f"type must be 'response' or 'link', got {type!r}.")
        if isinstance(derivative, np.ndarray):
            derivative = derivative.tolist()
        if derivative and include_noise:
            raise ValueError("A derivative is that of f: there is no noise to include.")
        shape, posterior, data = grid_shape(X), self._fitted().posterior, self._fit_data()
        structure, points = data.structure, data.points(flat(X))
        transform, linked = self.transform_, type == "link" and data.family is not None
        if linked and include_noise:
            raise ValueError("type='link' is f itself: there is no noise to include.")
        if derivative and not transform.identity and not linked:
            raise ValueError(
                f"Derivatives are not available in the units of y, as the model is of {transform}. "
                "That of the transformed y is posterior_.predict(x, order=1); of log y it is the "
                "relative rate of change."
                if data.family is None
                else "Derivatives are those of f: give type='link'. On a logarithmic link they are "
                "relative rates of change."
            )
        beside = Beside(*(in_rows(part, shape) for part in (exposure, offset, None, trials)))
        new = self._observations(points.count, include_noise, noise_variance, beside, points)
        if linked:
            new = GaussianObservations(False, IDENTITY, Gaussian())

        def evaluate(component: int | None, variance: bool) -> tuple[Array, Array]:
            return structure.predict(posterior, points, variance, component, derivative)

        def shaped(mean: Array, variance: Array) -> tuple[Array, Array]:
            """Return mean and standard deviation in the shape that users expect."""
            std = self._spread(variance, mean)
            return on_grid(self._shaped(mean), shape), on_grid(std, shape)

        moved = offset is not None and not linked
        plain = (transform.identity or linked) and not moved
        latent, variance = evaluate(None, return_std or not plain)
        mean = latent
        if variance.size:
            mean, variance = new.moments(latent, variance)
        results: list = [on_grid(self._shaped(mean), shape)]
        if return_std:
            results.append(shaped(mean, variance)[1])
        if return_cov:
            limit = as_bytes(self.memory_limit)
            cov = structure.covariance(posterior, points, derivative, limit)
            results.append(self._for_outputs(new.covariance(latent, cov), len(mean)))
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

    def _observations(
        self,
        rows: int,
        noisy: bool = True,
        noise_variance=None,
        beside: Beside = NOTHING,
        at: Any = None,
    ) -> Observations:
        """Return what turns f at so many rows into answers in the units of y.

        They are ``at`` these rows of X, or points, where the noise may be a process of its own.
        """
        transform, family = self.transform_, self._fit_data().family
        if isinstance(transform, Response) and family is not None:
            if noise_variance is not None:
                raise ValueError(
                    f"noise_variance is that of Gaussian noise, and the likelihood is {family!r}."
                )
            extra, offset = beside.read(transform.likelihood, rows)
            if noisy and isinstance(transform.likelihood, Heteroscedastic):
                extra = self._noise_at(at)
            return FamilyObservations(noisy, transform, extra, offset)
        beside.refuse()
        if not noisy:
            return GaussianObservations(False, transform, Gaussian())
        return GaussianObservations(True, transform, *self._likelihood(noise_variance, rows))

    def _noise_at(self, at: Any) -> Array:
        """Return mean and variance of the log-variance of the noise, as two columns."""
        data = self._fit_data()
        points = at if isinstance(at, Points) else data.points(at)
        return self._fitted().noise_process.moments(data.structure, points)

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

    def predict_quantiles(
        self,
        X: Any,
        quantiles: Any = (0.025, 0.5, 0.975),
        include_noise: bool = False,
        *,
        exposure: Any = None,
        offset: Any = None,
        trials: Any = None,
    ) -> Any:
        """Predict quantiles of f or of new observations, in the units of y.

        Parameters
        ----------
        X : array-like of shape (n,) or (n, columns), or axes of a grid
            Where to predict, as in `predict`. A source is read as a whole.
        quantiles : float or sequence of float
            Probabilities between 0 and 1.
        include_noise : bool
            If True, return quantiles of new observations (with weight one), otherwise of f.
        exposure, offset, trials : number or array-like of shape (n,), optional
            The same as in `predict`.

        Returns
        -------
        ndarray of shape (n, quantiles) or (n, outputs, quantiles)
            If ``quantiles`` is a single number, there is no last axis. If X holds the axes of a
            grid, the shape of the grid takes the place of n.

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
        shape = grid_shape(X)
        beside = [in_rows(part, shape) for part in (exposure, offset, None, trials)]
        chunk = self._rows_in_memory(flat(X), None, None, None, None, *beside)
        mean, variance = self._latent(chunk.X)
        new = self._observations(mean.shape[1], include_noise, None, chunk.beside, chunk.X)
        out = new.quantiles(shares.ravel(), mean, variance)
        out = out[0] if self._fit_data().single else out.transpose(1, 0, 2)
        return on_grid(out[..., 0] if shares.ndim == 0 else out, shape)

    def _latent(self, X) -> tuple[Array, Array]:
        """Return mean (outputs, n) and variance (n,) of f, on the scale of transform or link."""
        data = self._fit_data()
        return data.structure.predict(self._fitted().posterior, data.points(X))

    def _ends(
        self, X, factor: float, mean, std, include_noise=False, noise_variance=None, **beside
    ) -> tuple[Array, Array]:
        """Return the ends of central bands around predictions, whose mean and std are known.

        They hold what ``factor`` standard deviations of a Gaussian to either side do.
        """
        linked = beside.pop("type", "response") == "link"
        if (self._fit_data().family is None and self.transform_.identity) or linked:
            return mean - factor * std, mean + factor * std
        latent, variance = self._latent(X)
        given = Beside(**beside)
        new = self._observations(latent.shape[1], include_noise, noise_variance, given, X)
        ends = new.quantiles(ndtr(np.array([-factor, factor])), latent, variance)
        return self._shaped(ends[..., 0]), self._shaped(ends[..., 1])

    def _source_to_predict(self, X, *beside) -> Source | None:
        """Return the source of inputs that X stands for; None for arrays.

        Columns ``beside`` them, given by name, are read as if they were inputs.
        """
        data = self._fit_data()
        named, names = data.targets is not None, data.features.names
        source = source_to_predict(X, named, names)
        columns = [name for name in beside if isinstance(name, str)]
        if source is None or not columns:
            return source
        if source.inputs is None:
            raise ValueError(
                f"There is no column {columns[0]!r}: the columns of these data have no names. Give "
                "one number for all rows, or X as arrays."
            )
        inputs = [name for name in source.inputs if names is not None or name not in columns]
        return source_to_predict(X, named, tuple(dict.fromkeys([*inputs, *columns])))

    def _rows_in_memory(
        self, X, y=None, sample_weight=None, noise_variance=None, width=None, *beside
    ) -> Chunk:
        """Return arguments of `GPRegressor.fit` as rows in memory: those of a source are read."""
        progress = Progress(self.progress)
        if is_source(X, y):
            source = source_for(X, y, sample_weight, noise_variance, width, *beside)
            names = self._fit_data().features.names
            return in_memory(source.prepared(self.kernel, names), progress)
        inputs = self._source_to_predict(X, *beside)
        if inputs is None:
            return Chunk(X, y, sample_weight, noise_variance, width, *beside)
        X, known = in_memory(inputs, progress, inputs_only=True).X, self._fit_data().features.names
        X, further = without_beside(X, dict(zip(BESIDE, beside, strict=False)), known)
        return Chunk(X, y, sample_weight, noise_variance, width, **further)
