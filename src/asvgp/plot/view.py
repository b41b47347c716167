"""A fitted model as pictures see it: columns of plain numbers, axes that know their units."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from asvgp.basis import Array
from asvgp.data.columns import Gridded
from asvgp.data.inputs import as_rows, read_targets
from asvgp.kernels import Constant, Linear
from asvgp.plot.style import pyplot
from asvgp.structures.line import LinePoints
from asvgp.structures.points import FieldPoints
from asvgp.times import Duration, TimeAxis, as_duration

_DAY = 86_400.0


class Input(NamedTuple):
    """A column of X that processes are over.

    Attributes
    ----------
    column : int
    name : str or None
    axis : TimeAxis or None
        Where it holds times; numbers are seconds then.
    lower, upper : float
        Ends of the domain.
    spacing : float
        Between knots.
    """

    column: int
    name: str | None
    axis: TimeAxis | None
    lower: float
    upper: float
    spacing: float

    @property
    def label(self) -> str:
        """For an axis."""
        if self.axis is None:
            return "x" if self.name is None else self.name
        name = "time" if self.name is None else self.name
        return name if self.zone is None else f"{name} ({self.zone})"

    @property
    def zone(self) -> ZoneInfo | None:
        """The time zone of the data; for offsets without a name, UTC."""
        if self.axis is None or self.axis.tz is None:
            return None
        try:
            return ZoneInfo(self.axis.tz)
        except (ZoneInfoNotFoundError, ValueError):
            return ZoneInfo("UTC")

    def shown(self, x) -> Array:
        """Numbers as matplotlib has them: times are days since its epoch."""
        x = np.asarray(x, dtype=float)
        return x if self.axis is None else self._origin + x / _DAY

    def unshown(self, x) -> Array:
        """The reverse."""
        x = np.asarray(x, dtype=float)
        return x if self.axis is None else (x - self._origin) * _DAY

    @property
    def _origin(self) -> float:
        from matplotlib.dates import date2num

        assert self.axis is not None
        return float(date2num(self.axis.origin))

    def read(self, values, name: str) -> Array:
        """Places that a user wrote, as numbers."""
        if self.axis is not None:
            return self.axis.to_seconds(list(values), name=name)
        try:
            numbers = np.asarray(values, dtype=float)
        except (TypeError, ValueError):
            numbers = np.array(np.nan)
        if not np.all(np.isfinite(numbers)):
            raise ValueError(f"{name} must hold finite numbers, as X does, got {values!r:.80}.")
        return numbers

    def interval(self, given, forecast) -> tuple[float, float]:
        """What to show: the domain or what was asked for, and a forecast beyond the domain."""
        ahead = self._length(forecast)
        if given is None:
            return self.lower, self.upper + ahead
        if isinstance(given, str) or not hasattr(given, "__len__") or len(given) != 2:
            raise ValueError(f"interval must be None or a pair (start, stop), got {given!r:.80}.")
        start, stop = (float(end) for end in self.read(given, "interval"))
        if not start < stop:
            raise ValueError(f"interval must be in increasing order, got {given!r:.80}.")
        return start, max(stop, self.upper + ahead) if ahead else stop

    def _length(self, forecast) -> float:
        duration = as_duration(forecast) if forecast else None
        if forecast and (duration is None) == (self.axis is not None):
            wanted = "a duration such as '7 days'" if self.axis else "a number in the units of X"
            raise TypeError(f"forecast must be {wanted}, got {forecast!r}.")
        length = float(forecast or 0.0) if duration is None else float(duration)
        if not 0.0 <= length < np.inf:
            raise ValueError(f"forecast must be positive and finite, got {forecast!r}.")
        return length

    def dress(self, side) -> None:
        """Label an axis of matplotlib's, with dates where this input is time."""
        if self.axis is not None:
            from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

            zone = self.zone or UTC  # what times without a zone are taken for
            side.axis_date(zone)
            locator = AutoDateLocator(tz=zone)
            side.set_major_locator(locator)
            side.set_major_formatter(ConciseDateFormatter(locator, tz=zone))
        side.set_label_text(self.label)

    def number(self, value: float) -> str:
        """A place along the axis, in words."""
        if self.axis is None:
            return f"{value:.4g}"
        seconds = (self.upper - self.lower) > 1000.0
        return str(self.axis.to_times(np.array([value]))[0].astype("M8[s]" if seconds else "M8"))


class View:
    """One output of a fitted model.

    Parameters
    ----------
    gp : GPRegressor
        Fitted.
    output : int, optional
        Which of several outputs; needed where there are several.
    """

    def __init__(self, gp, output: int | None = None):
        if not hasattr(gp, "_seen") or isinstance(gp, type):
            raise TypeError(f"Pictures are of a fitted GPRegressor, got {gp!r:.80}.")
        self.gp, seen = gp, gp._seen()
        self.structure, self.single = seen.structure, seen.single
        self.posterior: Any = gp._fitted().posterior
        self.layout = self.structure.layout
        self.outputs = len(self.posterior.stats.squares)
        self.output = self._chosen(output)
        self.inputs = self._inputs()

    def _chosen(self, output) -> int:
        if output is None:
            if self.outputs > 1:
                raise ValueError(
                    f"The model has {self.outputs} outputs: say which to draw, output=0 to "
                    f"{self.outputs - 1}."
                )
            return 0
        if not isinstance(output, int | np.integer) or not 0 <= output < self.outputs:
            raise ValueError(
                f"output must be a whole number from 0 to {self.outputs - 1}, got {output!r}."
            )
        return int(output)

    def _inputs(self) -> dict[int, Input]:
        """Inputs by column."""
        layout = self.layout
        if self.is_line:
            grids, axes = [self.posterior.stats.grid], [self.structure.axis]
        else:
            plan, axes = self.posterior.plan, self.structure.axes
            grids = [*plan.grids, *plan.smooth_grids]
        found = {
            column: Input(column, self._name(column), axis, grid.lower, grid.upper, grid.spacing)
            for column, axis, grid in sorted(  # of several grids over one column, the finest
                zip(layout.used, axes, grids, strict=True), key=lambda own: -own[2].spacing
            )
        }
        if len(found) > 1:  # unnamed columns go by number
            found = {c: i._replace(name=i.name or f"column {c}") for c, i in found.items()}
        return dict(sorted(found.items()))

    def _name(self, column: int) -> str | None:
        return None if self.layout.names is None else self.layout.names[column]

    def naming(self, column: int) -> str:
        """A column of X, in messages and labels."""
        return self._name(column) or f"column {column}"

    @property
    def is_line(self) -> bool:
        """Whether all processes are over one input."""
        return self.layout.single

    @property
    def line(self) -> Input:
        """The only input."""
        return self.inputs[self.layout.input]

    def require_line(self, what: str, instead: str) -> None:
        """An error for models of several inputs."""
        if not self.is_line:
            names = ", ".join(self.naming(column) for column in self.inputs)
            raise ValueError(
                f"plot.{what} is of models of one input, this one has {len(self.inputs)} "
                f"({names}): {instead}."
            )

    # ------------------------------------------------------------ columns

    def read(self, X, width=None) -> dict[int, Array]:
        """The columns of X that the model uses, as numbers; of intervals, their middle."""
        grid = Gridded.of(X)
        if grid is not None:
            X = grid.plain
        points = self.structure.read(self.gp, X, width=width)
        if self.is_line:
            x = np.asarray(points.x)
            columns = {self.layout.input: x if points.width is None else x + 0.5 * points.width}
            if points.covariates is not None:
                columns |= dict(zip(self.layout.linear, points.covariates.T, strict=True))
            return columns
        points = points.expanded()
        columns = dict(zip(self.layout.used, (*points.main, *points.smooths), strict=True))
        for effect, values in zip(self.layout.kernel.effects, points.effects, strict=True):
            if isinstance(effect, Linear):
                columns.setdefault(effect.dim, values)  # pyright: ignore[reportArgumentType]
        return columns

    def data(self, X, y, width=None) -> tuple[dict[int, Array], Array]:
        """Columns and targets (of the output shown) of observations."""
        if X is None or y is None:
            given, absent = ("X", "y") if y is None else ("y", "X")
            raise ValueError(
                f"{given} is given without {absent}. They are observations to draw: give both or "
                "neither; the model itself is evaluated wherever the picture needs it."
            )
        X, y = as_rows(X, y)
        columns = self.read(X, width)
        return columns, self.targets(y, len(next(iter(columns.values()))))

    def targets(self, y, rows: int) -> Array:
        """Targets of the output that is shown."""
        y = np.asarray(read_targets(y, rows), dtype=float)
        if y.ndim == 1:
            return y
        if y.shape[1] != self.outputs:
            raise ValueError(f"y has {y.shape[1]} columns, but the model {self.outputs} outputs.")
        return y[:, self.output]

    def held(self, shown: tuple[int, ...], at: Mapping | None, columns=None) -> dict[int, float]:
        """Values of the columns that a picture does not vary: as given, else medians of data."""
        others = [c for c in (*self.inputs, *self.layout.linear) if c not in shown]
        known, out = {self.naming(c): c for c in others} | {c: c for c in others}, {}
        if at is not None and not isinstance(at, Mapping):
            raise TypeError(f"at must be a dict of columns and values, got {at!r:.80}.")
        for name, value in (at or {}).items():
            if name not in known:
                names = ", ".join(repr(self.naming(c)) for c in others) or "none"
                raise ValueError(
                    f"at: {name!r} is no column that this picture holds fixed; those are {names}."
                )
            column = known[name]
            place = self.inputs.get(column, Input(column, None, None, 0.0, 0.0, 0.0))
            out[column] = float(place.read([value], f"at[{name!r}]")[0])
        for column in others:
            if column not in out:
                if columns is None:
                    raise ValueError(
                        f"The model also depends on {self.naming(column)!r}: say at which value to "
                        f"draw, at={{{self.naming(column)!r}: ...}}, or give X for its median."
                    )
                out[column] = float(np.median(columns[column]))
        return out

    def in_words(self, held: Mapping[int, float]) -> str:
        """Values held fixed, for titles."""
        parts = []
        for column, value in held.items():
            place = self.inputs.get(column)
            number = f"{value:.4g}" if place is None else place.number(value)
            parts.append(f"{self.naming(column)} = {number}")
        return ", ".join(parts)

    def moved(self, columns: Mapping[int, Array], y: Array, held: Mapping[int, float]) -> Array:
        """Targets with the linear effects of columns held fixed taken to those values."""
        beta = self.structure.effects(self.posterior, None, 0)[0]
        for number, effect in enumerate(self.layout.kernel.effects):
            column = getattr(effect, "dim", -1)
            if column in held and column not in self.inputs:
                y = y + beta[number, self.output] * (held[column] - columns[column])
        return y

    # ------------------------------------------------------------ what the model says

    def points(self, columns: Mapping[int, Array]) -> LinePoints | FieldPoints:
        """Places as the structure has them."""
        layout = self.layout
        if self.is_line:
            beside = [np.asarray(columns[c], dtype=float) for c in layout.linear]
            return LinePoints(columns[layout.input], np.stack(beside, 1) if beside else None)
        used = [columns[column] for column in layout.used]
        effects = [
            np.ones(len(used[0])) if isinstance(effect, Constant) else columns[effect.dim]  # pyright: ignore[reportAttributeAccessIssue]
            for effect in layout.kernel.effects
        ]
        main = len(layout.inputs)
        return FieldPoints(used[:main], used[main:], effects)

    def predict(self, columns: Mapping[int, Array], component: int | None = None):
        """Mean and standard deviation of f, or of one component."""
        points = self.points(columns)
        mean, variance = self.structure.predict(self.posterior, points, True, component, 0)
        return mean[self.output], np.sqrt(variance)

    def is_centred(self, component: int) -> bool:
        """Whether `part` takes off a component's mean over the data.

        That of a smooth of an additive model; of one input, where there is an intercept.
        """
        if self.is_line:
            return self.layout.kernel.intercept is not None
        return component in self.posterior.plan.smooths

    def part(self, columns: Mapping[int, Array], component: int):
        """Mean and standard deviation of a component as pictures show it, centred or as it is."""
        if not self.is_centred(component):
            return self.predict(columns, component)
        column = self.layout.kernel.components[component].factors[0].dim
        mean, variance = self.posterior.centred(component, np.asarray(columns[column], dtype=float))
        return mean[self.output], np.sqrt(variance)

    def effect(self, number: int, values: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of a linear effect at values of its column."""
        beta, covariance, _ = self.structure.effects(self.posterior, None, 0)
        std = float(covariance[number, number]) ** 0.5
        return beta[number, self.output] * values, std * np.abs(values)

    @property
    def noise(self) -> float:
        """Noise variance of a new observation."""
        if self.gp._seen().known_noise:
            raise ValueError(
                "The data came with known noise variances, so that of a new observation is not "
                "the model's to say: draw the band of f, include_noise=False."
            )
        return float(self.gp.noise_variance_)

    def target_label(self, y=None) -> str:
        """Name of y, where it has one."""
        name = getattr(y, "name", None)
        if name is None and hasattr(y, "columns") and len(y.columns) > self.output:  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
            name = y.columns[self.output]  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
        targets = self.gp._seen().targets
        if name is None and targets:
            name = targets[self.output]
        if name is not None:
            return str(name)
        return "y" if self.outputs == 1 else f"y, output {self.output}"


def drawn(gp, output: int | None = None) -> View:
    """The view of a picture, which matplotlib draws: what to install is said before the work."""
    pyplot()
    return View(gp, output)


def is_grid(X) -> bool:
    """Whether X holds the axes of a grid."""
    return isinstance(X, tuple | Mapping) and Gridded.of(X) is not None


def term_name(part) -> str:
    """A component by its kernel and scale."""
    if isinstance(part, Constant | Linear):
        return part.name.replace("'", "")
    if len(part.factors) > 1:
        return " × ".join(f"{type(f).__name__}({f.dim})" for f in part.factors)
    scale = part.parameters[0]
    return f"{type(part).__name__}, {scale} {_rounded(part.listed[0])}"


def _rounded(value) -> str:
    if isinstance(value, Duration):
        number, _, unit = str(value).partition(" ")
        return f"{float(number):.3g} {unit}"
    return f"{float(value):.3g}"
