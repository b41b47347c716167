"""What a fitted model can be asked: predictions, everything linear, checks, attributes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from sklearn.metrics import r2_score

from asvgp.basis import Array
from asvgp.data.columns import Gridded
from asvgp.data.inputs import Seen, as_rows, read_targets, read_weights
from asvgp.diagnostics.summary import Summary, summary
from asvgp.kernels import Effect, Kernel
from asvgp.posterior.chain import ChainPosterior
from asvgp.posterior.grid import GridPosterior
from asvgp.posterior.integrals import integrate
from asvgp.posterior.leave_one_out import LeaveOneOut
from asvgp.runtime.memory import as_bytes
from asvgp.sources.answers import rows_of, score_of, source_to_predict, with_names
from asvgp.sources.sent import Predictor
from asvgp.sources.source import source_for
from asvgp.statistics import Statistics
from asvgp.training.fit import Fit
from asvgp.training.optimise import Report
from asvgp.training.resolution import Level


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


def _on_grid(found, shape: tuple[int, ...], covariance: bool):
    """Predictions row by row in the shape of a grid; covariances stay as they are."""
    if not isinstance(found, tuple):
        return found.reshape(*shape, *found.shape[1:])
    out = []
    for number, part in enumerate(found):
        if isinstance(part, list):
            parts = [
                p._replace(mean=_on_grid(p.mean, shape, False), std=_on_grid(p.std, shape, False))
                for p in part
            ]
            out.append(parts)
        else:
            keep = covariance and number == 1
            out.append(part if keep else _on_grid(part, shape, False))
    return tuple(out)


def _grid_shape(X) -> tuple[int, ...] | None:
    """The shape of the grid whose axes X holds; None of other X."""
    grid = None if isinstance(X, Gridded) else Gridded.of(X)
    return None if grid is None else grid.shape


def _flat(X):
    """Axes as the grid they are of, or as the only column; other X as they are."""
    grid = Gridded.of(X)
    return X if grid is None else grid.plain


class Answers(ABC):
    """The part of `GPRegressor` that does not learn: it asks for the fit, and answers."""

    memory_limit: float | str | None

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
        """ChainPosterior mean, with standard deviation or covariance, anywhere.

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
        source = source_to_predict(self, X)
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
        """Columns by name as arrays, in the shapes that `_predict` has them."""
        arrays, outputs = list(found.values()), len(self.stats_.squares)

        def shaped(first: int):
            own = arrays[first : first + 2 * outputs : 2]
            return own[0] if self._seen().single else np.stack(own, axis=1)

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
        """Predictions as arrays."""
        if return_std and return_cov:
            raise ValueError("At most one of return_std and return_cov can be asked for.")
        if isinstance(derivative, np.ndarray):
            derivative = derivative.tolist()
        if derivative and include_noise:
            raise ValueError("A derivative is of f: there is no noise to include.")
        if not isinstance(X, Gridded) and (grid := Gridded.of(X)) is not None:
            found = self._predict(
                _flat(X),
                return_std,
                return_cov,
                include_noise,
                derivative,
                components,
                noise_variance,
            )
            return _on_grid(found, grid.shape, return_cov)
        structure, posterior = self._seen().structure, self._fitted().posterior
        points = structure.read(self, with_names(self, X))
        noise = self._new_noise(noise_variance, points.count) if include_noise else 0.0

        def evaluate(component: int | None, variance: bool):
            return structure.predict(posterior, points, variance, component, derivative)

        mean, variance = evaluate(None, return_std)
        results = [self._shaped(mean)]
        if return_std:
            results.append(self._spread(variance + noise, mean))
        if return_cov:
            limit = as_bytes(self.memory_limit)
            cov = structure.covariance(posterior, points, derivative, limit)
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
            beta, spread_of, design = structure.effects(posterior, points, derivative)
            for number, effect in enumerate(self.kernel_.effects):
                part = np.outer(beta[number], design[:, number])
                spread = design[:, number] ** 2 * spread_of[number, number]
                parts.append(
                    ComponentPrediction(effect, self._shaped(part), self._spread(spread, part))
                )
            results.append(parts)
        return results[0] if len(results) == 1 else tuple(results)

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
            raise ValueError("At most one of return_std and return_cov can be asked for.")
        structure, posterior = self._seen().structure, self._fitted().posterior
        lower, upper, scalar = structure.corners(a, b)
        mean, spread = integrate(posterior, lower, upper, average, return_std, return_cov)
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

        Of a tuple with the axes of a grid, the grid's shape is in place of n.

        Examples
        --------
        >>> from asvgp import GPRegressor, Matern12
        >>> gp = GPRegressor(Matern12(), num_basis=9, noise_variance=0.1, optimizer=None)
        >>> gp.fit([0, 1, 2], [1.0, 0.0, -1.0]).sample_y([0.5, 9.0], 5, random_state=0).shape
        (2, 5)
        """
        shape = _grid_shape(X)
        X = rows_of(self, _flat(X))[0]
        structure, posterior = self._seen().structure, self._fitted().posterior
        points, limit = structure.read(self, X), as_bytes(self.memory_limit)
        draws = structure.sample(posterior, points, n_samples, random_state, limit)
        draws = draws[0] if self._seen().single else draws.transpose(1, 0, 2)
        return draws if shape is None else _on_grid(draws, shape, False)

    def sample_paths(self, n_samples=1, random_state=None, component=None):
        """ChainPosterior sample paths over the domain, as callable objects.

        A list of ``n_samples``; with several outputs a path is vector-valued. Of models of one
        input it is a `scipy.interpolate.BSpline`, whose argument is in the units of X, seconds
        since ``time_origin_`` where X holds times; outside the domain it is NaN. Linear effects
        of other columns are left out. With several inputs a path is called with rows as
        `predict` is, and has all effects.

        ``component`` counts from zero: the paths of this component alone. The same
        ``random_state`` draws the same joint sample, so that the components' paths and the
        effects add up.
        """
        structure, posterior = self._seen().structure, self._fitted().posterior
        return structure.paths(posterior, n_samples, random_state, component)

    def leave_one_out(
        self, X, y=None, sample_weight=None, noise_variance=None, width=None
    ) -> LeaveOneOut:
        """Predictions of the training data, each without itself, at fixed hyperparameters.

        Arguments as in `fit`; what is predicted is what was observed, averages too. A source is
        read whole. Of a tuple with the axes of a grid, the arrays have the grid's shape.
        """
        shape = _grid_shape(X)
        rows = rows_of(self, X, y, sample_weight, noise_variance, width)
        X, y, sample_weight, noise_variance, width = rows
        X, y, sample_weight, noise_variance = as_rows(X, y, sample_weight, noise_variance)
        data, posterior = self._seen(), self._fitted().posterior
        points = data.structure.read(self, X, width=width)
        y = read_targets(y, points.count)
        data.check_convention(noise_variance)
        weights = read_weights(sample_weight, noise_variance, points.count)
        found = data.structure.leave_one_out(posterior, points, y, weights)
        return found if shape is None else found.on_grid(shape)

    def summary(self) -> Summary:
        """What was fitted and whether to believe it; print it.

        The first of a fit takes two bounds for every hyperparameter, for their standard errors;
        they are kept for the next.
        """
        return summary(self)

    def score(self, X, y=None, sample_weight=None) -> float:
        """Coefficient of determination of the predicted means: one is perfect.

        The mean over the outputs, where there are several. Of a source, what is missing is left
        out.

        Examples
        --------
        >>> import numpy as np
        >>> from asvgp import GPRegressor
        >>> x = np.linspace(0, 10, 1000)
        >>> round(GPRegressor(num_basis=50).fit(x, np.sin(x)).score(x, np.sin(x)), 3)
        1.0
        """
        source = source_for(X, y, sample_weight)
        if source is not None:
            return score_of(self, source)
        X = rows_of(self, X)[0]
        return float(r2_score(y, self._predict(X), sample_weight=sample_weight))

    def log_predictive_density(self, X, y=None, noise_variance=None):
        """Log density of new observations under the posterior, one number per row.

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
        X, y, _, noise_variance, _ = rows_of(self, X, y, None, noise_variance)
        X, y, noise_variance = as_rows(X, y, noise_variance)
        mean, std = self._predict(
            X, return_std=True, include_noise=True, noise_variance=noise_variance
        )
        y = read_targets(y, len(mean))
        if y.shape != mean.shape:
            raise ValueError(f"y has shape {y.shape}, the predictions have {mean.shape}.")
        density = -0.5 * np.log(2.0 * np.pi) - np.log(std) - 0.5 * ((y - mean) / std) ** 2
        density = density if density.ndim == 1 else density.sum(axis=1)
        return density if shape is None else density.reshape(shape)

    @property
    def kernel_(self) -> Kernel:
        """The kernel with trained hyperparameters; scales are durations where X holds times."""
        data = self._seen()
        return data.structure.labelled(self._fitted().kernel)

    @property
    def effects_(self) -> list[EffectEstimate]:
        """The fixed effects: coefficients per unit of their column, per second for times."""
        data, posterior = self._seen(), self._fitted().posterior
        beta, covariance, _ = data.structure.effects(posterior, None, 0)
        errors = np.sqrt(np.diag(covariance))
        timed = data.structure.timed(self.kernel_)
        names = [
            effect.name + (" per second" if getattr(effect, "dim", 0) in timed else "")
            for effect in self.kernel_.effects
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
        axis = self._seen().axis
        return None if axis is None else axis.origin

    @property
    def evidence_upper_bound_(self) -> float:
        """Upper bound on the log evidence."""
        return self._fitted().upper

    @property
    def num_basis_(self) -> int | tuple[int, ...]:
        """Number of basis functions of each component, along every input if several."""
        return self._seen().structure.num_basis(self._fitted().posterior)

    @property
    def domain_(self) -> tuple:
        """The interval of the splines; one an input where there are several."""
        data = self._seen()
        return data.structure.domain(data.stats)

    @property
    def stats_(self) -> Statistics:
        """Sufficient statistics of all data seen."""
        return self._seen().stats

    @property
    def posterior_(self) -> ChainPosterior | GridPosterior:
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
