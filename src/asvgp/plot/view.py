"""One output of a fitted model as pictures see it: columns of plain numbers, axes with units."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from math import ceil
from typing import Generic, TypeVar

import numpy as np
from scipy.special import ndtr

from asvgp.basis import Array
from asvgp.data.columns import Gridded
from asvgp.data.inputs import as_rows, read_targets
from asvgp.diagnostics.summary import worded
from asvgp.kernels import Constant, Linear
from asvgp.likelihoods import Family
from asvgp.model.levels import scale_of
from asvgp.plot.inputs import Input
from asvgp.plot.neighbours import Correlations, in_order, nearest
from asvgp.plot.style import pyplot
from asvgp.posterior.chain import ChainPosterior
from asvgp.posterior.grid import GridPosterior
from asvgp.structures.observed import NOTHING, Beside

AnyPosterior = TypeVar("AnyPosterior", ChainPosterior, GridPosterior)

_LABEL: ContextVar[str | None] = ContextVar("_LABEL", default=None)


@contextmanager
def labelled(label: str | None) -> Iterator[None]:
    """Call y by another name in pictures made in this context; None for the name it has."""
    token = _LABEL.set(label)
    try:
        yield
    finally:
        _LABEL.reset(token)


class View(Generic[AnyPosterior]):
    """One output of a fitted model; `view_of` makes the kind that its number of inputs needs.

    Of several outputs, ``output`` says which.
    """

    is_line = False
    neighbour = "k-th nearest neighbour"

    def __init__(self, gp, output: int | None = None):
        data = gp._fit_data()
        self.gp, self.structure = gp, data.structure
        self.known_noise: bool = data.known_noise
        self.target_names: tuple[str, ...] | None = data.targets
        self.posterior: AnyPosterior = gp.posterior_
        likelihood = gp.likelihood_
        self.family = likelihood if isinstance(likelihood, Family) else None
        self.transform = gp.transform_
        self.layout = self.structure.layout
        self.outputs = len(self.posterior.stats.squares)
        self.observations: int = self.posterior.stats.count * self.outputs
        self.output = self._chosen(output)
        self.inputs = self._inputs()
        self.label = _LABEL.get()

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
        """Return the inputs by column."""
        grids = self.structure.grids(self.posterior.stats)
        found = {
            column: Input(column, self._name(column), axis, grid.lower, grid.upper, grid.spacing)
            for column, axis, grid in sorted(  # of several grids over one column, the finest
                zip(self.layout.used, self.structure.axes, grids, strict=True),
                key=lambda entry: -entry[2].spacing,
            )
        }
        if len(found) > 1:  # unnamed columns go by number
            found = {c: i._replace(name=i.name or f"column {c}") for c, i in found.items()}
        return dict(sorted(found.items()))

    def _name(self, column: int) -> str | None:
        return None if self.layout.names is None else self.layout.names[column]

    def naming(self, column: int) -> str:
        """Return the name of a column of X, for messages and labels."""
        return self._name(column) or f"column {column}"

    # ------------------------------------------------------------ what one input does differently

    def read(self, X, width=None) -> dict[int, Array]:
        """Return the columns of X that the model uses, as numbers; the middle of intervals."""
        grid = Gridded.of(X)
        points = self.gp._fit_data().points(X if grid is None else grid.plain, width)
        columns = self.structure.columns_at(points)
        grids = self.structure.grids(self.posterior.stats)
        pairs = list(zip(self.layout.used, grids, strict=True))
        lines = {column for column, grid in pairs if not grid.cyclic}
        for column, grid in pairs:
            if column not in lines:  # pictures show one turn of a circle
                columns[column] = grid.around(columns[column])
        return columns

    def is_centred(self, component: int) -> bool:
        """Return True if `part` subtracts the component's mean over the data."""
        return component in self.layout.smooths

    def part(self, columns: Mapping[int, Array | float], component: int) -> tuple[Array, Array]:
        """Return mean and standard deviation of a component as pictures show it."""
        if not self.is_centred(component):
            return self.predict(columns, component)
        dim = self.layout.kernel.components[component].factors[0].dim
        x = columns[self.layout.input if dim is None else dim]
        mean, variance = self.posterior.centred(component, np.asarray(x, dtype=float))
        return mean[self.output], np.sqrt(variance)

    def order(self, columns: Mapping[int, Array]) -> Array | None:
        """Return the values that sort rows into a sequence; None if they have no such order."""
        return

    def abscissa(self, columns: Mapping[int, Array], mean: Array) -> tuple[Input, Array]:
        """Return what residuals are drawn over: the only input, or the prediction."""
        return Input(-1, "predicted", None, float(mean.min()), float(mean.max()), 0.0), mean

    def correlations(self, z: Array, columns: Mapping[int, Array]) -> Correlations:
        """Return the correlations of residuals with their neighbours."""
        scaled = [(columns[c] - i.lower) / (i.upper - i.lower) for c, i in self.inputs.items()]
        return nearest(z, np.column_stack(scaled))

    def span(self, interval, forecast) -> tuple[float, float] | None:
        """Return the interval that components are drawn over; None for all of each domain."""
        if interval is not None or forecast:
            raise ValueError("interval and forecast are for models of one input.")
        return None

    def panel_grid(self, count: int) -> tuple[int, int, tuple[float, float], bool]:
        """Return rows, columns, size in inches, and True if panels may share their x axis."""
        across = min(3, ceil(count**0.5))
        down = ceil(count / across)
        return down, across, (1.0 + 4.0 * across, 3.4 * down), False

    @abstractmethod
    def lengths(self) -> list[tuple[float, str]]:
        """Return the lengthscales of all processes in knot spacings, each with its name."""

    @property
    def line(self) -> Input:
        """The only input."""
        return self.inputs[self.layout.input]

    # ------------------------------------------------------------ columns

    def data(self, X, y, width=None) -> tuple[dict[int, Array], Array]:
        """Return the columns of observations, and the targets of the output shown."""
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
        """Return the targets of the output that is shown."""
        y = np.asarray(read_targets(y, rows), dtype=float)
        if y.ndim == 1:
            return y
        if y.shape[1] != self.outputs:
            raise ValueError(f"y has {y.shape[1]} columns, but the model {self.outputs} outputs.")
        return y[:, self.output]

    def typical(self, shown: tuple[int, ...] = ()) -> dict[int, float]:
        """Return values of the columns not shown: inputs mid-domain, covariates at their means."""
        means = dict(
            zip(self.structure.effect_columns, self.posterior.stats.column_means, strict=True)
        )
        values = {c: float(means[c]) for c in self.layout.linear}
        values |= {c: 0.5 * (place.lower + place.upper) for c, place in self.inputs.items()}
        return {c: value for c, value in values.items() if c not in shown}

    def fixed_values(
        self, shown: tuple[int, ...], at: Mapping | None, columns=None
    ) -> dict[int, float]:
        """Return values of the columns that a picture does not vary.

        These are the values in ``at``, and for others their medians in ``columns``.
        """
        others = [c for c in (*self.inputs, *self.layout.linear) if c not in shown]
        known, out = {self.naming(c): c for c in others} | {c: c for c in others}, {}
        if at is not None and not isinstance(at, Mapping):
            raise TypeError(f"at must be a dict of columns and values, got {at!r:.80}.")
        for name, value in (at or {}).items():
            if name not in known:
                names = ", ".join(repr(self.naming(c)) for c in others) or "none"
                raise ValueError(
                    f"at: {name!r} is not a column that this picture holds fixed; those are "
                    f"{names}."
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
        """Return values held fixed as text, for titles."""
        parts = []
        for column, value in held.items():
            place = self.inputs.get(column)
            number = f"{value:.4g}" if place is None else place.number(value)
            parts.append(f"{self.naming(column)} = {number}")
        return ", ".join(parts)

    def moved(self, columns: Mapping[int, Array], y: Array, held: Mapping[int, float]) -> Array:
        """Return targets with the linear effects of columns held fixed moved to those values."""
        others = [column for column in held if column not in self.inputs]
        if not others:
            return y
        beta, shift = self.structure.effects(self.posterior, None, 0)[0], np.zeros(len(y))
        for number, effect in enumerate(self.layout.kernel.effects):
            column = getattr(effect, "dim", -1)
            if column in others:
                shift = shift + beta[number, self.output] * (held[column] - columns[column])
        if self.family is None:
            return self.transform.inverse(self.transform.forward(y) + shift)
        if self.family.inverse_link == "exp":
            return y * np.exp(shift)
        return y + shift if self.family.inverse_link == "identity" else y

    def rates(self, y: Array, beside: Beside = NOTHING) -> Array:
        """Return targets as they compare with the mean of y: rates, and shares of trials."""
        if self.family is None:
            beside.refuse()
            return y
        trials, offset = beside.read(self.family, len(y))
        if trials is not None and "trials" in self.family.takes:
            y = y / trials
        if offset is None:
            return y
        if self.family.inverse_link == "exp":
            return y * np.exp(-offset)
        return y - offset if self.family.inverse_link == "identity" else y

    @property
    def mean_name(self) -> str:
        """What the model predicts, in a word."""
        if self.family is None or self.family.inverse_link == "identity":
            return "f"
        names = {"share": "probability" if self.family.whole else "share", "level": "mean level"}
        return names.get(self.family.inverse_link, "rate" if self.family.whole else "mean")

    @property
    def scale(self) -> str:
        """The scale on which components add up, in words."""
        if self.family is None:
            return str(self.transform)
        names = {"exp": f"log {self.mean_name}", "share": getattr(self.family, "link", "logit")}
        return names.get(self.family.inverse_link, "f")

    # ------------------------------------------------------------ what the model predicts

    def predict(self, columns: Mapping[int, Array | float], component: int | None = None):
        """Return mean and standard deviation of f, or of one component; numbers hold for all.

        They are on the scale of the transform.
        """
        rows = max(np.size(x) for x in columns.values())
        wide = {c: x if np.ndim(x) else np.full(rows, x) for c, x in columns.items()}
        points = self.structure.points_at(wide)
        mean, variance = self.structure.predict(self.posterior, points, True, component, 0)
        return mean[self.output], np.sqrt(variance)

    def with_noise_process(self, process, columns, std: Array, factor: float) -> Array:
        """Return what ``factor`` is to be multiplied with for the band of new observations.

        It is their quantile, so that the band holds what it says where the noise is uncertain.
        """
        rows, v = len(std), std**2
        wide = {c: x if np.ndim(x) else np.full(rows, x) for c, x in columns.items()}
        noise = process.moments(self.structure, self.structure.points_at(wide))
        assert self.family is not None
        share = ndtr(factor)
        return self.family.quantiles([share], np.zeros(rows), v, noise)[:, 0] / factor

    def moments(self, columns: Mapping[int, Array | float]) -> tuple[Array, Array]:
        """Return mean and standard deviation of f in the units of y."""
        mean, std = self.predict(columns)
        mean, variance = self.transform.moments(mean, std**2)
        return mean, np.sqrt(variance)

    def effect(self, number: int, values: Array) -> tuple[Array, Array]:
        """Return mean and standard deviation of a linear effect at values of its column."""
        beta, covariance, _ = self.structure.effects(self.posterior, None, 0)
        std = float(covariance[number, number]) ** 0.5
        return beta[number, self.output] * values, std * np.abs(values)

    @property
    def noise(self) -> float:
        """Noise variance of a new observation, where the noise is Gaussian."""
        if self.known_noise:
            raise ValueError(
                "The data came with known noise variances, so the model cannot say that of a new "
                "observation: draw the band of f, include_noise=False."
            )
        return float(self.gp.noise_variance_)

    def target_label(self, y=None) -> str:
        """Return the name of y, where it has one."""
        if self.label is not None:
            return self.label
        name = getattr(y, "name", None)
        columns = getattr(y, "columns", None)
        if name is None and columns is not None and len(columns) > self.output:
            name = columns[self.output]
        if name is None and self.target_names:
            name = self.target_names[self.output]
        if name is not None:
            return str(name)
        return "y" if self.outputs == 1 else f"y, output {self.output}"


class FieldView(View[GridPosterior]):
    """One output of a fitted model of several inputs."""

    def lengths(self) -> list[tuple[float, str]]:
        """Return the lengthscales of all processes, each on the cells of its splines."""
        plan, kernel = self.posterior.plan, self.posterior.kernel
        numbered = [*zip(plan.terms, plan.axes(kernel), strict=True)]
        smooths = zip(plan.smooths, plan.smooth_axes(kernel), strict=True)
        numbered += [(term, [axis]) for term, axis in smooths]
        return [
            (
                scale_of(axis.process) / axis.grid.spacing,
                f"{term + 1} {axis.process.written_name} along {self.naming(axis.process.dim)}",
            )
            for term, axes in numbered
            for axis in axes
            if axis.process is not None
        ]


class LineView(View[ChainPosterior]):
    """One output of a fitted model of one input."""

    is_line = True
    neighbour = "lag (observations)"

    def is_centred(self, component: int) -> bool:
        """Return True if there is an intercept: it shares the mean."""
        return self.layout.kernel.intercept is not None

    def order(self, columns: Mapping[int, Array]) -> Array:
        """Return the input."""
        return columns[self.layout.input]

    def abscissa(self, columns: Mapping[int, Array], mean: Array) -> tuple[Input, Array]:
        """Return the only input, and its values."""
        return self.line, columns[self.layout.input]

    def correlations(self, z: Array, columns: Mapping[int, Array]) -> Correlations:
        """Return the correlations of residuals in the order of the input."""
        return in_order(z[np.argsort(columns[self.layout.input], kind="stable")])

    def span(self, interval, forecast) -> tuple[float, float]:
        """Return the domain or the interval, with the forecast."""
        return self.line.interval(interval, forecast)

    def panel_grid(self, count: int) -> tuple[int, int, tuple[float, float], bool]:
        """Return one row for each panel."""
        return count, 1, (9.0, 1.2 + 1.8 * count), True

    def lengths(self) -> list[tuple[float, str]]:
        """Return the lengthscales of all components in knot spacings."""
        spacing = self.posterior.stats.grid.spacing
        return [
            (min(map(scale_of, part.factors)) / spacing, f"{number} {type(part).__name__}")
            for number, part in enumerate(self.posterior.kernel.components, 1)
        ]


def view_of(gp, output: int | None = None) -> View:
    """Return the view of one output of a fitted model."""
    if not hasattr(type(gp), "posterior_"):
        way_out = ""
        if hasattr(type(gp), "regressor_") or hasattr(gp, "regressor_"):
            way_out = " Draw its model of f, its attribute regressor_."
        raise TypeError(f"Pictures are of a fitted GPRegressor, got {gp!r:.80}.{way_out}")
    return (LineView if gp._fit_data().layout.single else FieldView)(gp, output)


def drawn(gp, output: int | None = None) -> View:
    """Return the view of a picture; raise an error first if matplotlib is not installed."""
    pyplot()
    return view_of(gp, output)


def term_name(part) -> str:
    """Return the name of a component: its kernel and scale."""
    if isinstance(part, Constant | Linear):
        return part.name.replace("'", "")
    if len(part.factors) > 1:
        over = ["" if f.dim is None else f"({f.dim})" for f in part.factors]
        pairs = zip(part.factors, over, strict=True)
        return " × ".join(factor.written_name + dim for factor, dim in pairs)
    scale = part.scales[0]
    return f"{part.written_name}, {scale} {worded(getattr(part, scale), 3)}"
