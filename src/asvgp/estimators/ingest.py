"""From a source to statistics: open it, read a block, prepare grids, accumulate, check.

Arrays are a source of one block. There are two walks. Where the domain is known, or can be found,
before the pass, all blocks are summed on one grid, on workers too. Otherwise, and where data are
added to others, the grid grows from block to block. At the end y must hold something to train on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from asvgp.basis import Array
from asvgp.data.codes import missing_code
from asvgp.data.columns import Features, Table, match
from asvgp.data.inputs import read_targets
from asvgp.data.settings import Settings
from asvgp.data.transforms import Transform
from asvgp.estimators.again import RowsAgain
from asvgp.estimators.choice import possible_transforms
from asvgp.estimators.default_field import FieldChoice, choose_field, plain_field
from asvgp.estimators.default_kernel import PLAIN, default_kernel
from asvgp.kernels import Kernel
from asvgp.likelihoods.family import BadRows
from asvgp.model.effects import near_means
from asvgp.policies import DATA, PILOT, SAMPLE, VERDICT
from asvgp.runtime.progress import Progress
from asvgp.runtime.warn import warn
from asvgp.sources.arrays import RowsSource
from asvgp.sources.source import Chunk, Source, Stream
from asvgp.statistics import Statistics
from asvgp.statistics.accumulator import Accumulator
from asvgp.structures.field import Field
from asvgp.structures.fit_data import FitData, Rows, structure_of
from asvgp.structures.observed import ONE_READ, Observed, sums_suffice
from asvgp.structures.structure import Points
from asvgp.training.starts import mean_weight

Advance = Callable[[int], None]


@dataclass(frozen=True, eq=False)
class Addition:
    """Data after a source was added."""

    data: FitData  # all data so far
    count: int  # rows of the source with targets
    missing: int  # rows without
    gridded: bool  # True where the rows are the points of a grid
    sample: Array | None = None  # targets that were looked at, for checks that sums cannot decide
    again: RowsAgain | None = None  # reads the rows again, for likelihoods that need it
    first: Observed | None = None  # rows of a likelihood that is not Gaussian, to judge it by


@dataclass(eq=False)
class Reader:
    """Turns blocks of rows into statistics on a grid that is known: all that a worker needs."""

    settings: Settings
    data: FitData  # the statistics say on what grid, the structure how to read what
    first: tuple[Chunk, Rows] | None = None  # that the grid was prepared for, not read again

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"first": None}

    @property
    def nbytes(self) -> int:
        """Bytes of the statistics."""
        return self.data.stats.nbytes

    def statistics(
        self, blocks: Iterable[Chunk], progress: Advance | None = None, start: int = 0
    ) -> Statistics:
        """Return the statistics of blocks of rows; messages count rows from ``start``."""
        sums, log_jacobian = Accumulator(self.data.stats), np.zeros(len(self.data.stats.squares))
        constants: Any = 0.0
        plain = self.data.family is None and self.data.transforms[0].identity
        lowest = np.inf if plain else -np.inf
        for block in blocks:
            with counted_from(start):
                rows = self.read(block)
                rows.points.add_to(sums, rows.y, rows.weights, progress)
                if not np.all(np.isfinite(sums.squares)):
                    raise ValueError(infinite_targets(rows.y))
            log_jacobian += rows.log_jacobian
            if lowest >= 0.0 and rows.y.size:  # below zero, it says all that is wanted
                y = self.first_outputs(rows)
                lowest = min(lowest, float(np.fmin.reduce(y, axis=None)))
            constants = constants + rows.constants
            start += rows.points.count
        further = {} if np.ndim(constants) == 0 else {"constants": constants}
        return replace(sums.statistics(), log_jacobian=log_jacobian, lowest=lowest, **further)

    def first_outputs(self, rows: Rows) -> Array:
        """Return the targets of rows; of several transforms, by the first."""
        return rows.y if rows.y.ndim == 1 else rows.y[:, : self.data.outputs]

    def read(self, block: Chunk) -> Rows:
        """Read a block, and check that the grid holds it."""
        first, self.first = self.first, None
        if first is not None and first[0] is block:
            return first[1]
        rows = self.data.rows(*block)
        self.check_inside(rows.points)
        return rows

    def check_inside(self, points: Points) -> None:
        """Check that points lie inside the domain of the statistics."""
        self.data.structure.check_inside(self.settings, points, self.data.stats)


class Forgetter(Reader):
    """Reads rows that are to be taken out again, so that they must have been added before."""

    def check_inside(self, points: Points) -> None:
        """Check that points can be among those that were added."""
        reason = self.data.structure.never_added(points, self.data.stats)
        if reason is not None:
            raise ValueError(
                f"These data cannot be forgotten, because they were never added: {reason}."
            )


def absorb(
    settings: Settings,
    source: Source,
    data: FitData | None = None,
    growing: bool = False,
    progress: Progress | None = None,
) -> Addition:
    """Add the rows of a source to the data so far.

    Where the domain is ``growing``, it need not be known before.
    """
    progress = Progress(False) if progress is None else progress
    names = None if data is None or data.features.names is None else list(data.features.names)
    source = source.prepared(settings.kernel, names)
    stream = source.open()
    choice = None
    if settings.kernel is None and data is None:
        choice = _default_model(settings, stream.head, growing, stream.whole)
        settings = settings.with_kernel(choice.kernel, choice.spacing)
    elif settings.kernel is None and data is not None:
        settings = settings.with_kernel(data.layout.given)
    try:
        added = _absorb(settings, source, stream, data, growing, progress)
    except BadRows as error:
        raise (source.numbered(error) if isinstance(source, RowsSource) else error) from None
    return added if choice is None else replace(added, data=_chosen(added.data, choice))


def _absorb(
    settings: Settings,
    source: Source,
    stream: Stream,
    data: FitData | None,
    growing: bool,
    progress: Progress,
) -> Addition:
    """Add the rows of a source, with a kernel that is known."""
    known = stream.whole or source.again or settings.domain_known
    if data is None and (known or not growing):
        return _absorb_whole(settings, source, stream, growing, progress)
    count, missing, advance = 0, 0, progress.passing(source.rows)
    code = "" if data is None else data.code
    code = code or _code(source, stream, "in one call of partial_fit")
    for block in stream.blocks():
        reader = prepare(settings, block, data, targets=source.target_names)
        check_sums(reader.data, "partial_fit")
        assert reader.first is not None
        points, before = reader.first[1].points, reader.data.stats
        new = reader.statistics([block], advance)
        data = reader.data.with_statistics(new if before.count == 0 else before + new)
        data = replace(data, code=code, looked_at=_looked_at(data, points, new))
        count, missing = count + new.count, missing + new.missing
        del points
    if data is None:
        raise ValueError("There are no data: 0 rows.")
    return Addition(data, count, missing, source.gridded)


def _absorb_whole(
    settings: Settings, source: Source, stream: Stream, growing: bool, progress: Progress
) -> Addition:
    """Sum a source on one grid, after a pass for its range where the domain is not known."""
    before = counted = extent = None
    if not stream.whole:
        before = source.fingerprint()
        if not source.again:
            _check_one_read(settings, stream.head)
        extent, counted = _extent(settings, source, stream, progress)
    reader = prepare(settings, stream.head, None, extent, stream.whole, source.target_names)
    assert reader.first is not None
    rows = reader.first[1]
    points, y = rows.points, reader.first_outputs(rows)
    again, first = None, rows.observed
    if not rows.summed:
        if growing:
            check_sums(reader.data, "partial_fit")
        again = RowsAgain(reader, rows, None if stream.whole else source, before)
    sample = y
    if not stream.whole:  # two values that differ, if the first block holds such
        ends = np.array([np.fmin.reduce(y, axis=None), np.fmax.reduce(y, axis=None)])
        sample = ends if ends[0] < ends[1] else None
    length = points.count if stream.whole else source.rows or counted
    code = _code(source, stream, "in one call of partial_fit" if growing else "")
    few = points.spread_out(VERDICT.points_looked_at)
    del points, y, rows
    new = stream.statistics(reader, progress.passing(length))
    if not stream.whole:
        check_unchanged(source, before, counted, new)
    data = reader.data.with_statistics(new)
    data = replace(data, code=code, looked_at=_looked_at(data, few, new))
    return Addition(data, new.count, new.missing, source.gridded, sample, again, first)


def _looked_at(data: FitData, new: Points, stats: Statistics) -> Points | None:
    """Return points to judge bands at, of data and rows that were added to them.

    There are none if a target is below zero, or where bands of new observations are not known.
    Of all rows, each is as likely among them.
    """
    judged = data.family is None and data.transforms[0].identity and not data.known_noise
    if not judged or new.width is not None or data.stats.lowest < 0.0:
        return None
    most, rows = VERDICT.points_looked_at, data.stats.count + data.stats.missing
    old, added = data.looked_at, stats.count + stats.missing
    if old is None:
        return new.spread_out(most) if added == rows else None
    if old.count + new.count > most:
        kept = min(max(round(most * added / rows), 1), most - 1)
        old, new = old.spread_out(most - kept), new.spread_out(kept)
    return old.with_points(new.expanded())


def _code(source: Source, stream: Stream, portion: str) -> str:
    """Say what looks like a code for missing values among the targets of the first block.

    Where that is not all there is, the words say so, for instance that it is a ``portion``.
    """
    head = stream.head
    if head.event is not None:  # times that are censored at one end of a study are no codes
        return ""
    y, present = read_targets(head.y, head.rows), head.present
    among = portion if stream.whole else f"in the first {head.rows:,} rows"
    columns = source.roles.targets
    return missing_code(y if present is None else y[present], columns=columns, among=among)


def _check_one_read(settings: Settings, head: Chunk) -> None:
    """Check that an iterator, which can be read once, suffices for the likelihood."""
    family = settings.family
    if family is None:
        return
    structure = structure_of(settings.chosen, Table(head.X), settings.trained, settings.domain)
    offset = head.offset if head.exposure is None else head.exposure
    if not sums_suffice(family, structure, offset):
        raise ValueError(
            f"{family!r} reads the rows several times, and these data, an iterator, can be read "
            "once. Give a function that returns a new iterator, or arrays; "
            f"{ONE_READ}."
        )


def check_sums(data: FitData, method: str) -> None:
    """Check that rows can be added or taken out by their sums."""
    if not data.summed:
        raise ValueError(
            f"{method} adds and subtracts sums, and {data.family!r} with this kernel reads the "
            f"rows again at every step: call fit with all of them. {ONE_READ[0].upper()}"
            f"{ONE_READ[1:]}."
        )


def _extent(
    settings: Settings, source: Source, stream: Stream, progress: Progress
) -> tuple[Any, int | None]:
    """Return the outermost inputs of a source if the domain depends on them, and its rows."""
    head = stream.head
    extent = source.ranges() if head.width is None else None
    if extent is not None or settings.domain_known:
        return extent, None
    if not source.again:
        raise ValueError(
            f"The domain is not known, and after the first {head.rows:,} rows these data, an "
            "iterator, cannot be read again to find it. Give domain=(a, b), or a function that "
            "returns a new iterator; or call partial_fit, by which the domain grows as data come."
        )
    along = match(settings.chosen, Table(head.X)).intervals
    return source.survey(progress.passing(source.rows, "range of the data"), along)


def prepare(
    settings: Settings,
    block: Chunk,
    data: FitData | None = None,
    extent=None,
    whole: bool = True,
    targets: tuple[str, ...] | None = None,
) -> Reader:
    """Read a block, and return a reader on a grid that holds it and the ``data`` so far.

    Where the block is not the ``whole`` of the data, ``extent`` holds their outermost inputs.
    """
    table = Table(block.X) if data is None else data.table(block.X)
    widest = table if extent is None else Table(extent)
    chain = _on_one_chain(settings, block)
    known = () if data is None else data.structure.axes
    structure = structure_of(
        settings.chosen, widest, settings.trained, settings.domain, chain, known
    )
    if data is not None:
        if structure.columns != data.structure.columns:
            raise ValueError(
                "The kernel has changed since the first data, and needs other columns of X: "
                f"{data.layout.given!r} then, {settings.kernel!r} now. Call fit to begin anew."
            )
        layout = replace(structure.layout, around=data.layout.around)
        structure = type(data.structure)(layout, data.structure.axes)
        _check_transforms(settings.transforms, data.transforms, block)
        targets = data.targets if targets is None else targets
        data = replace(data, structure=structure, targets=targets)
        rows = data.rows(table, *tuple(block)[1:])
        stats = structure.extended(settings, rows.points, data.stats)
        return Reader(settings, data.with_statistics(stats), (block, rows))
    transforms, why = possible_transforms(settings.transforms, block)
    rows = Rows.read(structure, table, *tuple(block)[1:], transforms=transforms)
    known_noise, scaled = block.noise_variance is not None, settings.noise_scale is None
    reach = None if extent is None else structure.read(widest)
    noise = ("ratios" if scaled else "known") if known_noise else "same"
    if rows.observed is not None:
        noise = "measures"
    seen = rows.chosen_by[0] if isinstance(structure, Field) else rows.y  # the others look at x
    centre = near_means([rows.y], rows.weights) if rows.working is not None else None
    stats = structure.empty(settings, rows.points, seen, noise, reach, whole, centre)
    data = FitData(
        stats,
        structure,
        known_noise,
        rows.single,
        0.0,
        targets,
        Features.of(widest),
        transforms,
        why,
        scaled=known_noise and scaled,
        summed=rows.summed,
    )
    return Reader(settings, data, (block, rows))


def _on_one_chain(settings: Settings, block: Chunk) -> bool:
    """Return True where all components share cells.

    A given number or degree of splines, and averages over intervals, are for such cells.
    """
    return not settings.automatic or settings.degree is not None or block.width is not None


def _chosen(data: FitData, choice: FieldChoice) -> FitData:
    """Return the data with what is known of a kernel that was chosen from them."""
    data = replace(data, objective=choice.objective, kernel_choice=choice.note)
    if len(data.transforms) > 1:  # the start is that of another y
        return data
    known = choice.information
    return replace(data, start=choice.start, widening=choice.widening, information=known)


def _default_model(settings: Settings, head: Chunk, growing: bool, whole: bool) -> FieldChoice:
    """Return the kernel for the first rows, and what is known of its training."""
    table = Table(head.X)
    if table.width == 1:
        note = "" if whole and not growing else f"from the first {head.rows:,} rows"
        return FieldChoice(_default_kernel(settings, head, table, growing or not whole), note=note)
    if table.width not in (2, 3):
        return FieldChoice(PLAIN)
    plain = FieldChoice(plain_field(table.width))
    if not settings.trained or head.width is not None:
        return plain
    if growing and head.rows < SAMPLE.fewest_rows:  # what they tell would bind those to come
        return plain
    try:
        structure = structure_of(PLAIN, table, settings.trained, settings.domain)
        rows = Rows.read(structure, table, *tuple(head)[1:], transforms=settings.transforms[:1])
    except (TypeError, ValueError):  # which are raised again when the rows are read
        return plain
    x, y, weights = _some(rows)
    known_noise = head.noise_variance is not None and settings.noise_scale is not None
    if settings.family is not None:
        known_noise = not settings.family.relative
    return (
        choose_field(
            x,
            y,
            weights,
            known_noise=known_noise,  # that of working responses is known at the best f only
            times=frozenset(structure.timed),
            most_nu=3.0 if settings.degree is None else settings.degree - 1.0,
            names=structure.layout.names or (),
            objective=settings.objective if rows.observed is None else "elbo",
        )
        or plain
    )


def _some(rows: Rows) -> tuple[Array, Array, Array | None]:
    """Return places, targets and weights of all rows, or of as many as are looked at."""
    points, (y, weights) = rows.points, rows.chosen_by
    y = y.reshape(points.count, -1)
    chosen = np.arange(points.count)
    if points.count > PILOT.rows:
        chosen = np.random.default_rng(0).integers(points.count, size=PILOT.rows)
    places = [chosen] * len(points.main)
    if points.shape is not None:
        places = list(np.unravel_index(chosen, points.shape))
    x = np.stack([column[i] for column, i in zip(points.main, places, strict=True)], axis=1)
    return x, y[chosen], None if weights is None else np.ravel(weights)[chosen]


def _default_kernel(settings: Settings, head: Chunk, table: Table, growing: bool) -> Kernel:
    """Return the kernel of one input, with y as the model sees it if that is settled.

    Where it is not, or where rows are still to come, nothing may depend on the scale of y or on
    how long the series is.
    """
    if _on_one_chain(settings, head):  # where seasons have no place
        return PLAIN
    try:
        structure = structure_of(PLAIN, table, settings.trained, settings.domain)
        given = head.y, None, None, None, *tuple(head)[5:]
        y, _ = Rows.read(structure, table, *given, transforms=settings.transforms[:1]).chosen_by
    except (TypeError, ValueError):  # which are raised again, of all rows, when these are read
        return PLAIN
    return default_kernel(table, y, bends=not growing and len(settings.transforms) == 1)


def _check_transforms(
    given: tuple[Transform, ...], so_far: tuple[Transform, ...], block: Chunk
) -> None:
    """Check that further rows are to be transformed as those so far were."""
    if not {*so_far} <= {*given}:
        then, now = (" or ".join(map(str, each)) for each in (so_far, given))
        raise ValueError(
            f"transform has changed since the first data: the model is of {then}, and {now} is "
            "wanted now. Call fit to begin anew."
        )
    possible_transforms(so_far[-1:], block)  # which raises an error if they cannot be


@contextmanager
def counted_from(start: int):
    """Make errors about a block say where it begins, from where they count rows."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if start == 0:
            raise
        raise type(error)(f"From row {start} of the data on, counted as 0: {error}") from error


def infinite_targets(y) -> str:
    """Return the message for an infinite sum of squares."""
    rows = np.asarray(y, dtype=float).reshape(len(y), -1)
    with np.errstate(over="ignore"):
        bad = np.flatnonzero(np.isinf(rows**2).any(axis=1))
    return (
        "Input y contains infinity or a value too large for dtype('float64') to be squared. First "
        f"rows: {', '.join(map(str, bad[:5]))}."
    )


def check_unchanged(source: Source, before, counted: int | None, stats: Statistics) -> None:
    """Check that the data are still those that were read first."""
    if source.fingerprint() != before:
        raise ValueError("The data have changed while they were read: fit again when they rest.")
    rows = stats.count + stats.missing
    if counted is not None and rows != counted:
        raise ValueError(
            f"The data have changed between two passes: {counted:,} rows in the first, {rows:,} in "
            "the second. A function given as source must bring the same rows each time."
        )


def is_constant(stats: Statistics, y=None) -> bool:
    """Return True if y is constant up to rounding; near that, y itself decides if it is given."""
    square = stats.squares / stats.weight
    spread = square - (stats.sums / stats.weight - stats.centre) ** 2
    if np.all(spread <= DATA.constant_rounding * square):
        return True
    if y is None or not np.all(spread <= DATA.constant_suspected * square):
        return False
    return bool(np.nanmin(y) == np.nanmax(y))


def check_variation(settings: Settings, stats: Statistics, y=None, first: bool = False) -> None:
    """Raise an error if y cannot be trained on, and warn if it needs an intercept.

    Sums tell a constant y up to rounding; near that, y itself decides where it is at hand. The
    warning comes with the ``first`` data only.
    """
    weight = mean_weight(stats)
    means = stats.sums / stats.weight
    spread = stats.squares / stats.weight - (means - stats.centre) ** 2
    power = float(np.max(means**2 + spread))
    fixed = power == 0.0 and settings.noise_variance is not None
    if not fixed and not DATA.smallest_power < power * weight < DATA.largest_power:
        raise ValueError(
            f"y has a root mean square of {power**0.5:.3g} (and mean weight {weight:.3g}), which "
            "double precision cannot work with. Rescale y, or drop what is zero throughout."
        )
    if not settings.trained:
        return
    if is_constant(stats, y):
        raise ValueError(
            f"y is constant ({means.min():g}, n_samples = {stats.count}): there is nothing to "
            "train a kernel on. Fix the hyperparameters with optimizer=None and a noise_variance."
        )
    if (
        first
        and np.any(means**2 > DATA.distant_mean * spread)
        and settings.chosen.intercept is None
    ):
        worst = int(np.argmax(means**2 / np.maximum(spread, 1e-300)))
        warn(
            f"y has a mean of {means[worst]:g}, more than a hundred times its standard deviation, "
            "and the prior mean is zero. Add an intercept to the kernel: + Constant().",
        )
