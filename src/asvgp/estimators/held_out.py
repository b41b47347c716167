"""How well a model predicts: leave-one-out, scores and log densities of held-out rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
from scipy.special import ndtri
from sklearn.metrics import r2_score

from asvgp.basis import Array
from asvgp.data.inputs import as_rows, read_targets, refuse_masked
from asvgp.data.response import Response
from asvgp.diagnostics.summary import Summary, summary
from asvgp.estimators.functionals import FunctionalsMixin
from asvgp.estimators.in_units import left_out
from asvgp.estimators.observations import FamilyObservations
from asvgp.estimators.predict import grid_shape, on_grid
from asvgp.estimators.quality import deviance_explained
from asvgp.likelihoods.family import Family
from asvgp.posterior.leave_one_out import LeaveOneOut, leave_one_out
from asvgp.runtime.interrupts import plain_interrupts
from asvgp.sources.source import Chunk, Source, is_source, source_for
from asvgp.structures.fit_data import Rows
from asvgp.structures.observed import Beside, Observed


class HeldOutMixin(FunctionalsMixin):
    """The part of `GPRegressor` that compares predictions with data."""

    def leave_one_out(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        noise_variance: Any = None,
        width: Any = None,
        *,
        exposure: Any = None,
        offset: Any = None,
        event: Any = None,
        trials: Any = None,
    ) -> LeaveOneOut:
        """Predict the training data, each without itself, at fixed hyperparameters.

        Arguments are those of `fit`; observations that are averages are predicted as averages. A
        source is read whole. For a tuple with the axes of a grid, the arrays have the grid's shape.
        With a ``transform``, all are in the units of y but the standardised residuals, which are
        normal on its scale. With a likelihood that is not Gaussian, predictions without a row are
        those of its cavity, within a few hundredths of a nat, and the standardised residuals are
        normal scores.
        """
        shape = grid_shape(X)
        posterior, data = self._fitted().posterior, self._fit_data()
        beside = exposure, offset, event, trials
        chunk = self._rows_in_memory(X, y, sample_weight, noise_variance, width, *beside)
        X, y, sample_weight, noise_variance, *beside = as_rows(*tuple(chunk)[:4], *chunk.beside)
        rows = data.rows(X, y, sample_weight, noise_variance, chunk.width, *beside)
        if rows.observed is not None:
            found = self._left_out_of_family(rows, rows.observed)
            return found if shape is None else found.on_grid(shape)
        points, targets, weights = rows.points, rows.y, rows.weights
        known = np.asarray(~np.isnan(targets.reshape(points.count, -1)).any(axis=1))
        gaps = points.shape is None and not known.all()  # of a grid, gaps are inside the domain
        if gaps:  # missing rows may lie where no splines are
            points, targets = points.rows(known), targets[known]
            weights = None if weights is None else weights[known]
        found = leave_one_out(posterior, data.structure.places(points), targets, weights)
        found = found.among(np.flatnonzero(known), len(known)) if gaps else found
        found = left_out(found, read_targets(y, rows.points.count), data.transform)
        return found if shape is None else found.on_grid(shape)

    def _left_out_of_family(self, rows: Rows, observed: Observed) -> LeaveOneOut:
        """Return leave-one-out predictions of a likelihood that is not Gaussian."""
        family, y = self._family(), observed.y
        seen, v, extra = self._without_own(observed)
        mean, _ = family.response_moments(seen, v, extra)
        std = np.sqrt(family.variance(seen, v, extra))
        # of counts, the middle of the jump of the distribution at y
        below = family.cdf(y, seen, v, extra, below=True)
        share = 0.5 * (below + family.cdf(y, seen, v, extra))
        density = family.log_predictive_density(y, seen, v, extra)
        tiny = np.finfo(float).tiny
        parts = mean, std, y - mean, ndtri(np.clip(share, tiny, 1.0 - 1e-16)), density
        full = np.full((len(parts), rows.points.count), np.nan)
        full[:, ~np.isnan(rows.y)] = parts
        return LeaveOneOut(*full)

    def _family(self) -> Family:
        """Return the trained likelihood, which is not Gaussian here."""
        return cast(Family, self._fitted().likelihood)

    def _without_own(self, observed: Observed) -> tuple[Array, Array, Array | None]:
        """Return mean and variance of f at rows, each without itself, with its offset.

        The last are what the likelihood takes beside f: the noise without the row, if it is a
        process of its own.
        """
        structure, fitted = self._fit_data().structure, self._fitted()
        values = fitted.posterior.fitted_values(structure.places(observed.points))
        extra = left_out = observed.extra
        y, weight, offset = observed.y, observed.weight, observed.offset
        if (process := fitted.noise_process) is not None:
            residuals = y - values.mean[0] if offset is None else y - values.mean[0] - offset
            squares = residuals**2 + np.ravel(values.variance)
            extra = process.moments(structure, observed.points)
            left_out = process.left_out(structure, observed.points, squares, weight)
        new = FamilyObservations(True, Response(family=self._family()), extra, offset)
        m, v = new.left_out(y, weight, values.mean, values.variance, values.quadratic)
        return (m if offset is None else m + offset), v, left_out

    @plain_interrupts()
    def summary(self) -> Summary:
        """Return a summary of what was fitted and whether to believe it; print it.

        The first call after a fit computes two bounds per hyperparameter, for standard errors;
        further calls reuse them.
        """
        return summary(self)

    def score(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        exposure: Any = None,
        offset: Any = None,
        event: Any = None,
        trials: Any = None,
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
        X, y, weight, noise, *beside = as_rows(*tuple(chunk)[:4], *chunk.beside)
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
        X: Any,
        y: Any = None,
        noise_variance: Any = None,
        *,
        exposure: Any = None,
        offset: Any = None,
        event: Any = None,
        trials: Any = None,
    ) -> Any:
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
        shape = grid_shape(X)
        beside = exposure, offset, event, trials
        chunk = self._rows_in_memory(X, y, None, noise_variance, None, *beside)
        X, y, noise_variance, *beside = as_rows(
            chunk.X, chunk.y, chunk.noise_variance, *chunk.beside
        )
        mean, variance = self._latent(X)
        rows, single = mean.shape[1], self._fit_data().single
        y = read_targets(y, rows)
        wanted = (rows,) if single else (rows, len(mean))
        if y.shape != wanted:
            raise ValueError(f"y has shape {y.shape}, the predictions have {wanted}.")
        new = self._observations(rows, True, noise_variance, Beside(*beside), X)
        y = np.asarray(y[None] if single else y.T, dtype=float)
        return on_grid(new.log_density(y, mean, variance).sum(axis=0), shape)

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
