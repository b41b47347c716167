"""Memory and time of a model of several inputs, before they are spent."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from math import ceil, inf, prod
from tempfile import gettempdir
from typing import NamedTuple

from asvgp.basis import Grid
from asvgp.kernels import Kernel
from asvgp.linalg.multifrontal.disk import free_disk
from asvgp.model.devices import Batched, Cpu
from asvgp.model.levels import coarsened, first_coarsening
from asvgp.model.plan import Plan
from asvgp.policies import MEMORY
from asvgp.runtime.memory import in_words, physical_memory


class NotEnoughMemory(MemoryError, ValueError):
    """A model would take more memory than the limit."""


class Need(NamedTuple):
    """Bytes that a plan takes at its peak.

    Attributes
    ----------
    memory : float
        All of it in memory.
    rest : float
        What of that is left in memory while the factors are on disk.
    disk : float
        What those take there, two of them; zero where they cannot be.
    """

    memory: float
    rest: float
    disk: float = 0.0

    def spills(self, limit: float) -> bool:
        """Whether the factors do not fit in so much memory, and all else does."""
        return self.disk > 0.0 and self.rest <= limit < self.memory


def plan_bytes(
    plan: Plan, kernel: Kernel, engine: Cpu | Batched | None = None, limit: float = inf
) -> float:
    """Memory that bounds and a posterior on a plan take, if all of it is in memory."""
    return plan_need(plan, kernel, engine, limit).memory


def plan_need(
    plan: Plan, kernel: Kernel, engine: Cpu | Batched | None = None, limit: float = inf
) -> Need:
    """What bounds and a posterior on a plan take at their peak, the sums included.

    Two factors are held while the upper bound is computed; what leaves are made of comes in
    chunks. What a posterior keeps of the inverse, for derivatives and single terms, is not on
    the device. Far beyond ``limit`` it is a lower bound, found without looking at the elimination.
    """
    engine = engine or Cpu()
    columns = plan.columns
    alone = 8.0 * MEMORY.dense_copies * columns**2
    if not plan.inputs:
        return Need(alone, alone)
    cells = prod(grid.cells for grid in plan.grids)
    cross = 2.0 * cells * prod(k + 1 for k in plan.powers) * columns
    least = max(MEMORY.bytes_per_function * max(plan.counts(kernel)), alone, 8.0 * cross)
    if least > limit and (least > 2.0 * limit or columns > MEMORY.many_columns):
        return Need(least, least)
    tree = plan.tree(kernel)
    ranges = [[own.length for own in term] for term in tree.leaf_ranges]
    block = sum(prod(lengths) for lengths in ranges) + columns
    sums = 4 * cells * prod(2 * k + 1 for k in plan.powers) + cross
    batched = isinstance(engine, Batched)
    cost, leaves = tree.cost(padded=batched), len(tree.leaves) * block**2
    kept = 0 if batched else len(tree.leaves) * (block - columns) * block
    factors = max(cost.factor_peak, cost.inverse_peak) + cost.factor_nonzeros
    chunks = 3 * min(engine.chunk, leaves)
    total = 8.0 * (factors + (3 if batched else 1) * leaves + kept + chunks + sums)
    if batched:
        return Need(MEMORY.batched_overhead * total, MEMORY.batched_overhead * total)
    rest = total - 8.0 * (cost.factor_held + cost.factor_nonzeros)
    return Need(total, rest, 16.0 * cost.factor_held)


def joint_step(points: int, functions: int) -> int:
    """How many columns of a joint covariance are computed at a time."""
    return int(min(max(8, min(MEMORY.right_hand_sides // max(functions, 1), 512)), max(points, 1)))


def copies(outputs: int) -> float:
    """Matrices there are of a covariance, which is repeated for each of several outputs."""
    return 1.0 if outputs == 1 else 1.0 + outputs


def joint_bytes(points: int, functions: int, matrices: float = 1.0) -> float:
    """Memory that a joint covariance takes: so many matrices of its size, and a few columns."""
    columns = joint_step(points, functions) * (5.0 * functions + 6.0 * points)
    return 8.0 * (matrices * float(points) ** 2 + columns)


def require_joint(
    what: str, points: int, functions: int, limit: float | None, matrices: float = 1.0
) -> None:
    """An error where a joint covariance does not fit in a limit, or in this machine."""
    name = "memory_limit"
    if limit is None:
        name, limit = "the limit, 80 % of what this machine has,", MEMORY.share * physical_memory()
    needed = joint_bytes(points, functions, matrices)
    if needed <= limit:
        return
    most = bisect_right(
        range(points), limit, key=lambda some: joint_bytes(some, functions, matrices)
    )
    fewer = f"{most - 1} points would fit" if most > 1 else "Raise memory_limit"
    raise NotEnoughMemory(
        f"{what} of {points} points needs about {in_words(needed)}, and {name} is "
        f"{in_words(limit)}. {fewer}; return_std=True and sample_paths(...) need no matrix of "
        "all pairs of points."
    )


class Room:
    """How much memory there is, and what fits in it.

    Parameters
    ----------
    limit : float, optional
        Bytes; by default four fifths of what the machine, or the GPU, has.
    engine : Cpu or Batched
    announce : callable, optional
        Told what long work will take, before it begins.
    auto : bool
        Whether the number of basis functions is automatic.
    """

    def __init__(
        self,
        limit: float | None,
        engine: Cpu | Batched,
        announce: Callable[[str], None] | None = None,
        auto: bool = False,
    ):
        self.engine, self.announce, self.auto = engine, announce, auto
        self.given = limit is not None
        self.limit = engine.limit = MEMORY.share * engine.memory if limit is None else limit
        self.notes: list[str] = []

    @cached_property
    def disk(self) -> float:
        """Bytes there are on disk, before anything of this model is there."""
        return free_disk()

    def fits(self, plan: Plan, kernel: Kernel) -> bool:
        """Whether a plan does, with its factors in memory."""
        return plan_bytes(plan, kernel, self.engine, self.limit) <= self.limit

    def stopped(self) -> None:
        """Note, once, that a finer grid was not tried."""
        note = (
            "the basis was not refined further, because it would not fit in "
            f"{in_words(self.limit)} of memory (memory_limit)"
        )
        if note not in self.notes:
            self.notes.append(note)

    def check(self, plan: Plan, kernel: Kernel) -> Need:
        """What a plan takes; an error where that fits neither in memory nor on disk."""
        need = plan_need(plan, kernel, self.engine, self.limit)
        if need.memory > self.limit and not (need.spills(self.limit) and need.disk <= self.disk):
            self.refuse("This model needs", need, plan, kernel)
        return need

    def require(self, plan: Plan, kernel: Kernel) -> None:
        """An error where a plan does not fit; else, what it will take, if it is much."""
        need = self.check(plan, kernel)
        if self.announce is None or not plan.inputs:
            return
        cost = plan.tree(kernel).cost()
        flops = cost.factor_flops + cost.inverse_flops
        seconds = flops / (MEMORY.efficiency * self.engine.rate)
        spills = need.spills(self.limit)
        if seconds > MEMORY.announced_seconds or spills:
            counts = " + ".join(f"{count:,}" for count in plan.counts(kernel))
            self.announce(
                f"{len(plan.inputs)} inputs, {counts} splines and {plan.columns} columns: "
                f"{in_words(need.rest if spills else need.memory)} of {in_words(self.limit)}, "
                f"{flops / 1e9:,.0f} Gflop or about {seconds:.1f} s a bound" + spilled(need, spills)
            )

    def smaller(self, plan: Plan, kernel: Kernel) -> Plan | None:
        """The plan with as many cells as fit: fewer along the inputs of products, if they do."""
        found = self._on_wider_cells(plan, kernel) if plan.inputs else None
        share = 1.0
        while found is None and share * max((g.cells for g in plan.smooth_grids), default=0) > 4.0:
            share *= 0.93
            less = replace(
                plan,
                grids=_scaled(plan.grids, share),
                smooth_grids=_scaled(plan.smooth_grids, share, 4),
            )
            found = less if self.fits(less, kernel) else None
        return found

    def _on_wider_cells(self, plan: Plan, kernel: Kernel) -> Plan | None:
        """The plan with fewer cells along every input of the main block."""
        if not self.fits(replace(plan, grids=_scaled(plan.grids, 0.0)), kernel):
            return None
        inputs, cells = len(plan.grids), prod(grid.cells for grid in plan.grids)

        def scaled(share: float) -> Plan:
            return replace(plan, grids=_scaled(plan.grids, share))

        # What a cell takes grows slowly with their number: seen on a grid that is small enough.
        share = min(
            1.0, (MEMORY.sample_cells / (1.0 + plan.columns / 200.0) / cells) ** (1.0 / inputs)
        )
        sample = scaled(share)
        each = (
            1.15
            * plan_bytes(sample, kernel, self.engine)
            / prod(grid.cells for grid in sample.grids)
        )
        if each * cells * share**inputs <= self.limit:
            share = min(0.95, (self.limit / (each * cells)) ** (1.0 / inputs))
        while share * max(grid.cells for grid in plan.grids) >= 1.0:
            less = scaled(share)
            if self.fits(less, kernel):
                return less
            share *= 0.93
        return None

    def begun(self, plan: Plan, kernel: Kernel) -> Plan:
        """An automatic plan on which training can begin: with fewer cells where it must."""

        def first(plan: Plan) -> Plan:
            return coarsened(plan, first_coarsening(plan)) if plan.inputs else plan

        def few(plan: Plan) -> bool:
            return (
                max((grid.cells for grid in plan.smooth_grids), default=0)
                <= MEMORY.least_smooth_cells
            )

        while not self.fits(first(plan), kernel) and not few(plan):
            plan = replace(plan, smooth_grids=_scaled(plan.smooth_grids, 0.5, 4))
        if self.fits(first(plan), kernel):
            return plan
        self.stopped()
        return self.smaller(first(plan), kernel) or plan

    def refuse(self, what: str, need: Need, plan: Plan, kernel: Kernel) -> None:
        """Raise, with the numbers and what to change."""
        less = self.smaller(plan, kernel)
        where = "the GPU" if self.engine.name.startswith("cuda") else "this machine"
        limit = "memory_limit" if self.given else f"the limit, 80 % of what {where} has,"
        advice = "Take fewer basis functions"
        if less is not None:
            advice = f"num_basis={less.num_basis(kernel)} would fit"
        if not self.auto:
            advice += "; num_basis='auto' keeps to the limit"
        raise NotEnoughMemory(
            f"{what} about {in_words(need.memory)}, and {limit} is {in_words(self.limit)}."
            f"{self._elsewhere(need)} {advice}."
        )

    def _elsewhere(self, need: Need) -> str:
        """Why the factors are not put on disk."""
        if not need.disk:
            return ""
        words = (
            f" With the factors on disk it would be {in_words(need.rest)}, and "
            f"{in_words(need.disk)} of disk"
        )
        if need.rest > self.limit:
            return f"{words}."
        if not self.disk:
            return f"{words}, but there is no temporary folder on disk: set TMPDIR to one."
        return (
            f"{words}, but the temporary folder {gettempdir()} has {in_words(self.disk)} free: "
            "free some, or set TMPDIR to a folder with more."
        )


def spilled(need: Need, spills: bool) -> str:
    """Words on where the factor is, if not in memory."""
    return f"; the factor, {in_words(need.disk / 2.0)}, goes to disk" if spills else ""


def _scaled(grids: Sequence[Grid], share: float, least: int = 1) -> tuple[Grid, ...]:
    """Grids of fewer cells."""
    return tuple(Grid(g.lower, g.upper, max(least, int(share * g.cells))) for g in grids)


def fitting_cells(
    cells: Sequence[int], main: int, needed: Callable[[Sequence[int]], float], limit: float
) -> list[int]:
    """Halve the cells of an automatic grid until its sums take at most ``limit`` bytes.

    Those of the first ``main`` inputs, and where there are few left, those of the smooths.
    """
    out = list(cells)
    while needed(out) > limit and max(out) > 8:
        big = max(out[:main], default=0)
        which = range(main) if big > 16 else range(main, len(out))
        if not len(which):
            which = range(main)
        for i in which:
            out[i] = max(4, ceil(out[i] / 2))
        if all(out[i] == 4 for i in which):
            break
    return out
