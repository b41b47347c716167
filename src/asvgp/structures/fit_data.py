"""Statistics of the data added so far, and how to read rows of their kind: the structure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from asvgp.basis import Array
from asvgp.data.columns import Columns, Features, Gridded, Layout, Table, match
from asvgp.data.inputs import read_targets, read_weights, refuse_text
from asvgp.data.response import Response
from asvgp.data.transforms import IDENTITY, Transform, transformed
from asvgp.kernels import SHO, Kernel, Periodic, check_units
from asvgp.likelihoods.family import Family
from asvgp.policies import SERIES
from asvgp.runtime.lazy import cached_property
from asvgp.statistics import Statistics
from asvgp.statistics.nesting import common_factors
from asvgp.structures.field import Field
from asvgp.structures.field_cells import check_circles
from asvgp.structures.line import Line
from asvgp.structures.observed import Beside, Observed, sums_suffice, working_response
from asvgp.structures.series import Series
from asvgp.structures.structure import Points, Structure
from asvgp.times import TimeAxis, Zoned, is_time
from asvgp.training.finest_series import is_regular


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows that were read: points, targets as the model sees them, and weights or None."""

    points: Points
    y: Array
    weights: Array | None
    log_jacobian: Array  # sums of the log derivatives of the transform, one per output
    single: bool  # True where y came as a vector
    # Where the likelihood is not Gaussian: what computes y as grids and kernels are chosen by and
    # its weights, unless those of the sums are the same, the rows with targets, and sums of
    # theirs, of which the last is their number.
    working: Callable[[], tuple[Array, Array]] | None = None
    observed: Observed | None = None
    constants: Array = field(default_factory=partial(np.empty, 0))
    summed: bool = True  # True where sums are all that training needs

    @cached_property
    def chosen_by(self) -> tuple[Array, Array | None]:
        """The targets that grids and kernels are chosen by, and their weights."""
        return (self.y, self.weights) if self.working is None else self.working()

    @classmethod
    def read(
        cls,
        structure: Structure[Any],
        table: Table,
        y,
        sample_weight=None,
        noise_variance=None,
        width=None,
        exposure=None,
        offset=None,
        event=None,
        trials=None,
        transforms: Sequence[Transform] = (IDENTITY,),
    ) -> Rows:
        """Read rows as a structure takes them; several transforms of y are further outputs."""
        points = structure.read(table, width)
        y = read_targets(y, points.count)
        beside = Beside(exposure, offset, event, trials)
        if isinstance(transforms[0], Response):
            return cls._seen_by(
                transforms[0].likelihood,
                structure,
                points,
                y,
                sample_weight,
                noise_variance,
                beside,
            )
        beside.refuse()
        weights = read_weights(sample_weight, noise_variance, points.count)
        if weights is not None and not np.all(weights):
            y, weights = _without(y, weights)
        seen, log_jacobian = transformed(y, transforms, weights)
        return cls(points, seen, weights, log_jacobian, y.ndim == 1)

    @classmethod
    def _seen_by(
        cls,
        family: Family,
        structure: Structure[Any],
        points: Points,
        y,
        sample_weight,
        noise_variance,
        beside: Beside,
    ) -> Rows:
        """Return rows as a likelihood that is not Gaussian sees them.

        What is summed are T / B with masses B where sums suffice, and else working responses.
        """
        if noise_variance is not None or points.width is not None:
            what = "noise_variance" if points.width is None else "width"
            raise ValueError(
                f"{what} belongs to Gaussian noise, and has no meaning for {family!r}."
            )
        y = np.asarray(y, dtype=float)
        if y.ndim > 1 and y.shape[1] > 1:
            raise ValueError(
                f"{family!r} is for one output, and y has shape {y.shape}: fit a model for each."
            )
        single, y, rows = y.ndim == 1, y.reshape(-1), points.count
        weight = read_weights(sample_weight, None, rows)
        weight = None if weight is None else np.asarray(weight, dtype=float)
        extra, offset = beside.read(family, rows)
        known = ~np.isnan(y) if weight is None else ~np.isnan(y) & (weight > 0.0)
        kept = np.flatnonzero(known)
        given = None if beside.trials is None and np.any(y[kept] > 1.0) else extra
        _check_known(family, y, given if "trials" in family.takes else extra, kept)
        points = points.expanded()
        observed = Observed(
            points if len(kept) == rows else points.rows(kept),
            y[kept],
            *(None if part is None else part[kept] for part in (extra, weight, offset)),
        )
        sums, constants = sums_suffice(family, structure, offset), np.empty(0)
        working = partial(_working, family, observed, kept, rows)
        if sums:
            masses, linear = family.measure(*observed[1:])
            values, weights = _spread_out(kept, rows, linear / masses, masses)
            constants = family.constants(*observed[1:]).sum(axis=1)
        else:
            values, weights = working()
        number = float(len(kept)) if observed.weight is None else float(observed.weight.sum())
        constants = np.append(constants, number)
        seen_by = working if sums else None, observed, constants, sums
        return cls(points, values, weights, np.zeros(1), single, *seen_by)


def _working(family: Family, observed: Observed, kept: Array, rows: int) -> tuple[Array, Array]:
    """Return the working responses of all rows, and their weights."""
    found = working_response(family.begin(*observed[1:]), observed)
    return _spread_out(kept, rows, *found)


def _spread_out(kept: Array, rows: int, seen: Array, weight: Array) -> tuple[Array, Array]:
    """Return targets and weights of all rows from those of the rows that are kept."""
    if len(kept) == rows:
        return seen, weight
    values, weights = np.full(rows, np.nan), np.ones(rows)
    values[kept], weights[kept] = seen, weight
    return values, weights


def _check_known(family: Family, y: Array, extra: Array | None, kept: Array) -> None:
    """Check the targets that are known; messages number all rows."""
    if len(kept) in (0, len(y)):
        family.check(y[kept], None if extra is None else extra[kept])
        return
    where = np.full(len(y), kept[0])  # the others are taken for the first, which is checked anyway
    where[kept] = kept
    family.check(y[where], None if extra is None else extra[where])


def _without(y: Array, weights: Array) -> tuple[Array, Array]:
    """Return targets and weights with rows of weight zero missing."""
    y, weights = np.array(y, dtype=float), np.array(weights, dtype=float)
    y[weights == 0.0], weights[weights == 0.0] = np.nan, 1.0
    return y, weights


@dataclass(frozen=True, eq=False)
class FitData:
    """Statistics of the data so far."""

    stats: Statistics
    structure: Structure[Any]
    known_noise: bool  # True where noise variances were given
    single: bool  # True where y came as a vector
    seconds: float = 0.0  # time of the passes over the data
    targets: tuple[str, ...] | None = None  # of a source; frames are then read by name
    features: Features = field(default_factory=partial(Features, 0))  # number and names of columns
    # Of y. While there are several to choose from, the outputs of each follow those of the last.
    transforms: tuple[Transform, ...] = (IDENTITY,)
    choice: str = ""  # why it is this one, where it was chosen
    span: tuple[object, ...] | None = None  # the domain, where wider cells reach beyond it
    # Where the kernel was chosen from the data: the objective that suits it, why it is this one,
    # and its hyperparameters and the noise variance to begin with, if they are known
    objective: str = "elbo"
    kernel_choice: str = ""
    start: tuple[float, ...] = ()
    widening: float = 1.0  # factor of all variances after training, where holes told it
    information: Array | None = None  # about what the data tell of the logarithms of the start
    scaled: bool = False  # True where noise variances that were given are known up to a factor
    # False where a likelihood that is not Gaussian reads the rows again: sums are of its start only
    summed: bool = True
    code: str = ""  # what looks like a code for missing values among the targets, in words
    # Some points of Gaussian data, of which no target is below zero; model files do not hold them
    looked_at: Points | None = None

    @property
    def layout(self) -> Layout:
        """Columns of X by their use."""
        return self.structure.layout

    @property
    def axis(self) -> TimeAxis | None:
        """The time axis of a model of one input."""
        return self.structure.axis

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return len(self.stats.squares) // len(self.transforms)

    @property
    def transform(self) -> Transform:
        """The transform of y, which must have been chosen by now."""
        (transform,) = self.transforms
        return transform

    def chosen(self, number: int, choice: str) -> FitData:
        """Return the data with one of the transforms, counted from zero, and why it was chosen."""
        which = slice(number * self.outputs, (number + 1) * self.outputs)
        stats, transforms = self.stats.of_outputs(which), (self.transforms[number],)
        return replace(self, stats=stats, transforms=transforms, choice=choice)

    @property
    def domain(self) -> tuple:
        """The interval of the splines; with several inputs one per input."""
        return self.structure.domain(self.stats) if self.span is None else self.span

    def with_statistics(self, stats: Statistics) -> FitData:
        """Return the same with other statistics."""
        same = self.structure.grids(stats) == self.structure.grids(self.stats)
        return replace(self, stats=stats, span=self.span if same else None)

    def compact(self, stats: Statistics) -> FitData:
        """Return the same with statistics of the same data on wider cells.

        ``stats`` are those of a posterior. Where the likelihood is not Gaussian, they are of its
        sites, and only their cells count: the sums of the data go on cells half as wide, if there
        are such, as more nodes of a quadrature are then known of them.
        """
        if self.family is not None:
            factors = common_factors(self.stats.grids, stats.grids)
            stats = self.stats.coarsen([f // 2 if f % 2 == 0 else f for f in factors])
        beyond = self.structure.domain(stats) != self.domain
        return replace(self, stats=stats, span=self.domain if beyond else None)

    def table(self, X) -> Table:
        """Return X as a table, checked to have the columns of the data so far.

        Arrays get the names of the columns of a source that the model was fitted to.
        """
        if isinstance(X, Table):
            return X
        names = self.features.names
        unnamed = not (hasattr(X, "columns") or isinstance(X, Gridded | Mapping | tuple))
        table = Table(X)
        if self.targets is not None and names is not None and unnamed and table.width == len(names):
            columns = [table.column(i) for i in range(table.width)]
            arrays = [each if isinstance(each, Zoned) else np.asarray(each) for each in columns]
            table = Table(Columns(names, arrays))
        self.features.check(table)
        return table

    def points(self, X, width=None) -> Points:
        """Return the points of further rows of X."""
        return self.structure.read(self.table(X), width)

    def rows(self, X, y, sample_weight=None, noise_variance=None, width=None, *beside) -> Rows:
        """Read further rows, checked to be of the kind of those so far."""
        table = self.table(X)
        given = y, sample_weight, noise_variance, width, *beside
        rows = Rows.read(self.structure, table, *given, transforms=self.transforms)
        if len(rows.log_jacobian) != len(self.stats.squares):
            raise ValueError(
                f"y has shape {np.shape(y)}, but the data so far have {self.outputs} output"
                f"{'s' * (self.outputs > 1)}."
            )
        if self.family is None:
            self.check_convention(sample_weight, noise_variance)
        elif self.summed and not rows.summed:
            raise ValueError(
                f"The rows so far had sums that are all that {self.family!r} needs, and with the "
                "offset of these they would have to be read again: call fit with all of them."
            )
        return rows

    @property
    def family(self) -> Family | None:
        """The likelihood, where it is not Gaussian."""
        first = self.transforms[0]
        return first.likelihood if isinstance(first, Response) else None

    def check_convention(self, sample_weight, noise_variance) -> None:
        """Check that weights of rows mean what they meant so far."""
        if not (self.known_noise or self.stats.counted or sample_weight is None):
            raise ValueError(
                "This model was fitted by an earlier version, with sample_weight as inverse "
                "relative noise variances; now weights say how often rows are there. Fit it anew, "
                "with noise_variance and noise_scale='auto' in place of weights."
            )
        if self.known_noise != (noise_variance is not None):
            before, now = ("with", "without") if self.known_noise else ("without", "with")
            raise ValueError(
                f"The data so far came {before} known noise variances, these come {now} them: "
                "statistics with different conventions for the weights do not add."
            )


def structure_of(
    kernel: Kernel,
    table: Table,
    trained: bool = True,
    domain=None,
    chain: bool = False,
    known: Sequence[TimeAxis | None] = (),
) -> Structure[Any]:
    """Return the structure of a kernel over the columns of X, with the units of its inputs.

    With ``chain``, components share the cells of one chain where that is possible. Sums of Matérn
    kernels share them, too, unless the inputs are regular and no domain is given.

    Times are counted from the beginning of the domain where that is given, so that models of
    different data on one domain agree; else from the first. Axes that are ``known`` from earlier
    data are kept, and read text as times.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import Matern32
    >>> type(structure_of(Matern32(), Table(np.zeros((5, 1))))).__name__
    'Line'
    >>> type(structure_of(Matern32(), Table(np.zeros((5, 2))))).__name__
    'Field'
    """
    layout = match(kernel, table)
    given = domain if isinstance(domain, Sequence) else ()  # one pair per input, for a field
    pairs = {layout.input: domain} if layout.single else dict(zip(layout.over, given, strict=False))
    kept = dict(zip(layout.used, known, strict=True)) if len(known) == len(layout.used) else {}
    axes = []
    for number in layout.used:
        column, axis = table.column(number), kept.get(number)
        if axis is None and number not in kept and is_time(column):
            axis = TimeAxis.from_values(column, name=table.column_name(number))
            with suppress(TypeError, ValueError):  # which are raised where the domain is used
                if pairs.get(number) is not None:
                    axis = replace(axis, origin=TimeAxis.from_values(pairs[number]).origin)
        elif axis is None and (not isinstance(column, np.ndarray) or column.dtype.kind in "OU"):
            refuse_text(column, table.column_name(number))
        axes.append(axis)
    times = {number for number, axis in zip(layout.used, axes, strict=True) if axis is not None}
    check_units(layout.kernel, times, not trained)
    kinds = classes_of(layout)
    chain = chain or (Line in kinds and not _own_cells(layout, table, axes, domain))
    return kinds[-1 if chain else 0](layout, tuple(axes))


def _own_cells(layout: Layout, table: Table, axes: Sequence[TimeAxis | None], domain: Any) -> bool:
    """Return True where components have cells of their own.

    Oscillators always have. Matérn kernels have if the inputs are regular and not too many: then
    cells as wide as the steps are narrow enough, and else a chain can have more of them. On a given
    domain they have not: models of other data there are made to be merged.
    """
    if any(isinstance(f, SHO) for part in layout.kernel.components for f in part.factors):
        return True
    if domain is not None or not 2 < len(table) <= SERIES.most_finest_cells:
        return False
    column, (axis,) = table.column(layout.input), axes
    try:
        x = np.asarray(column, float) if axis is None else axis.to_seconds(column)
    except (TypeError, ValueError):  # which is raised again, with more to say, when it is read
        return False
    return is_regular(x)


def classes_of(layout: Layout) -> tuple[type[Line] | type[Field], ...]:
    """Return the classes that the structure of a layout can have, the most general first."""
    factors = [factor for part in layout.kernel.components for factor in part.factors]
    periodic = [factor for factor in factors if isinstance(factor, Periodic)]
    if not layout.single:
        check_circles(layout)
        return (Field,)
    if periodic:
        return (Series,)
    own_cells = len(factors) > 1 or any(isinstance(f, SHO) for f in factors)
    return (Series, Line) if own_cells else (Line,)
