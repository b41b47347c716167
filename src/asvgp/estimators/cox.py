"""Events in time or in the plane: a Poisson process whose log intensity is a Gaussian process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from asvgp.basis import Array, Grid
from asvgp.data.columns import Table
from asvgp.data.settings import Domain, NumBasis
from asvgp.diagnostics.summary import Summary
from asvgp.estimators.default_kernel import PLAIN
from asvgp.estimators.events import Seen, alone, as_box, as_windows, check_boxes
from asvgp.estimators.families import fit_reading
from asvgp.estimators.in_units import corner
from asvgp.estimators.ingest import absorb
from asvgp.estimators.regressor import GPRegressor
from asvgp.kernels import EarthMatern, Kernel
from asvgp.likelihoods import Poisson
from asvgp.policies import EVENTS
from asvgp.runtime.arguments import NamingEstimator
from asvgp.runtime.parallel import one_blas_thread
from asvgp.runtime.progress import Progress
from asvgp.sites.cells import workable
from asvgp.sites.readings import NodeReading
from asvgp.sources.source import source_for
from asvgp.statistics.windows import Pieces, window_nodes, window_pieces
from asvgp.times import as_duration
from asvgp.training.optimise import LBFGS


class CoxProcess(BaseEstimator, metaclass=NamingEstimator):
    """Model of events at certain times or places (a log-Gaussian Cox process).

    The model estimates the intensity, which is the number of events per unit of time or area. Its
    logarithm f is a Gaussian process. The events are not counted in bins, and training takes the
    same time for a hundred events and for a million.

    Parameters
    ----------
    kernel : Kernel or None, default=None
        The covariance function of f. Add a `Constant` to a kernel of your own: the expected number
        of events over what was observed is then the observed one. None is
        ``Matern32() + Constant()`` for one input; for two or three inputs the kernel is chosen from
        the data.
    domain : None, (a, b) or a sequence of such pairs
        The interval or box in which events were observed. Give it if you know it, because the time
        without events before the first one is information, too. By default it is the range of the
        ``windows``, or else the range of the n events, made wider by a share of 2 / (n - 1).
    exposure : None or callable
        Which share of the events was observed at X, or how many independent processes were
        observed. It is a function that takes an array like that of the events and returns a number
        that is not negative for each row. The intensity is then per unit of exposure.
    windows : None or sequence
        The parts of the domain that were observed, if this is not all of it: intervals ``(a, b)``,
        or boxes ``((a, b), (c, d))``, which must not overlap.
    num_basis, degree, optimizer, device, progress, memory_limit
        The same as in `GPRegressor`.

    Attributes
    ----------
    regressor_ : GPRegressor
        The model of f, with its trained ``kernel_``, the bound ``elbo_``, sample paths and so on.
    events_ : int
        Number of events.
    windows_ : list
        The intervals or boxes that were observed, in the units of the events.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import CoxProcess
    >>> rng = np.random.default_rng(0)
    >>> times = rng.uniform(0, 100, 3000)
    >>> times = times[rng.random(3000) < 0.5 + 0.5 * np.sin(times / 10)]
    >>> cox = CoxProcess(domain=(0, 100)).fit(times)
    >>> rate, std = cox.intensity([15.7, 47.1], return_std=True)
    >>> bool(abs(rate[0] - 30.0) < 4 * std[0]), bool(rate[1] < 3.0)
    (True, True)
    >>> bool(abs(cox.expected_count(0, 100) / len(times) - 1) < 1e-3)
    True
    """

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        domain: Domain = None,
        exposure: Callable[[Any], Any] | None = None,
        windows: Sequence[Any] | None = None,
        num_basis: NumBasis = "auto",
        degree: int | None = None,
        optimizer: Literal["lbfgs"] | LBFGS | None = "lbfgs",
        device: str = "cpu",
        progress: Literal["auto"] | bool = "auto",
        memory_limit: float | str | None = None,
    ) -> None:
        self.kernel = kernel
        self.domain = domain
        self.exposure = exposure
        self.windows = windows
        self.num_basis = num_basis
        self.degree = degree
        self.optimizer = optimizer
        self.device = device
        self.progress = progress
        self.memory_limit = memory_limit

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to events.

        Parameters
        ----------
        X : array-like of shape (n,) or (n, inputs)
            Times (numbers or datetimes) or places of the events, one per row, in any order. Several
            events may happen at the same place.
        y : None
            Not used.

        Returns
        -------
        CoxProcess
            The fitted estimator itself.
        """
        table = Table(X)
        latitude = _latitude(self.kernel, table.names)
        seen = Seen.read(table, self.domain, self.windows, self.exposure, latitude)
        regressor = self._regressor(seen)
        settings = regressor._settings()
        with Progress(settings.progress) as progress, one_blas_thread:
            # Counts in bins decide about the finest cells, and where none is given on the kernel.
            bins, counts, sizes = seen.bins()
            added = absorb(settings, source_for(bins, counts, None, None, None, sizes))
            structure = added.data.structure
            seen = seen.on(structure.axes)
            stats, nodes = seen.sums(structure, workable(settings, structure, added.data.stats))
            settings = settings.with_kernel(added.data.layout.given)
            reading = NodeReading(structure, stats, nodes)
            fitted = fit_reading(
                settings, structure, Poisson(), stats, reading, None, progress.training
            )
        regressor._replace(added.data.with_statistics(stats))
        regressor._fit_now = fitted
        regressor._announce(fitted)
        return self._take(regressor, len(seen.columns[0]), seen.without_events())

    def _take(self, regressor: GPRegressor, events: int, seen: Seen | None = None) -> Self:
        """Keep what was fitted; what was ``seen``, but for the events, follows from the model."""
        if seen is None:
            data = regressor._fit_data()
            axes, names = data.structure.axes, data.features.names
            domain = as_box(regressor.domain, axes, "domain")
            windows = [as_box(each, axes, "windows") for each in as_windows(self.windows)]
            check_boxes(windows, domain)
            none = [np.empty(0) for _ in axes]
            latitude = _latitude(self.kernel, names)
            seen = Seen(names, axes, none, domain, windows or [domain], None, latitude)
        self.regressor_, self.events_, self._seen = regressor, int(events), seen
        self.windows_ = [alone(seen.in_units(box)) for box in seen.boxes]
        self.n_features_in_: int = len(seen.columns)
        return self

    def _regressor(self, seen: Seen) -> GPRegressor:
        """Return a regressor with the settings of this estimator, without data."""
        settings = self.get_params(deep=False)
        del settings["exposure"], settings["windows"]
        settings["domain"] = alone(seen.in_units(seen.domain))
        if settings["kernel"] is None and len(seen.columns) == 1:
            settings["kernel"] = PLAIN
        return GPRegressor(**settings, likelihood=Poisson())

    def _model(self) -> GPRegressor:
        if "regressor_" not in vars(self):
            raise NotFittedError(f"This {type(self).__name__} has no events yet. Call fit first.")
        return self.regressor_

    def intensity(self, X: Any, return_std: bool = False, *, per: Any = None) -> Any:
        """Return the mean intensity at X.

        The intensity is the number of events per unit of X and of exposure. With
        ``coordinates="degrees"`` the unit is a square degree of arc, which has the same area
        everywhere.

        Parameters
        ----------
        X : array-like of shape (n,) or (n, inputs), or axes of a grid
            Where to predict.
        return_std : bool
            Whether to also return the standard deviation of the intensity.
        per : duration, optional
            Unit of time, such as "1 day", if X holds times. The default is one second.

        Returns
        -------
        intensity : ndarray of shape (n,)
        std : ndarray of shape (n,), with ``return_std``

        Examples
        --------
        >>> import numpy as np
        >>> from asvgp import CoxProcess
        >>> days = np.datetime64("2024-01-01", "h") + np.arange(0, 24 * 100, 5)
        >>> cox = CoxProcess(domain=("2024-01-01", "2024-04-10")).fit(days)
        >>> cox.intensity(np.array(["2024-02-10"], "datetime64[D]"), per="1 day").round(1).tolist()
        [4.8]
        """
        unit, model = self._unit(per), self._model()
        if not return_std:
            return unit * np.asarray(model.predict(X))
        mean, std = model.predict(X, return_std=True)
        return unit * mean, unit * std

    def intensity_quantiles(
        self, X: Any, quantiles: Any = (0.025, 0.5, 0.975), *, per: Any = None
    ) -> Array:
        """Return quantiles of the intensity at X.

        Parameters
        ----------
        X, per
            The same as in `intensity`.
        quantiles : sequence of float
            Probabilities between 0 and 1.

        Returns
        -------
        ndarray of shape (n, quantiles)
        """
        return self._model().predict_quantiles(X, quantiles) * self._unit(per)

    def _unit(self, per) -> float:
        """Return by what intensities are multiplied."""
        if per is None:
            return 1.0
        self._model()
        timed = [axis for axis in self._seen.axes if axis is not None]
        seconds = as_duration(per)
        if not timed or seconds is None:
            raise ValueError(
                f"per={per!r} must be a duration such as '1 day', where events have times."
            )
        return float(seconds) ** len(timed)

    def expected_count(
        self, a: Any, b: Any, return_std: bool = False, *, include_noise: bool = False
    ) -> Any:
        """Return the expected number of events between a and b, with an exposure of one.

        Parameters
        ----------
        a, b : number or time, or array-like of shape (m,)
            Ends of intervals. With several inputs, opposite corners of boxes, of shape (inputs,) or
            (m, inputs).
        return_std : bool
            Whether to also return the standard deviation of the expected number.
        include_noise : bool
            If True, the standard deviation includes the random variation of the number of events.

        Returns
        -------
        count : float or ndarray of shape (m,)
        std : of the same shape, with ``return_std``
        """
        model = self._model()
        if self._seen.latitude is not None:
            if return_std:
                raise ValueError(
                    "return_std: standard deviations of counts are not available with "
                    "coordinates='degrees'. Take them from sample()."
                )
            low, high = np.broadcast_arrays(self._seen.corners(a), self._seen.corners(b))
            self._check_order(low, high, a, b)
            self._seen.check_inside(low, high)
            shape = np.broadcast_shapes(np.shape(a)[:-1], np.shape(b)[:-1])
            return self._counted(low, high, np.zeros(shape))
        structure = model._fit_data().structure
        lower, upper, _ = structure.corners(a, b)
        low, high = np.broadcast_arrays(corner(structure, lower), corner(structure, upper))
        self._check_order(low, high, a, b)
        found = model.integrate(a, b, return_std=return_std)
        mean = self._counted(low, high, found[0] if return_std else found)
        if not return_std:
            return mean
        return mean, np.sqrt(found[1] ** 2 + mean) if include_noise else found[1]

    @staticmethod
    def _check_order(low: Array, high: Array, a: Any, b: Any) -> None:
        if np.any(high < low):
            raise ValueError(f"Intervals must not end before they begin, got a = {a}, b = {b}.")

    def _counted(self, low: Array, high: Array, mean: Any) -> Any:
        """Return expected counts: cell by cell in boxes inside the domain, as given in others."""
        model = self._model()
        grids = model.posterior_.stats.grids
        number = [degree + EVENTS.further_nodes for degree in model.posterior_.stats.degrees]
        out = np.array(mean, dtype=float, ndmin=1)
        for i, ends in enumerate(zip(low, high, strict=True)):
            box = tuple(zip(*ends, strict=True))
            pairs = zip(grids, box, strict=True)
            if all(grid.lower <= x < y <= grid.upper for grid, (x, y) in pairs):
                nodes = window_nodes(grids, [box], number)
                masses = nodes.masses * self._seen.areas(nodes.inputs)
                out[i] = masses @ self._rates(nodes.inputs)
        return out.reshape(np.shape(mean))[()]

    def _rates(self, columns: Sequence[Array]) -> Array:
        """Return mean intensities at places, as numbers."""
        model = self._model()
        structure = model._fit_data().structure
        points = structure.points_at(dict(zip(structure.layout.used, columns, strict=True)))
        mean, variance = structure.predict(model.posterior_, points)
        return Poisson().response_moments(mean[0], variance)[0]

    def sample(self, n_samples: int = 1, random_state: Any = None) -> list[Array]:
        """Draw random sets of events, as they would be observed in the windows.

        For each set, an intensity is drawn from the posterior first. It is constant on pieces of
        half a cell.

        Parameters
        ----------
        n_samples : int
            Number of sets.
        random_state : int, RandomState instance or None
            Random state.

        Returns
        -------
        list of ndarray
            The sets, each of shape (n,) or (n, inputs) with a different n. The events of a set are
            in no particular order.

        Examples
        --------
        >>> import numpy as np
        >>> from asvgp import CoxProcess
        >>> cox = CoxProcess(domain=(0, 10)).fit(np.linspace(0.01, 9.99, 500))
        >>> sets = cox.sample(3, random_state=0)
        >>> len(sets), all(400 < len(each) < 600 for each in sets)
        (3, True)
        """
        model = self._model()
        structure, rng = model._fit_data().structure, check_random_state(random_state)
        seen = self._seen
        pieces = window_pieces(_halved(model.posterior_.stats.grids), seen.boxes)
        middle = pieces.at(*[np.full(len(pieces.cells), 0.5)] * len(pieces.low))
        sizes = pieces.sizes * seen.measured(middle)
        points = structure.points_at(dict(zip(structure.layout.used, middle, strict=True)))
        # what the splines miss of the variance of f is in no path, but in the mean of exp(f)
        values = model.posterior_.fitted_values(structure.places(points))
        missed = np.maximum(np.ravel(values.variance - values.quadratic), 0.0)
        sizes = sizes * np.exp(0.5 * missed)
        paths = structure.paths(model.posterior_, n_samples, rng, None)
        # a path of one input takes numbers, one of several takes rows
        places = middle[0] if len(middle) == 1 else seen.given(middle)
        out = []
        for path in paths:
            rates = np.exp(np.ravel(path(places)))
            each = np.repeat(np.arange(len(sizes)), rng.poisson(rates * sizes))
            drawn = Pieces(
                tuple(low[each] for low in pieces.low),
                tuple(high[each] for high in pieces.high),
                pieces.cells[each],
            )
            out.append(seen.rows(drawn.at(*rng.uniform(size=(len(pieces.low), len(each))))))
        return out

    def save(self, path: Any, *, full: bool = False) -> None:
        """Write the model to a file, from which `asvgp.load` makes it again.

        Files hold no functions: with an ``exposure``, save ``regressor_``. What ``full`` means is
        as in `GPRegressor.save`.
        """
        from asvgp.estimators.persistence import save_cox

        save_cox(self, path, full)

    def summary(self) -> Summary:
        """Return a summary of the model of f; print it."""
        return self._model().summary()

    def __sklearn_is_fitted__(self) -> bool:
        return "regressor_" in vars(self)


def _latitude(kernel: Kernel | None, names: Sequence[str] | None) -> int | None:
    """Return the number of the column of latitudes of a kernel on the sphere, or None."""
    for part in () if kernel is None else kernel.components:
        for factor in part.factors:
            if isinstance(factor, EarthMatern):
                column = (factor.dim or (0, 1))[1]
                return list(names or ()).index(column) if isinstance(column, str) else column
    return None


def _halved(grids: Sequence[Grid]) -> list[Grid]:
    """Return grids of half the cells' width, or as fine as there may be pieces."""
    most = max(1, int(EVENTS.most_pieces ** (1.0 / len(grids))))
    return [Grid(grid.lower, grid.upper, min(2 * grid.cells, most)) for grid in grids]
