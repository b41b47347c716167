"""Forecasts of a series: where it goes on, in tables of means, bands and components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import floor
from operator import index
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from asvgp.basis import Array
from asvgp.estimators.held_out import HeldOutMixin
from asvgp.estimators.months import months_of
from asvgp.estimators.portable import label_of
from asvgp.estimators.summands import summands
from asvgp.likelihoods.gaussian import band_factor, probability
from asvgp.runtime.warn import warn
from asvgp.statistics.ending import Ending, ending_of
from asvgp.structures.fit_data import FitData
from asvgp.structures.observed import Beside
from asvgp.times import Duration, TimeAxis, Zoned

_MOST = 10**7  # further inputs at once


@dataclass(frozen=True, eq=False)
class Forecast:
    """Inputs of a forecast, and its columns for every output."""

    name: str | None  # of the input
    x: Array  # as numbers, times in seconds since the origin of the axis
    axis: TimeAxis | None
    outputs: dict[str | int, dict[str, Array]]
    transform: str = "y"  # on whose scale components add up

    @property
    def inputs(self) -> Array | Zoned:
        """Inputs as users have them: numbers, or times in the zone of the data."""
        return written(self.x, self.axis)

    def table(self, output: str | int) -> Any:
        """Return one output as a data frame; without pandas as a dict of arrays."""
        columns = self.outputs[output]
        try:
            import pandas as pd
        except ImportError:
            name = self.name or ("x" if self.axis is None else "time")
            return {name: np.asarray(self.inputs), **columns}
        inputs = pd.Index(np.asarray(self.inputs), name=self.name)
        if self.axis is not None and self.axis.tz is not None:
            inputs = pd.DatetimeIndex(inputs).tz_localize("UTC").tz_convert(self.axis.tz)
        if self.axis is not None and self.axis.frequency is not None:
            periods = pd.DatetimeIndex(inputs).to_period(self.axis.frequency)
            if (periods.to_timestamp() == inputs).all():  # else X has other times
                inputs = periods
        frame = pd.DataFrame(columns, index=inputs)
        frame.attrs["components"] = f"on the scale of {self.transform}"
        return frame


class ForecastMixin(HeldOutMixin):
    """The part of `GPRegressor` that goes on where the data end."""

    def forecast(
        self,
        steps: Any = None,
        *,
        until: Any = None,
        X: Any = None,
        level: Any = (0.8, 0.95),
        components: bool = False,
        include_noise: bool = True,
        noise_variance: Any = None,
        n_samples: int = 0,
        random_state: Any = None,
        exposure: Any = None,
        offset: Any = None,
        trials: Any = None,
    ) -> Any:
        """Forecast a series beyond its last observation, with prediction intervals.

        This is for models of one input. One step of the forecast is the typical spacing of the data
        (the median of the recent steps). If the data are not evenly spaced, a warning says which
        spacing was used. Series of month starts or month ends continue by the calendar. All other
        steps have the same length; for local days that change with daylight saving time, give
        ``X``.

        Parameters
        ----------
        steps : int, optional
            Number of steps to forecast.
        until : number or time, optional
            Where the forecast ends; give it instead of ``steps``. A time may be any kind of
            datetime, or text such as "2024-03-01 12:00". It is in the time zone of the data unless
            it has an offset.
        X : array-like of shape (n,) or (n, columns), optional
            The rows to forecast, as in `predict`; give it instead of ``steps`` and ``until``. It is
            needed if other columns have linear effects, with the future values of these columns.
        level : float or sequence of float
            Probabilities of the intervals, such as 0.95 (or 95, in per cent). Each interval is for
            a single value. The probabilities below and above it are equal.
        components : bool
            Whether to also return the means of components and effects, which add up to ``mean``.
            Components with the same period are joined in one column, such as ``season of 1 day``.
            Components with practically no variance are added to the first of the others; `predict`
            returns each by itself. With a ``transform``, they are on the transformed scale, which
            ``attrs["components"]`` of the frame names.
        include_noise : bool
            If True, forecast new observations (with weight one), otherwise f.
        noise_variance : float or array-like of shape (n,), optional
            Noise variance of the new observations. By default it is that of the model. You must
            give it if the model was fitted with known noise variances, unless
            ``include_noise=False``.
        n_samples : int
            Number of joint samples of the forecast to return as further columns.
        random_state : int, RandomState instance or None
            Random state of the samples.
        exposure, offset, trials : number or array-like, optional
            The same as in `predict`, for the rows of the forecast. If the likelihood is not
            Gaussian, the intervals are quantiles; for counts they are whole numbers.

        Returns
        -------
        pandas.DataFrame, or dict of them by output if there are several
            The index holds the inputs, as periods if the data were periods of pandas. The columns
            are ``mean`` and ``std``; ``lower_80``, ``upper_80`` and so on for every level; the
            components, named by their kind (``matern32``, ``periodic``, ``constant``); and the
            samples, ``sample_0`` and so on.
            Without pandas, the result is a dict of arrays, including the inputs.

        See Also
        --------
        predict : Predictions at any inputs, with covariances and derivatives.
        integrate : Sums over intervals, such as days, also beyond the last observation. The
            interval of a sum is not the sum of the intervals; ``return_cov`` returns the
            covariance of several sums.

        Examples
        --------
        >>> import numpy as np
        >>> from asvgp import GPRegressor, Matern12
        >>> gp = GPRegressor(Matern12(2.0), num_basis=9, noise_variance=0.1, optimizer=None)
        >>> future = gp.fit([0.0, 0.5, 1.0], [1.0, 1.0, 1.0]).forecast(2, level=0.9)
        >>> list(future)
        ['mean', 'std', 'lower_90', 'upper_90']
        >>> future.index.tolist()
        [1.5, 2.0]

        Sums over the two halves of the next unit, and their covariance:

        >>> total, covariance = gp.integrate([1.0, 1.5], [1.5, 2.0], return_cov=True)
        >>> total.shape, covariance.shape
        ((2,), (2, 2))
        """
        found = self._forecast(
            steps,
            until,
            X,
            level,
            components,
            include_noise,
            noise_variance,
            n_samples,
            random_state,
            {"exposure": exposure, "offset": offset, "trials": trials},
        )
        tables = {output: found.table(output) for output in found.outputs}
        return next(iter(tables.values())) if self._fit_data().single else tables

    def _forecast(
        self,
        steps,
        until,
        X,
        level,
        components,
        include_noise,
        noise_variance=None,
        n_samples=0,
        random_state=None,
        beside: dict[str, Any] | None = None,
    ) -> Forecast:
        """Return a forecast as columns of numbers."""
        beside = {} if beside is None else beside
        data, factors = self._fit_data(), band_factors(level)
        rows = self._rows_to_come(data, steps, until, X)
        mean, std, *rest = self._predict(
            rows,
            return_std=True,
            include_noise=include_noise,
            components=components,
            noise_variance=noise_variance,
            **beside,
        )
        columns = {"mean": mean, "std": std}
        for name, factor in factors.items():
            low, high = self._ends(rows, factor, mean, std, include_noise, noise_variance, **beside)
            columns |= {f"lower_{name}": low, f"upper_{name}": high}
        taken = dict.fromkeys(columns, 1)
        columns |= self._summed(rest[0], taken, data) if rest else {}
        if n_samples:
            drawn = rows, n_samples, random_state, include_noise, noise_variance, Beside(**beside)
            draws = self._samples(*drawn)
            columns |= {f"sample_{number}": draws[..., number] for number in range(n_samples)}
        names = data.targets or range(data.outputs)
        wide = {name: np.reshape(values, (len(values), -1)) for name, values in columns.items()}
        outputs: dict[str | int, dict[str, Array]] = {
            output: {name: np.ascontiguousarray(values[:, i]) for name, values in wide.items()}
            for i, output in enumerate(names)
        }
        layout = data.layout
        name = None if layout.names is None else layout.names[layout.input]
        x = np.asarray(data.points(rows).x, dtype=float)
        scale = str(self.transform_) if data.family is None else "the link"
        return Forecast(name, x, data.axis, outputs, scale)

    def _summed(self, parts, taken: dict[str, int], data: FitData) -> dict[str, Array]:
        """Return the means of components, those that are shown as one added, and of effects."""
        groups = [(group.name, group.shown[0], group.numbers) for group in summands(self)]
        effects = range(len(self.kernel_.components), len(parts))
        columns = {}
        for name, first, numbers in [*groups, *(("", i, (i,)) for i in effects)]:
            label = name or label_of(parts[first].kernel, taken, data.features.count > 1)
            columns[label] = np.sum([parts[number].mean for number in numbers], axis=0)
        return columns

    def _rows_to_come(self, data: FitData, steps, until, X) -> Any:
        """Return the rows to forecast, as `predict` takes them."""
        layout = data.layout
        if not layout.single:
            names = [layout.names[c] if layout.names else f"column {c}" for c in layout.over]
            raise ValueError(
                f"forecast is for models of one input, this one has {len(names)} "
                f"({', '.join(names)}): predict takes any X."
            )
        given = {"steps": steps, "until": until, "X": X}
        if (count := sum(value is not None for value in given.values())) != 1:
            absent = "" if count else ": where should the forecast end?"
            raise ValueError(
                f"Give one of steps, until and X, not {'several' if count else 'none'}{absent}"
            )
        if X is not None:
            return self._rows_in_memory(X).X
        if layout.linear:
            names = [repr(layout.names[c]) if layout.names else str(c) for c in layout.linear]
            raise ValueError(
                f"The model has linear effects of other columns ({', '.join(names)}), whose future "
                "values it cannot know: give X, with all columns, in place of steps and until."
            )
        number = None if steps is None else _whole(steps)
        end, axis = ending_of(data.stats), data.axis
        if end.last is None or end.step is None:
            raise ValueError("The data have one distinct input, so no spacing: give X.")
        last, step = end.last, end.step
        spacing = f"{step:g}" if axis is None else str(Duration(step))
        months = months_of(data.stats, end, axis)
        if months is not None:
            steps = months.until(_place(until, axis)) if number is None else number
            return written(months.after(np.arange(1, steps + 1)), axis)
        if not end.regular:
            monthly = axis is not None and 27.9 < step / 86_400.0 < 31.1
            remedy = "the months to come, as pandas.date_range makes them" if monthly else "others"
            warn(
                f"The data are not evenly spaced: the forecast takes steps of {spacing}, the "
                f"median of the recent ones. Give X for {remedy}.",
            )
        if number is None:
            number = _steps_until(until, end, axis, spacing)
        if number > _MOST:
            raise ValueError(
                f"The forecast has {number:,} steps of {spacing}, more than {_MOST:,}: give X."
            )
        return written(last + step * np.arange(1, number + 1), axis)


def written(x: Array, axis: TimeAxis | None) -> Array | Zoned:
    """Return numbers as inputs of a model: as they are, or as times in the zone of the data."""
    if axis is None:
        return x
    times = axis.to_times(x)
    return times if axis.tz is None else Zoned(times, axis.tz)


def band_factors(level: float | Sequence[float]) -> dict[str, float]:
    """Return the half widths of bands in standard deviations, by their per cent.

    Examples
    --------
    >>> {name: round(factor, 2) for name, factor in band_factors((80, 0.975)).items()}
    {'80': 1.28, '97.5': 2.24}
    """
    levels = [probability(each) for each in np.atleast_1d(np.asarray(level)).tolist()]
    return {f"{100.0 * share:.6g}": band_factor(share) for share in levels}


def _whole(steps) -> int:
    """Return the number of steps, checked."""
    try:
        number = index(steps)
    except TypeError:
        number = 0
    if number < 1:
        raise ValueError(f"steps must be a whole number, one or more, got {steps!r}.")
    return number


def _steps_until(until, end: Ending, axis: TimeAxis | None, spacing: str) -> int:
    """Return the number of steps to a place, which must lie beyond the last input."""
    assert end.last is not None
    assert end.step is not None
    place = _place(until, axis)
    number = floor((place - end.last) / end.step * (1.0 + 1e-12) + 1e-9)
    if number < 1:
        shown = "{:g}".format if axis is None else axis.shown
        raise ValueError(
            f"until={shown(place)} leaves nothing to forecast: the last input is "
            f"{shown(end.last)}, and the next, {spacing} later, {shown(end.last + end.step)}."
        )
    return number


def _place(until, axis: TimeAxis | None) -> float:
    """Return the end of a forecast as a number."""
    if axis is not None:
        return float(axis.to_seconds([_time(until, axis)], name="until")[0])
    try:
        place = float(until)
    except (TypeError, ValueError):
        place = np.nan
    if not np.isfinite(place):
        raise TypeError(f"until must be a finite number, as X holds numbers, got {until!r}.")
    return place


def _time(until, axis: TimeAxis) -> Any:
    """Return a time as it is; of text, the time it stands for in the zone of the data."""
    if not isinstance(until, str):
        return until
    try:
        time = datetime.fromisoformat(until.strip())
    except ValueError:
        raise ValueError(
            f"until={until!r} is not a time: write it as in '2024-03-01' or '2024-03-01 12:00'."
        ) from None
    if axis.tz is None or time.tzinfo is not None:
        return time
    try:
        return time.replace(tzinfo=ZoneInfo(axis.tz))
    except (ZoneInfoNotFoundError, ValueError):
        raise ValueError(
            f"The data are in the zone {axis.tz}: give until an offset, as in {until}+02:00."
        ) from None
