"""Check that the parts of a model that came from a file fit together.

Checksums show that a file is what was written. These checks show that what was written can
be a model: numbers that can be, types, and sizes that follow from each other. They raise ValueError
or TypeError.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from math import inf, isfinite, prod
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from asvgp.basis import Array
from asvgp.data.columns import Layout
from asvgp.data.extremes import check_extremes
from asvgp.data.response import Response
from asvgp.data.settings import Settings
from asvgp.kernels import Kernel, Periodic
from asvgp.likelihoods import Gaussian, Heteroscedastic
from asvgp.likelihoods.family import Family
from asvgp.model.chain_effects import Estimate
from asvgp.model.plan import Plan
from asvgp.model.series.inverse import end_numbers
from asvgp.model.series.plan import SeriesPlan
from asvgp.policies import FIELD, LINE, SAVING, SERIES
from asvgp.posterior.chain import ChainPosterior
from asvgp.posterior.exact import ExactPosterior
from asvgp.posterior.grid import GridPosterior
from asvgp.posterior.series import SeriesPosterior
from asvgp.sites.noise import NoiseProcess
from asvgp.statistics import Statistics
from asvgp.statistics.statistics import shapes_of_sums
from asvgp.structures.earth import grid_kind
from asvgp.structures.field import Field
from asvgp.structures.fit_data import FitData, classes_of
from asvgp.structures.line import Line
from asvgp.structures.series import Series
from asvgp.structures.structure import Structure
from asvgp.times import TimeAxis
from asvgp.training.fit import Fit
from asvgp.training.starts import signal_power


def check_numbers(arrays: Mapping[str, Array]) -> None:
    """Check that all numbers of all arrays are finite, and of a size that can be worked with.

    Sums of squares are the exception, which models without Gaussian noise do not have: they are
    all NaN there.
    """
    for name, array in arrays.items():
        if array.dtype.kind != "f" or not array.size:
            continue
        absent = name.endswith(".squares") and np.isnan(array).all()
        if not absent and not max(array.max(), -array.min()) <= SAVING.largest_number:
            wrong = ~(np.abs(array) <= SAVING.largest_number)
            place = np.unravel_index(int(np.argmax(wrong)), array.shape)
            raise ValueError(
                f"{name} holds {array[place]!r:.60} at {tuple(map(int, place))}, and "
                f"{np.count_nonzero(wrong)} such of {array.size} numbers"
            )
        if name.endswith(".squares") and np.any(array < 0.0):
            raise ValueError(f"{name}, sums of squares, are negative: {array.min()!r:.60}")


def check_fields(value: Any) -> None:
    """Check that the fields of a dataclass are of the types that it declares."""
    for name, kind in _declared(type(value)).items():
        part = getattr(value, name)
        if not _fits(part, kind):
            number = kind in (int, float) and not isinstance(part, np.ndarray)
            what = f"{part!r:.40}" if number else f"a {type(part).__name__}"
            raise TypeError(f"{name} is {what}")


@cache
def _declared(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}


def _fits(value: Any, kind: Any) -> bool:
    """Return True if a value is of an annotated type; protocols and variables fit anything."""
    origin, args = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        return any(_fits(value, arg) for arg in args)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and value.dtype == np.float64
    if origin in (int, float):
        return isinstance(value, int if origin is int else (int, float)) and not isinstance(
            value, bool
        )
    if origin in (tuple, list) and isinstance(value, origin):
        each = args if origin is tuple and args[-1] is not ... else args[:1] * len(value)
        return len(each) == len(value) and all(map(_fits, value, each))
    if not isinstance(origin, type) or getattr(origin, "_is_protocol", False):
        return True
    return origin is Any or isinstance(value, origin)


def check_model(settings: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Check the settings and the state of an estimator."""
    _is("device", settings["device"], str)
    Settings.parse(**{**settings, "device": "cpu"})  # this machine may have no other
    data = state["_data"]
    _is("the data", data, FitData)
    width, names = state["n_features_in_"], state.get("feature_names_in_")
    _whole("n_features_in_", width, 1)
    if names is not None and (len(names) != width or not all(isinstance(n, str) for n in names)):
        raise ValueError(f"there are {width} columns, but their names are {names!r:.80}")
    _structure(data.structure, width)
    _statistics(data.stats, data.structure)
    if not data.transforms or data.stats.outputs % len(data.transforms):
        raise ValueError(f"{data.stats.outputs} outputs of {len(data.transforms)} transforms")
    _likelihood(data)
    if data.single and data.outputs != 1:
        raise ValueError("several outputs where there was one")
    if data.objective not in ("elbo", "evidence"):
        raise ValueError(f"the objective is {data.objective!r:.80}")
    if data.start and len(data.start) != len(data.layout.kernel.parameters) + 1:
        raise ValueError(f"{len(data.start)} hyperparameters to begin with")
    if "_warm" in state:
        _trained(state["_warm"].kernel, data.layout.kernel)
        _of_family(state["_warm"].likelihood, data.family)
    if "_fit_now" in state:
        _fit(state["_fit_now"], data, width)


def _fit(fit: Any, data: FitData, width: int) -> None:
    _is("the fit", fit, Fit)
    if len(data.transforms) > 1:
        raise ValueError("a fit without a choice of the transform")
    posterior, structure = fit.posterior, data.structure
    _is("the posterior", posterior, _POSTERIORS[type(structure)])
    _of_family(fit.likelihood, data.family)
    widths = [grid.upper - grid.lower for grid in structure.grids(data.stats)] or [1.0]
    for part in (fit, posterior):
        _trained(part.kernel, data.layout.kernel)
        check_extremes(part.kernel, False, widths, signal_power(data.stats), None)
    _is("the posterior's statistics", posterior.stats, Statistics)
    _statistics(posterior.stats, structure)
    if posterior.stats is not data.stats:
        _array("constants of the posterior", posterior.stats.constants, (0,))
    if posterior.stats.outputs != data.outputs:
        raise ValueError("the posterior has other outputs than the statistics")
    _CHECKS[type(posterior)](posterior)
    _noise_process(fit, data, width)


def _noise_process(fit: Any, data: FitData, width: int) -> None:
    """Check the process of the noise, which is there if the likelihood has one."""
    process, family = fit.noise_process, fit.likelihood
    if not isinstance(family, Heteroscedastic):
        _is("the process of the noise", process, type(None))
        return
    _is("the process of the noise", process, NoiseProcess)
    structure, posterior = process.structure, process.posterior
    _structure(structure, width)
    _is("the noise kernel", family.kernel, Kernel)
    layout = structure.layout
    if {*layout.used, *layout.linear} - {*data.layout.used, *data.layout.linear}:
        raise ValueError("the process of the noise is over columns that f is not over")
    _is("the posterior of the noise", posterior, _POSTERIORS[type(structure)])
    for kernel in (family.kernel, posterior.kernel):
        _trained(kernel, layout.kernel)
    _is("the statistics of the noise", posterior.stats, Statistics)
    _statistics(posterior.stats, structure)
    _CHECKS[type(posterior)](posterior)


def _likelihood(data: FitData) -> None:
    """Check what the data say of the likelihood, and the sums that it needs."""
    for transform in data.transforms:
        if isinstance(transform, Response) and (len(data.transforms) > 1 or not transform.family):
            raise ValueError("a likelihood among several transforms, or none at all")
    family, sums = data.family, 0
    if family is not None:
        if data.outputs != 1:
            raise ValueError(f"{data.outputs} outputs of {family!r}")
        if data.stats.convention != data.structure.convention("measures"):
            raise ValueError(f"sums of {family!r} are {data.stats.convention!r:.80}")
        nothing, sums = np.empty(0), int(data.stats.count > 0)  # the number of rows is the last
        if data.summed and data.stats.count:
            sums += len(family.constants(nothing, nothing, nothing, nothing))
    elif not data.summed:
        raise ValueError("rows are to be read again, and the noise is Gaussian")
    _array("constants of the statistics", data.stats.constants, (sums,))


def _of_family(likelihood: Any, family: Family | None) -> None:
    """Check that a likelihood is that of the data, with other values of its parameters."""
    kind = Gaussian if family is None else type(family)
    free = None if family is None else family.free
    if type(likelihood) is not kind or getattr(likelihood, "free", None) != free:
        raise ValueError(f"{likelihood!r:.80} is not {kind.__name__}, which the data came with")


def _chain_posterior(posterior: ChainPosterior) -> None:
    stats, kernel = posterior.stats, posterior.kernel
    outputs, effects, cells = len(stats.squares), len(kernel.effects), stats.grid.cells
    degrees = posterior.degree
    degrees = degrees if isinstance(degrees, tuple) else (degrees,) * len(kernel.components)
    for degree, part in zip(degrees, kernel.components, strict=True):
        _whole("degree", degree, part.order + 1, stats.degree)
    size = sum(degrees) + len(degrees)
    state = posterior._saved  # of which a small file lacks some
    _known("the posterior", state, {"coefficients", "reductions", "effects"})
    if "coefficients" in state:
        _array("coefficients", state["coefficients"], (outputs + effects, cells, size))
    if "reductions" in state:
        reductions = [(max(degrees), size), *((k, k + 1) for k in degrees)]
        _is("reductions", state["reductions"], list)
        for (degree, width), (table, ends) in zip(reductions, state["reductions"], strict=True):
            _array("reductions", table, (cells, 2 * degree + 1))
            _array("reductions at the ends", ends, (2, width, width))
    if "effects" not in state:
        return
    saved = state["effects"]
    shapes = {"beta": (effects, outputs), "root": (effects, effects), "explained": (outputs,)}
    wanted = {f.name for f in fields(Estimate)} - {"design", "coefficients"} if effects else set()
    if set(saved) != wanted:
        raise ValueError(f"effects have {sorted(saved)} in place of {sorted(wanted)}")
    for name, value in saved.items():
        if name in shapes:
            _array(name, value, shapes[name])
        elif not _fits(value, float):
            raise TypeError(f"{name} is {value!r:.40}, not a number")


def check_plan(parts: Mapping[str, Any]) -> None:
    """Check the plan of a posterior, before anything is made as large as it says."""
    _is("the statistics", parts["stats"], Statistics)
    _is("the kernel", parts["kernel"], Kernel)
    if isinstance(parts.get("plan"), Plan):
        _grid_plan(parts["plan"], parts["stats"], parts["kernel"])
    elif isinstance(parts.get("plan"), SeriesPlan):
        _series_plan(parts["plan"], parts["stats"], parts["kernel"])


def _grid_plan(plan: Plan, stats: Statistics, kernel: Kernel) -> None:
    smooths = tuple(zip(plan.smooth_grids, plan.smooth_degrees, strict=True))
    if (plan.grids, plan.powers, smooths) != (stats.grids, stats.degrees, stats.smooths):
        raise ValueError("the posterior is on other grids than its statistics")
    if sorted((*plan.terms, *plan.smooths)) != list(range(len(kernel.components))):
        raise ValueError("the plan is of another kernel")
    if plan.effects != len(kernel.effects):
        raise ValueError("the plan has other effects than the kernel")
    for levels, degrees in zip(plan.levels, plan.degrees, strict=True):
        for level, degree, power in zip(levels, degrees, plan.powers, strict=True):
            _whole("level", level, 0, 62)
            _whole("degree", degree, 0, power)
    for outer in plan.outer:
        for cells in outer:
            _whole("cells beyond the data", cells, 0, SAVING.most_outer_cells)


def _grid_posterior(posterior: GridPosterior) -> None:
    plan, stats = posterior.plan, posterior.stats
    _is("the plan", plan, Plan)
    size, columns = posterior.engine.size, plan.columns
    _array("mean", posterior.mean, (size, len(stats.squares)))
    if posterior._saved_inverse is None:  # as from a small file
        return
    squares, cross, between = posterior._saved_inverse
    if not plan.inputs:
        _array("inverse", between, (columns, columns))
        return
    cells = prod(grid.cells for grid in plan.grids)
    _array("inverse", squares, (cells, prod(2 * p + 1 for p in plan.powers)))
    powers = prod(p + 1 for p in plan.powers) if columns else 0
    _array("inverse with the columns", cross, (cells, powers, columns))
    _array("inverse of the columns", between, (columns, columns))


def _series_plan(plan: SeriesPlan, stats: Statistics, kernel: Kernel) -> None:
    if (plan.grid, plan.powers) != (stats.grid, stats.degree):
        raise ValueError("the posterior is on other cells than its statistics")
    if (len(plan.parts), plan.effects) != (len(kernel.components), len(kernel.effects)):
        raise ValueError("the plan is of another kernel")
    for part, component in zip(plan.parts, kernel.components, strict=True):
        if part.along is not None:
            _whole("level", part.along.level, 0, 62)
        if part.around is not None:
            _whole("phases", part.around.count, 1, SAVING.most_phases)
            most = max(SAVING.most_turn_of_domain * plan.grid.cells, SAVING.most_turn)
            _whole("width", part.around.width, 1, most // part.around.count)
            turn = part.around.count * part.around.width
            if turn not in [
                round(factor.period / plan.grid.spacing)
                for factor in component.factors
                if isinstance(factor, Periodic)
            ]:
                raise ValueError(f"the plan has a season of {turn} cells, the kernel has not")
        _whole("power", part.power, 1, plan.powers)


def _series_posterior(posterior: SeriesPosterior) -> None:
    plan, stats = posterior.plan, posterior.stats
    _is("the plan", plan, SeriesPlan)
    engine, cells = posterior.engine, plan.grid.cells
    _array("mean", posterior.mean, (engine.size, len(stats.squares)))
    if posterior._known_inverse is None:  # as from a small file
        return
    squares, cross, ends = posterior._known_inverse
    _array("inverse", squares, (cells, 2 * plan.powers + 1))
    _array("inverse with the effects", cross, (cells, plan.powers + 1, plan.effects))
    count = end_numbers(engine.tables).shape[1]
    _array("inverse at the ends", ends, (2, count, count))


def _exact_posterior(posterior: ExactPosterior) -> None:
    outputs, inputs = len(posterior.stats.squares), len(posterior.engine.x)
    _array("residual", posterior.residual, (inputs, outputs))
    _array("effects", posterior.effects, (len(posterior.kernel.effects), outputs))


_POSTERIORS: dict[type, Any] = {
    Line: ChainPosterior,
    Field: GridPosterior,
    Series: SeriesPosterior | ExactPosterior,
}
_CHECKS: dict[type, Any] = {
    ChainPosterior: _chain_posterior,
    GridPosterior: _grid_posterior,
    SeriesPosterior: _series_posterior,
    ExactPosterior: _exact_posterior,
}


def _statistics(stats: Statistics, structure: Structure[Any]) -> None:
    outputs, layout = len(stats.squares), structure.layout
    grids = structure.grids(stats)
    for grid, period, column in zip(grids, layout.periods, layout.used, strict=True):
        if type(grid) is not grid_kind(layout, column):
            raise ValueError(f"{grid} for column {column}")
        _whole("cells", grid.cells, 1 if period is None else FIELD.fewest_circle_cells)
        if grid.cyclic is not (period is not None):
            raise ValueError(f"a period of {period} on {grid}")
        if not grid.lower < grid.upper or not isfinite(grid.upper - grid.lower):
            raise ValueError(f"a grid from {grid.lower} to {grid.upper}")
    for degree in (*stats.degrees, *(degree for _, degree in stats.smooths)):
        _whole("degree", degree, 1, max(LINE.most_degree, 2 * SERIES.wave_degree))
    if (len(stats.grids), len(stats.degrees)) != (len(layout.inputs),) * 2:
        raise ValueError(f"{len(stats.grids)} grids for {len(layout.inputs)} inputs")
    linear = len(structure.effect_columns)
    _whole("linear", stats.linear, linear, linear)
    if len(stats.smooths) != len(layout.smooths):
        raise ValueError("the statistics have other columns than the kernel")
    columns = sum(grid.splines(degree) for grid, degree in stats.smooths) + stats.linear
    shapes = shapes_of_sums(stats.grids, stats.degrees, columns, outputs)
    shapes |= dict.fromkeys(("centre", "log_jacobian"), (outputs,))
    shapes |= {"column_centre": (stats.linear,)}
    shapes |= dict.fromkeys(("widths", "width_weights"), (len(stats.widths),))
    pairs = tuple((k + 1) * (k + 2) // 2 for k in stats.degrees)
    if layout.intervals is not None and stats.moments.shape[1:] == pairs:  # averages, now or once
        shapes["moments"] = (stats.grid.cells, *pairs)
    for name, shape in shapes.items():
        _array(f"{name} of the statistics", getattr(stats, name), shape)
    _whole("count", stats.count, 0)


def _structure(structure: Any, width: int) -> None:
    _is("the structure", structure, Line | Field | Series)
    layout, axes = structure.layout, structure.axes
    _is("the layout", layout, Layout)
    if layout.names is not None and len(layout.names) != width:
        raise ValueError(f"{len(layout.names)} names for {width} columns")
    numbers = (*layout.inputs, *layout.linear, *(layout.used if layout.smooths else ()))
    for number in numbers:
        _whole("column", number, 0, width - 1)
    for number in layout.smooths:
        _whole("smooth", number, 0, len(layout.kernel.components) - 1)
    _is("axes", axes, tuple)
    if len(axes) != len(layout.used) or type(structure) not in classes_of(layout):
        raise ValueError(f"{len(axes)} axes for {len(layout.used)} inputs")
    for axis in axes:
        _is("time axis", axis, TimeAxis | None)


def _trained(kernel: Any, given: Kernel) -> None:
    """Check that trained hyperparameters are those of the given kernel.

    Effects without a prior may have got one: the sites of a likelihood need it.
    """
    _is("trained kernel", kernel, Kernel)
    pairs = list(zip(kernel.effects, given.effects, strict=False))
    same = len(kernel.effects) == len(given.effects) and all(
        one == other or (other.variance is None and replace(one, variance=None) == other)
        for one, other in pairs
    )
    if kernel.parameters != given.parameters or not same:
        raise ValueError(f"{kernel!r} is not {given!r} with other hyperparameters")


def _is(name: str, value: Any, kind: Any) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name} is a {type(value).__name__}")


def _known(name: str, found: Any, names: set[str]) -> None:
    if unknown := set(found) - names:
        raise ValueError(f"{name} has unknown parts {sorted(unknown)}")


def _whole(name: str, value: Any, least: int, most: float = inf) -> None:
    if not _fits(value, int) or not least <= value <= most:
        raise ValueError(f"{name} is {value!r:.40}")


def _array(name: str, value: Any, shape: tuple[int, ...]) -> None:
    if not isinstance(value, np.ndarray) or value.dtype != np.float64:
        raise TypeError(f"{name} is {getattr(value, 'dtype', type(value).__name__)}, not float64")
    if value.shape != shape:
        raise ValueError(f"{name} has shape {value.shape}, where {shape} would fit the rest")
