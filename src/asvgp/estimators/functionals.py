"""Integrals, samples and paths: the part of an estimator that asks for more than points."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.utils import check_random_state

from asvgp.basis import Array
from asvgp.estimators.in_units import Integrals, PathOfY
from asvgp.estimators.observations import FamilyObservations
from asvgp.estimators.predict import PredictMixin, flat, grid_shape, in_rows, on_grid
from asvgp.likelihoods import Heteroscedastic
from asvgp.posterior.integrals import integrate
from asvgp.runtime.memory import as_bytes
from asvgp.structures.observed import NOTHING, Beside


class FunctionalsMixin(PredictMixin):
    """The part of `GPRegressor` that integrates f and draws from its posterior."""

    def integrate(
        self,
        a: Any,
        b: Any,
        return_std: bool = False,
        return_cov: bool = False,
        average: bool = False,
    ) -> Any:
        """Integrate f over intervals or boxes, or return its average over them.

        Parameters
        ----------
        a, b : scalars or array-like of shape (m,); with D inputs, of shape (D,) or (m, D)
            The ends of the intervals, or opposite corners of the boxes. They may lie anywhere, also
            beyond the data. With several inputs, give one number for each column that a kernel
            (not only a linear effect) is over, in the order of the columns in X.
        return_std : bool
            Whether to return standard deviations.
        return_cov : bool
            Whether to return the covariance matrix of the integrals. It cannot be combined with
            ``return_std``.
        average : bool
            Whether to divide by the length or volume. If both ends are the same along an input, f
            is evaluated there.

        Returns
        -------
        integral : float or ndarray of shape (m,) or (m, outputs)
            For a single interval or box, a number, or one number per output.
        std : of the same shape, with ``return_std``
        cov : ndarray of shape (m, m) or (m, m, outputs), with ``return_cov``

        Notes
        -----
        Linear effects of columns that no kernel is over are left out. With several inputs, the
        standard deviation of each box needs one solve with the factorised matrix. With a
        ``transform``, integrals of y are computed by numerical quadrature.

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
        X: Any,
        n_samples: int = 1,
        random_state: Any = None,
        *,
        include_noise: bool = False,
        exposure: Any = None,
        offset: Any = None,
        trials: Any = None,
    ) -> Any:
        """Draw joint samples of f at X, in the units of y.

        Parameters
        ----------
        X : array-like of shape (n,) or (n, columns), or axes of a grid
            Where to draw, as in `predict`.
        n_samples : int
            Number of samples.
        random_state : int, RandomState instance or None
            Random state of the samples.
        include_noise : bool
            Whether to draw new observations instead of f.
        exposure, offset, trials : number or array-like of shape (n,), optional
            The same as in `predict`.

        Returns
        -------
        ndarray of shape (n, n_samples) or (n, outputs, n_samples)
            If X holds the axes of a grid, the shape of the grid takes the place of n.

        Examples
        --------
        >>> from asvgp import GPRegressor, Matern12
        >>> gp = GPRegressor(Matern12(), num_basis=9, noise_variance=0.1, optimizer=None)
        >>> gp.fit([0, 1, 2], [1.0, 0.0, -1.0]).sample_y([0.5, 9.0], 5, random_state=0).shape
        (2, 5)
        """
        shape = grid_shape(X)
        given = [in_rows(part, shape) for part in (exposure, offset, None, trials)]
        chunk = self._rows_in_memory(flat(X), None, None, None, None, *given)
        draws = self._samples(chunk.X, n_samples, random_state, include_noise, None, chunk.beside)
        return on_grid(draws, shape)

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
        new = self._observations(points.count, include_noise, noise_variance, beside, points)
        rng = check_random_state(random_state)
        draws = data.structure.sample(posterior, points, n_samples, rng, limit)
        process = self._fitted().noise_process
        if include_noise and process is not None:  # whose draws belong together, too
            g = process.sample(data.structure, points, n_samples, rng, limit)
            assert isinstance(new, FamilyObservations)
            new = replace(new, noisy=False)
            draws = draws + np.exp(0.5 * g) * rng.standard_normal(g.shape)
        draws = new.draws(draws, np.random.default_rng(rng.randint(1 << 31)))
        return draws[0] if data.single else draws.transpose(1, 0, 2)

    def predict_noise(self, X: Any, return_std: bool = False, quantiles: Any = None) -> Any:
        """Predict the standard deviation of the noise if the likelihood is `Heteroscedastic`.

        Parameters
        ----------
        X : array-like of shape (n,) or (n, columns), or axes of a grid
            Where to predict, as in `predict`. A source is read as a whole.
        return_std : bool
            Whether to also return how well the noise level is known, as a standard deviation.
        quantiles : float or sequence of float, optional
            Probabilities between 0 and 1, such as ``(0.025, 0.5, 0.975)`` for a 95 % band. If
            given, these quantiles of the noise level are returned instead of its mean.

        Returns
        -------
        noise : ndarray of shape (n,), or (n, quantiles)
            The noise level in the units of y. If X holds the axes of a grid, the shape of the grid
            takes the place of n.
        std : ndarray of shape (n,), with ``return_std``

        Examples
        --------
        >>> import numpy as np
        >>> from asvgp import GPRegressor, Heteroscedastic
        >>> rng = np.random.default_rng(0)
        >>> x = np.linspace(0.0, 10.0, 500)
        >>> y = np.sin(x) + np.exp(0.3 * x - 4.0) * rng.standard_normal(500)
        >>> gp = GPRegressor(likelihood=Heteroscedastic()).fit(x, y)
        >>> low, middle, high = gp.predict_noise([5.0], quantiles=(0.025, 0.5, 0.975))[0]
        >>> bool(low < np.exp(-2.5) < high)
        True
        """
        family = self._fit_data().family
        if not isinstance(family, Heteroscedastic):
            noise = "Gaussian noise, the same everywhere" if family is None else repr(family)
            raise ValueError(
                f"The likelihood is {noise}: predict_noise is for likelihood=Heteroscedastic()."
            )
        if return_std and quantiles is not None:
            raise ValueError("At most one of return_std and quantiles can be requested.")
        shape, chunk = grid_shape(X), self._rows_in_memory(flat(X))
        m, v = self._noise_at(chunk.X).T
        if quantiles is not None:
            shares = np.asarray(quantiles, dtype=float)
            if shares.ndim > 1 or not np.all((shares > 0.0) & (shares < 1.0)):
                raise ValueError(f"quantiles must be between 0 and 1, got {quantiles!r:.80}.")
            ends = np.exp(0.5 * (m[:, None] + np.sqrt(v)[:, None] * ndtri(shares.ravel())))
            return on_grid(ends[:, 0] if shares.ndim == 0 else ends, shape)
        mean = on_grid(np.exp(0.5 * m + 0.125 * v), shape)
        return (mean, mean * np.sqrt(np.expm1(0.25 * on_grid(v, shape)))) if return_std else mean

    def sample_paths(
        self, n_samples: int = 1, random_state: Any = None, component: Any = None
    ) -> Any:
        """Draw random functions from the posterior, as callable objects.

        Parameters
        ----------
        n_samples : int
            Number of functions.
        random_state : int, RandomState instance or None
            Random state. The same state draws the same joint sample of all components, so that the
            paths of the components and the effects add up.
        component : int, optional
            Number of a component, from zero. If given, its paths are drawn instead of those of f.

        Returns
        -------
        list of callables
            With one input, each is a `scipy.interpolate.BSpline` over the domain, and NaN outside.
            Its argument is in the units of X, or in seconds since ``time_origin_`` if X holds
            times. Linear effects of other columns are left out. With several inputs, a path is
            called with rows as `predict` is, and contains all effects. With several outputs, it is
            vector-valued. With a ``transform``, paths of f are in the units of y and paths of
            components are on the transformed scale.
        """
        transform, posterior = self.transform_, self._fitted().posterior
        paths = self._fit_data().structure.paths(posterior, n_samples, random_state, component)
        if transform.identity or component is not None:
            return paths
        return [PathOfY(path, transform) for path in paths]
