"""Events in time or in the plane: a Poisson process whose log intensity is a Gaussian process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from asvgp.basis import Array, Grid
from asvgp.data.columns import Columns, Table
from asvgp.data.settings import Domain, NumBasis
from asvgp.diagnostics.summary import Summary
from asvgp.estimators.default_kernel import PLAIN
from asvgp.estimators.families import fit_reading, workable
from asvgp.estimators.in_units import corner
from asvgp.estimators.ingest import absorb
from asvgp.estimators.regressor import GPRegressor
from asvgp.kernels import Kernel
from asvgp.likelihoods import Poisson
from asvgp.policies import EVENTS
from asvgp.runtime.parallel import one_blas_thread
from asvgp.runtime.progress import Progress
from asvgp.sites.readings import NodeReading
from asvgp.sources.source import source_for
from asvgp.statistics import Statistics
from asvgp.statistics.accumulator import Accumulator
from asvgp.statistics.nodes import Nodes
from asvgp.statistics.windows import Box, Pieces, inside, window_nodes, window_pieces
from asvgp.structures.structure import Structure
from asvgp.times import TimeAxis, Zoned, as_duration, is_time
from asvgp.training.optimise import LBFGS


class CoxProcess(BaseEstimator):
    """Events whose intensity is the exponential of a Gaussian process (a log-Gaussian Cox process).

    Events enter as they are, without bins. The logarithm of their density is the sum of f over the
    events less the integral of exp(f) over what was observed. Both depend on the splines by sums
    and Gauss-Legendre nodes per cell, so that training costs the same for a hundred events and for
    a million.

    Parameters
    ----------
    kernel : Kernel or None, default=None
        Of f, the logarithm of the intensity. It should have a `Constant`, the level of f: then
        the integral of the mean intensity over what was observed is the number of events. None is
        ``Matern32() + Constant()`` for one input; for two or three it is chosen from the data.
    domain : None, (a, b) or a sequence of such pairs
        The interval, or the box, that was observed. By default that of the ``windows``; where there
        are none, the range of the events, widened by the share 2 / (n - 1) that n uniform events
        lack on average. Give it if you know it: that nothing happened before the first event is
        part of the data.
    exposure : None or callable
        What share of the events was observed at X, or how many independent processes were: a
        function of an array as events are given, which returns one number from zero on per row.
        The intensity is that per unit of exposure.
    windows : None or sequence
        What was observed, where this is not all of the domain: intervals ``(a, b)``, or boxes
        ``((a, b), (c, d))`` of several inputs, which do not overlap.
    num_basis, degree, optimizer, device, progress, memory_limit
        As in `GPRegressor`.

    Attributes
    ----------
    regressor_ : GPRegressor
        The model of f: its trained ``kernel_``, bound ``elbo_``, sample paths and so on.
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
            Times (numbers or datetimes) or places of the events, in any order; events at one place
            are as many as there are rows.
        y : None
            Not used.

        Returns
        -------
        CoxProcess
            Itself.
        """
        seen = _Seen.read(Table(X), self.domain, self.windows, self.exposure)
        regressor = self._regressor(seen)
        settings = regressor._settings()
        with Progress(settings.progress) as progress, one_blas_thread:
            # Counts in bins decide about the finest cells, and where none is given on the kernel.
            bins, counts, sizes = seen.bins()
            added = absorb(settings, source_for(bins, counts, None, None, None, sizes))
            structure = added.data.structure
            seen = seen.on(structure.axes)
            stats, nodes = seen.sums(structure, workable(structure, added.data.stats))
            settings = settings.with_kernel(added.data.layout.given)
            reading = NodeReading(structure, stats, nodes)
            fitted = fit_reading(
                settings, structure, Poisson(), stats, reading, None, progress.training
            )
        regressor._replace(added.data.with_statistics(stats))
        regressor._fit_now = fitted
        regressor._announce(fitted)
        return self._take(regressor, len(seen.columns[0]), seen)

    def _take(self, regressor: GPRegressor, events: int, seen: _Seen | None = None) -> Self:
        """Keep what was fitted; what was ``seen``, but for the events, follows from the model."""
        if seen is None:
            data = regressor._fit_data()
            axes, names = data.structure.axes, data.features.names
            domain = _box(regressor.domain, axes, "domain")
            windows = [_box(each, axes, "windows") for each in _windows(self.windows, len(axes))]
            _check_boxes(windows, domain)
            none = [np.empty(0) for _ in axes]
            seen = _Seen(names, axes, none, domain, windows or [domain], None)
        self.regressor_, self.events_, self._seen = regressor, int(events), seen
        self.windows_ = [_alone(seen.in_units(box)) for box in seen.boxes]
        self.n_features_in_: int = len(seen.columns)
        return self

    def _regressor(self, seen: _Seen) -> GPRegressor:
        """Return a regressor with the settings of this estimator, without data."""
        settings = self.get_params(deep=False)
        del settings["exposure"], settings["windows"]
        settings["domain"] = _alone(seen.in_units(seen.domain))
        if settings["kernel"] is None and len(seen.columns) == 1:
            settings["kernel"] = PLAIN
        return GPRegressor(**settings, likelihood=Poisson())

    def _model(self) -> GPRegressor:
        if "regressor_" not in vars(self):
            raise NotFittedError(f"This {type(self).__name__} has no events yet. Call fit first.")
        return self.regressor_

    def intensity(self, X: Any, return_std: bool = False, *, per: Any = None) -> Any:
        """Return the mean intensity at X: events per unit of X, and of exposure.

        Parameters
        ----------
        X : array-like of shape (n,) or (n, inputs), or axes of a grid
        return_std : bool
            Also the standard deviation of the intensity.
        per : duration, optional
            Unit of time ("1 day") where X holds times; by default it is the second.

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
        """Return quantiles of the intensity at X, of shape (n, quantiles), for bands.

        Parameters
        ----------
        X, per
            As in `intensity`.
        quantiles : sequence of float
            Shares between zero and one.
        """
        return self._model().predict_quantiles(X, quantiles) * self._unit(per)

    def _unit(self, per) -> float:
        """Return by what intensities are multiplied."""
        if per is None:
            return 1.0
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
            Ends of intervals; with several inputs opposite corners of boxes, of shape (inputs,) or
            (m, inputs).
        return_std : bool
            Also the standard deviation of the integral of the intensity.
        include_noise : bool
            The standard deviation is that of the number of events itself.
        """
        model = self._model()
        found = model.integrate(a, b, return_std=return_std)
        mean = self._counted(a, b, found[0] if return_std else found)
        if not return_std:
            return mean
        return mean, np.sqrt(found[1] ** 2 + mean) if include_noise else found[1]

    def _counted(self, a, b, mean):
        """Return expected counts: cell by cell in boxes inside the domain, as given in others."""
        model = self._model()
        structure, grids = model._fit_data().structure, model.posterior_.stats.grids
        lower, upper, _ = structure.corners(a, b)
        low, high = np.broadcast_arrays(corner(structure, lower), corner(structure, upper))
        number = [degree + EVENTS.further_nodes for degree in model.posterior_.stats.degrees]
        out = np.array(mean, dtype=float, ndmin=1)
        for i, ends in enumerate(zip(low, high, strict=True)):
            box = tuple(zip(*ends, strict=True))
            pairs = zip(grids, box, strict=True)
            if all(grid.lower <= x < y <= grid.upper for grid, (x, y) in pairs):
                nodes = window_nodes(grids, [box], number)
                out[i] = nodes.masses @ self._rates(nodes.inputs)
        return out.reshape(np.shape(mean))[()]

    def _rates(self, columns: Sequence[Array]) -> Array:
        """Return mean intensities at places, as numbers."""
        model = self._model()
        structure = model._fit_data().structure
        points = structure.points_at(dict(zip(structure.layout.used, columns, strict=True)))
        mean, variance = structure.predict(model.posterior_, points)
        return Poisson().response_moments(mean[0], variance)[0]

    def sample(self, n_samples: int = 1, random_state: Any = None) -> list[Array]:
        """Draw sets of events as they would be observed: in the windows, with the exposure.

        Every set has an intensity of its own, drawn from the posterior; it is constant on pieces
        of half a cell.

        Returns
        -------
        list of ndarray
            ``n_samples`` sets, each of shape (n,) or (n, inputs) with an n of its own, in no order.

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
        sizes = pieces.sizes * seen.exposed(middle)
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


@dataclass(frozen=True, eq=False)
class _Seen:
    """Events as numbers, and what was observed."""

    names: Sequence[str] | None  # of the columns
    axes: tuple[TimeAxis | None, ...]
    columns: list[Array]
    domain: Box
    boxes: list[Box]
    exposure: Callable[[Any], Any] | None

    @classmethod
    def read(cls, table: Table, domain, windows, exposure) -> _Seen:
        """Read events, the domain and the windows, and check them."""
        if len(table) == 0:
            raise ValueError("There are no events: 0 rows. A process is fitted to one at least.")
        inputs = range(table.width)
        axes = tuple(
            TimeAxis.from_values(table.column(i)) if is_time(table.column(i)) else None
            for i in inputs
        )
        names = [table.column_name(i) for i in inputs]
        columns = [_numbers(table.column(i), axes[i], names[i]) for i in inputs]
        boxes = [_box(window, axes, "windows") for window in _windows(windows, len(axes))]
        if domain is not None:
            whole = _box(domain, axes, "domain")
        elif boxes:
            whole = tuple(
                (min(box[d][0] for box in boxes), max(box[d][1] for box in boxes)) for d in inputs
            )
        else:
            whole = tuple(_widened(x, name) for x, name in zip(columns, names, strict=True))
        _check_boxes(boxes, whole)
        boxes = boxes or [whole]
        out = np.flatnonzero(~inside(boxes, columns))
        if len(out):
            shown = cls(table.names, axes, [x[out[:3]] for x in columns], whole, boxes, exposure)
            raise ValueError(
                f"{len(out)} of {len(table)} events are outside of what was observed (domain and "
                f"windows), the first in rows {out[:3].tolist()}: "
                f"{shown.rows(shown.columns).tolist()}."
            )
        return cls(table.names, axes, columns, whole, boxes, exposure)

    def on(self, axes: tuple[TimeAxis | None, ...]) -> _Seen:
        """Return the same with times counted from other origins."""

        def moved(x: Any, d: int) -> Array:
            old, new = self.axes[d], axes[d]
            if old is None or new is None:
                return np.asarray(x, dtype=float)
            return np.asarray(x) + float((old.origin - new.origin) / np.timedelta64(1, "s"))

        def box(ends: Box) -> Box:
            return tuple(tuple(moved(pair, d).tolist()) for d, pair in enumerate(ends))

        columns = [moved(x, d) for d, x in enumerate(self.columns)]
        boxes = [box(each) for each in self.boxes]
        return replace(self, axes=axes, columns=columns, domain=box(self.domain), boxes=boxes)

    def in_units(self, box: Box) -> tuple:
        """Return the ends of a box as events are given."""
        pairs = zip(self.axes, box, strict=True)
        return tuple(ends if axis is None else axis.span(*ends) for axis, ends in pairs)

    def rows(self, columns: Sequence[Array]) -> Any:
        """Return places as events are given: (n,), or (n, inputs)."""
        given = [
            x if axis is None else axis.to_times(x)
            for axis, x in zip(self.axes, columns, strict=True)
        ]
        if len(given) == 1:
            return given[0]
        kind = float if not any(self.axes) else object
        return np.stack([column.astype(kind) for column in given], axis=1)

    def exposed(self, columns: Sequence[Array]) -> Array:
        """Return the exposure at places."""
        if self.exposure is None:
            return np.ones(len(columns[0]))
        out = np.asarray(self.exposure(self.rows(columns)), dtype=float)
        if out.shape not in ((), (len(columns[0]),)):
            raise ValueError(
                f"exposure must return one number per row, of shape ({len(columns[0])},); it "
                f"returned {out.shape}."
            )
        out = np.broadcast_to(out, (len(columns[0]),))
        if np.any(bad := ~((out >= 0.0) & (out < np.inf))):
            place = self.rows([x[bad][:1] for x in columns]).tolist()[0]
            raise ValueError(f"exposure must be from zero on, and is {out[bad][0]:g} at {place}.")
        return out

    def bins(self) -> tuple[Any, Array, Array]:
        """Return the centres of bins, and numbers of events and exposures there."""
        number = np.clip(
            EVENTS.bins_per_event * len(self.columns[0]), EVENTS.least_bins, EVENTS.most_bins
        )
        along = round(float(number) ** (1.0 / len(self.columns)))
        grids = [Grid(*ends, along) for ends in self.domain]
        nodes = window_nodes(grids, self.boxes, [1] * len(grids))
        cells = along ** len(grids)
        sizes = np.bincount(nodes.cells, nodes.masses * self.exposed(nodes.inputs), cells)
        counts, _ = np.histogramdd(
            np.stack(self.columns, axis=1), [along] * len(grids), list(self.domain)
        )
        there = sizes > 0.0
        centres = np.meshgrid(
            *[grid.lower + (np.arange(along) + 0.5) * grid.spacing for grid in grids],
            indexing="ij",
        )
        rows = self.given([x.ravel()[there] for x in centres])
        return rows, counts.ravel()[there], sizes[there]

    def given(self, columns: Sequence[Array]) -> Any:
        """Return places as rows that a regressor takes, with the names of columns."""
        columns = [self._column(d, x) for d, x in enumerate(columns)]
        if self.names is not None:
            return Columns(self.names, columns)
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)

    def _column(self, d: int, x: Array) -> Any:
        axis = self.axes[d]
        if axis is None:
            return x
        times = axis.to_times(x)
        return times if axis.tz is None else Zoned(times, axis.tz)

    def sums(self, structure: Structure[Any], like: Statistics) -> tuple[Statistics, Nodes]:
        """Return the sums of events, with the measure of what was observed, and nodes of it."""
        number = [degree + EVENTS.further_nodes for degree in like.degrees]
        nodes = window_nodes(like.grids, self.boxes, number)
        masses = nodes.masses * self.exposed(nodes.inputs)
        there = masses > 0.0
        if not there.any():
            raise ValueError("Nothing was observed: exposure is zero in all of the domain.")
        nodes = Nodes(tuple(x[there] for x in nodes.inputs), masses[there], nodes.cells[there])
        exposure = self.exposed(self.columns)
        if np.any(unseen := exposure == 0.0):
            rows = np.flatnonzero(unseen)[:3].tolist()
            raise ValueError(f"exposure is zero where there are events, the first in rows {rows}.")
        measure = self._summed(structure, like, nodes.inputs, nodes.masses, 0.0)
        events = self._summed(structure, like, self.columns, None, 1.0)
        sums = replace(
            measure,
            targets=events.targets,
            column_targets=events.column_targets,
            squares=events.squares,
            count=events.count,
            constants=np.array([np.log(exposure).sum(), len(exposure)]),
        )
        return sums, nodes

    @staticmethod
    def _summed(
        structure: Structure[Any],
        like: Statistics,
        columns: Sequence[Array],
        weights: Array | None,
        y: float,
    ) -> Statistics:
        """Return the sums of one y at all places."""
        pairs = zip(columns, like.grids, strict=True)
        inside = [np.clip(x, grid.lower, grid.upper) for x, grid in pairs]
        points = structure.points_at(dict(zip(structure.layout.used, inside, strict=True)))
        sums = Accumulator(replace(like.emptied(), centre=np.zeros(1)))
        points.add_to(sums, np.full(points.count, y), weights)
        return sums.statistics()


def _alone(ends: tuple) -> tuple:
    """Return the only interval, or a box of several."""
    return ends[0] if len(ends) == 1 else ends


def _numbers(column: Any, axis: TimeAxis | None, name: str) -> Array:
    """Return a column of events as finite numbers."""
    if axis is not None:
        return axis.to_seconds(column, name=name)
    try:
        x = np.asarray(column, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must hold numbers or times, got {column!r:.60}.") from None
    if np.any(bad := ~np.isfinite(x)):
        raise ValueError(
            f"Input {name} contains NaN or infinity, the first in rows "
            f"{np.flatnonzero(bad)[:3].tolist()}."
        )
    return x


def _widened(x: Array, name: str) -> tuple[float, float]:
    """Return the range of events, and beyond it what uniform ones lack on average."""
    low, high = float(x.min()), float(x.max())
    if not high > low:
        raise ValueError(f"All events have the same {name}, {low:g}: give the domain.")
    more = (high - low) / (len(x) - 1)
    return low - more, high + more


def _windows(given: Any, inputs: int) -> list:
    """Return windows as boxes."""
    if given is None:
        return []
    if len(given) == 0:
        raise ValueError("windows is empty: nothing was observed.")
    return list(given)


def _box(given: Any, axes: Sequence[TimeAxis | None], name: str) -> Box:
    """Return a box as numbers: an interval for every input."""
    pairs = [given] if len(axes) == 1 else list(given)
    if len(pairs) != len(axes) or not all(hasattr(p, "__len__") and len(p) == 2 for p in pairs):
        one = "(a, b)" if len(axes) == 1 else f"{len(axes)} pairs (a, b)"
        raise ValueError(f"{name} must hold {one}, got {given!r}.")
    out = []
    for pair, axis in zip(pairs, axes, strict=True):
        low, high = (
            map(float, pair) if axis is None else axis.to_seconds(list(pair), name=name).tolist()
        )
        if not -np.inf < low < high < np.inf:
            raise ValueError(f"{name} must have a < b, both finite, got {pair!r}.")
        out.append((low, high))
    return tuple(out)


def _check_boxes(boxes: Sequence[Box], domain: Box) -> None:
    """Check that windows are in the domain and do not overlap."""
    for i, box in enumerate(boxes):
        pairs = list(zip(box, domain, strict=True))
        if any(low < a or high > b for (low, high), (a, b) in pairs):
            raise ValueError(f"Window {i} reaches beyond the domain.")
        for j, other in enumerate(boxes[:i]):
            shared = zip(box, other, strict=True)
            if all(min(b, d) > max(a, c) for (a, b), (c, d) in shared):
                raise ValueError(f"Windows {j} and {i} overlap.")


def _halved(grids: Sequence[Grid]) -> list[Grid]:
    """Return grids of half the cells' width, or as fine as there may be pieces."""
    most = max(1, int(EVENTS.most_pieces ** (1.0 / len(grids))))
    return [Grid(grid.lower, grid.upper, min(2 * grid.cells, most)) for grid in grids]
