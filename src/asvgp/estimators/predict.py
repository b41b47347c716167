"""The part of an estimator that does not learn: predictions, functionals, and checks."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.metrics import r2_score
from sklearn.utils import check_random_state

from asvgp.basis import Array
from asvgp.data.columns import Gridded
from asvgp.data.inputs import as_rows, read_targets, read_weights, refuse_masked
from asvgp.data.response import Response
from asvgp.data.settings import Settings
from asvgp.data.transforms import IDENTITY
from asvgp.diagnostics.summary import Summary, summary
from asvgp.estimators.attributes import AttributesMixin
from asvgp.estimators.in_units import Integrals, PathOfY, left_out
from asvgp.estimators.observations import (
    FamilyObservations,
    GaussianObservations,
    Observations,
)
from asvgp.estimators.portable import Predictor, without_beside
from asvgp.estimators.quality import deviance_explained
from asvgp.kernels import Effect, Kernel
from asvgp.likelihoods import Gaussian, Likelihood
from asvgp.likelihoods.family import Family
from asvgp.posterior.integrals import integrate
from asvgp.posterior.leave_one_out import LeaveOneOut, leave_one_out
from asvgp.runtime.interrupts import plain_interrupts
from asvgp.runtime.memory import as_bytes
from asvgp.runtime.progress import Progress
from asvgp.sources.answers import in_memory, source_to_predict
from asvgp.sources.roles import BESIDE
from asvgp.sources.source import Chunk, Source, is_source, source_for
from asvgp.structures.fit_data import Rows
from asvgp.structures.observed import NOTHING, Beside, Observed


class ComponentPrediction(NamedTuple):
    """The contribution of one component to a prediction."""

    kernel: Kernel | Effect
    mean: Array
    std: Array


def _on_grid(values: Array, shape: tuple[int, ...] | None) -> Array:
    """Return values of rows in the shape of the grid whose points they are."""
    return values if shape is None else values.reshape(*shape, *values.shape[1:])


def _in_rows(values: Any, shape: tuple[int, ...] | None) -> Any:
    """Return values of the points of a grid, which have its shape, as those of rows."""
    return np.ravel(values) if shape is not None and np.shape(values) == shape else values


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
        *,
        type: Literal["response", "link"] = "response",
        exposure=None,
        offset=None,
        trials=None,
    ):
        """Predict f: its posterior mean, with standard deviation or covariance, anywhere.

        Outside the domain the forecast is exact: mean and variance return to the prior's
        as the kernel forgets.

        With a ``transform``, f is what the process stands for in the units of y, exp(f) for
        the logarithm, and mean and standard deviation are those of its skewed distribution: not
        the median, and no band. Bands come from `predict_quantiles`. The mean of a new observation
        then is above that of f: give ``include_noise``.

        With a ``likelihood`` other than Gaussian noise, what is predicted is the mean of y: a
        rate, a probability. The standard deviation is that of this mean or, with
        ``include_noise``, of a new y.

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
        type : {"response", "link"}
            "link" predicts f itself where the likelihood is not Gaussian: the logarithm of a
            rate, the logit of a probability.
        exposure, offset, trials : number or array-like of shape (n,), optional
            As in `fit`, of the new observations; by default one, zero and one. Of a source, names
            of columns or numbers.

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
        shape, posterior, data = _grid_shape(X), self._fitted().posterior, self._fit_data()
        structure, points = data.structure, data.points(_flat(X))
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
        beside = Beside(*(_in_rows(part, shape) for part in (exposure, offset, None, trials)))
        new = self._observations(points.count, include_noise, noise_variance, beside)
        if linked:
            new = GaussianObservations(False, IDENTITY, Gaussian())

        def evaluate(component: int | None, variance: bool) -> tuple[Array, Array]:
            return structure.predict(posterior, points, variance, component, derivative)

        def shaped(mean: Array, variance: Array) -> tuple[Array, Array]:
            """Return mean and standard deviation in the shape that users expect."""
            std = self._spread(variance, mean)
            return _on_grid(self._shaped(mean), shape), _on_grid(std, shape)

        latent, variance = evaluate(None, return_std or not (transform.identity or linked))
        mean = latent
        if variance.size:
            mean, variance = new.moments(latent, variance)
        results: list = [_on_grid(self._shaped(mean), shape)]
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
        self, rows: int, noisy: bool = True, noise_variance=None, beside: Beside = NOTHING
    ) -> Observations:
        """Return what turns f at so many rows into answers in the units of y."""
        transform, family = self.transform_, self._fit_data().family
        if isinstance(transform, Response) and family is not None:
            if noise_variance is not None:
                raise ValueError(
                    f"noise_variance is that of Gaussian noise, and the likelihood is {family!r}."
                )
            trained = self._fitted().likelihood
            assert isinstance(trained, Family)
            extra, offset = beside.read(trained, rows)
            return FamilyObservations(noisy, Response(family=trained), extra, offset)
        beside.refuse()
        if not noisy:
            return GaussianObservations(False, transform, Gaussian())
        return GaussianObservations(True, transform, *self._likelihood(noise_variance, rows))

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
        X,
        quantiles=(0.025, 0.5, 0.975),
        include_noise=False,
        *,
        exposure=None,
        offset=None,
        trials=None,
    ):
        """Predict quantiles of f, or of new observations, in the units of y.

        Parameters
        ----------
        X : array-like of shape (n,) or (n, columns), or axes of a grid
            As in `predict`; a source is read whole.
        quantiles : float or sequence of float
            Probabilities between 0 and 1.
        include_noise : bool
            Of new observations (of weight one) rather than of f.
        exposure, offset, trials : number or array-like of shape (n,), optional
            As in `predict`.

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
        beside = [_in_rows(part, shape) for part in (exposure, offset, None, trials)]
        chunk = self._rows_in_memory(_flat(X), None, None, None, None, *beside)
        mean, variance = self._latent(chunk.X)
        new = self._observations(mean.shape[1], include_noise, None, Beside(*tuple(chunk)[5:]))
        out = new.quantiles(shares.ravel(), mean, variance)
        out = out[0] if self._fit_data().single else out.transpose(1, 0, 2)
        return _on_grid(out[..., 0] if shares.ndim == 0 else out, shape)

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
        new = self._observations(latent.shape[1], include_noise, noise_variance, given)
        ends = new.quantiles(ndtr(np.array([-factor, factor])), latent, variance)
        return self._shaped(ends[..., 0]), self._shaped(ends[..., 1])

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

    def sample_y(
        self,
        X,
        n_samples=1,
        random_state=None,
        *,
        include_noise=False,
        exposure=None,
        offset=None,
        trials=None,
    ):
        """Draw joint samples of f at X, of shape (n, n_samples) or (n, outputs, n_samples).

        For a tuple with the axes of a grid, the grid's shape is in place of n. They are in the
        units of y, whatever its ``transform`` or likelihood. With ``include_noise`` they are new
        observations. The other arguments are those of `predict`.

        Examples
        --------
        >>> from asvgp import GPRegressor, Matern12
        >>> gp = GPRegressor(Matern12(), num_basis=9, noise_variance=0.1, optimizer=None)
        >>> gp.fit([0, 1, 2], [1.0, 0.0, -1.0]).sample_y([0.5, 9.0], 5, random_state=0).shape
        (2, 5)
        """
        shape = _grid_shape(X)
        given = [_in_rows(part, shape) for part in (exposure, offset, None, trials)]
        chunk = self._rows_in_memory(_flat(X), None, None, None, None, *given)
        beside = Beside(*tuple(chunk)[5:])
        draws = self._samples(chunk.X, n_samples, random_state, include_noise, None, beside)
        return _on_grid(draws, shape)

    def _samples(
        self,
        X,
        n_samples: int,
        random_state,
        include_noise: bool,
        noise_variance=None,
        beside: Beside = NOTHING,
    ) -> Array:
        """Return joint samples in the units of y, in the shape of `sample_y`."""
        posterior, data = self._fitted().posterior, self._fit_data()
        points, limit = data.points(X), as_bytes(self.memory_limit)
        new = self._observations(points.count, include_noise, noise_variance, beside)
        rng = check_random_state(random_state)
        draws = data.structure.sample(posterior, points, n_samples, rng, limit)
        draws = new.draws(draws, np.random.default_rng(rng.randint(1 << 31)))
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
        self,
        X,
        y=None,
        sample_weight=None,
        noise_variance=None,
        width=None,
        *,
        exposure=None,
        offset=None,
        event=None,
        trials=None,
    ) -> LeaveOneOut:
        """Predict the training data, each without itself, at fixed hyperparameters.

        Arguments are those of `fit`; observations that are averages are predicted as averages. A
        source is read whole. For a tuple with the axes of a grid, the arrays have the grid's shape.
        With a ``transform``, all are in the units of y but the standardised residuals, which are
        normal on its scale. With a likelihood that is not Gaussian, predictions without a row are
        those of its cavity, within a few hundredths of a nat, and the standardised residuals are
        normal scores.
        """
        shape = _grid_shape(X)
        posterior, data = self._fitted().posterior, self._fit_data()
        beside = exposure, offset, event, trials
        chunk = self._rows_in_memory(X, y, sample_weight, noise_variance, width, *beside)
        X, y, sample_weight, noise_variance, *beside = as_rows(*tuple(chunk)[:4], *tuple(chunk)[5:])
        rows = data.rows(X, y, sample_weight, noise_variance, chunk.width, *beside)
        if rows.observed is not None:
            found = self._left_out_of_family(rows, rows.observed)
            return found if shape is None else found.on_grid(shape)
        places = data.structure.places(rows.points)
        found = leave_one_out(posterior, places, rows.y, rows.weights)
        found = left_out(found, read_targets(y, rows.points.count), data.transform)
        return found if shape is None else found.on_grid(shape)

    def _left_out_of_family(self, rows: Rows, observed: Observed) -> LeaveOneOut:
        """Return leave-one-out predictions of a likelihood that is not Gaussian."""
        structure, posterior = self._fit_data().structure, self._fitted().posterior
        new = self._observations(len(observed.y))
        assert isinstance(new, FamilyObservations)
        new = replace(new, extra=observed.extra, offset=observed.offset)
        values = posterior.fitted_values(structure.places(observed.points))
        weight, y, family = observed.weight, observed.y, new.family
        m, v = new.left_out(y, weight, values.mean, values.variance, values.quadratic)
        seen = m if observed.offset is None else m + observed.offset
        mean, _ = family.response_moments(seen, v, observed.extra)
        std = np.sqrt(family.variance(seen, v, observed.extra))
        # of counts, the middle of the jump of the distribution at y
        below = family.cdf(y, seen, v, observed.extra, below=True)
        share = 0.5 * (below + family.cdf(y, seen, v, observed.extra))
        density = family.log_predictive_density(y, seen, v, observed.extra)
        tiny = np.finfo(float).tiny
        parts = mean, std, y - mean, ndtri(np.clip(share, tiny, 1.0 - 1e-16)), density
        full = np.full((len(parts), rows.points.count), np.nan)
        full[:, ~np.isnan(rows.y)] = parts
        return LeaveOneOut(*full)

    def summary(self) -> Summary:
        """Return a summary of what was fitted and whether to believe it; print it.

        The first call after a fit computes two bounds per hyperparameter, for standard errors;
        further calls reuse them.
        """
        return summary(self)

    def score(
        self, X, y=None, sample_weight=None, *, exposure=None, offset=None, event=None, trials=None
    ) -> float:
        """Return the coefficient of determination of the predicted means: one is perfect.

        With several outputs it is their mean. Missing targets of a source are left out. With a
        likelihood that is not Gaussian it is the share of the deviance that is explained.

        Examples
        --------
        >>> import numpy as np
        >>> from asvgp import GPRegressor
        >>> x = np.linspace(0, 10, 1000)
        >>> round(GPRegressor(num_basis=50).fit(x, np.sin(x)).score(x, np.sin(x)), 3)
        1.0
        """
        if self._fit_data().family is not None:
            beside = exposure, offset, event, trials
            chunk = self._rows_in_memory(X, y, sample_weight, None, None, *beside)
            return self._deviance_explained(chunk)
        if is_source(X, y):
            return self._score_of(source_for(X, y, sample_weight))
        X = self._rows_in_memory(X).X
        refuse_masked(sample_weight, "sample_weight")
        return float(r2_score(y, self._means(X), sample_weight=sample_weight))

    def _deviance_explained(self, chunk: Chunk) -> float:
        """Return one less the deviance of predictions, relative to that of one mean for all."""
        X, y, weight, noise, *beside = as_rows(*tuple(chunk)[:4], *tuple(chunk)[5:])
        rows = self._fit_data().rows(X, y, weight, noise, chunk.width, *beside)
        observed = rows.observed
        assert observed is not None
        new = self._observations(len(observed.y), False)
        assert isinstance(new, FamilyObservations)
        new, family = replace(new, extra=observed.extra, offset=observed.offset), new.family
        structure, posterior = self._fit_data().structure, self._fitted().posterior
        mean, _ = new.moments(*structure.predict(posterior, observed.points))
        return deviance_explained(family, observed, mean[0])

    def _means(self, X) -> Any:
        """Return the means of new observations; without a transform the noise does not matter."""
        return self._predict(X, include_noise=not self.transform_.identity)

    def log_predictive_density(
        self,
        X,
        y=None,
        noise_variance=None,
        *,
        exposure=None,
        offset=None,
        event=None,
        trials=None,
    ):
        """Return the log density of new observations under the posterior, one number per row.

        Parameters
        ----------
        X : array-like of shape (n,) or (n, columns), axes of a grid, or source
            As in `predict`.
        y : array-like of shape (n,) or (n, outputs), or names of columns
            As in `fit`; on a grid, values of its shape.
        noise_variance : float or array-like of shape (n,), optional
            As in `predict`.
        exposure, offset, event, trials : number or array-like of shape (n,), optional
            As in `fit`.

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
        beside = exposure, offset, event, trials
        chunk = self._rows_in_memory(X, y, None, noise_variance, None, *beside)
        X, y, noise_variance, *beside = as_rows(
            chunk.X, chunk.y, chunk.noise_variance, *tuple(chunk)[5:]
        )
        mean, variance = self._latent(X)
        rows, single = mean.shape[1], self._fit_data().single
        y = read_targets(y, rows)
        wanted = (rows,) if single else (rows, len(mean))
        if y.shape != wanted:
            raise ValueError(f"y has shape {y.shape}, the predictions have {wanted}.")
        new = self._observations(rows, True, noise_variance, Beside(*beside))
        y = np.asarray(y[None] if single else y.T, dtype=float)
        return _on_grid(new.log_density(y, mean, variance).sum(axis=0), shape)

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
