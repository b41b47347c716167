"""Memory and time of a model of several inputs, estimated before they are spent."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil, inf, prod
from tempfile import gettempdir
from typing import NamedTuple

from asvgp.basis import Grid
from asvgp.kernels import Kernel
from asvgp.linalg.multifrontal.disk import free_disk
from asvgp.model.axis import Axis
from asvgp.model.devices import Batched, Cpu, Device
from asvgp.model.joint_axis import JointAxis, own_tree
from asvgp.model.levels import coarsened_plan, first_coarsening
from asvgp.model.plan import Plan
from asvgp.policies import FIELD, MEMORY
from asvgp.runtime.lazy import cached_property
from asvgp.runtime.memory import in_words, physical_memory


class NotEnoughMemory(MemoryError, ValueError):
    """A model would take more memory than the limit."""


class Need(NamedTuple):
    """Bytes that a plan takes at its peak."""

    memory: float  # with everything in memory
    rest: float  # left in memory if the factors are on disk
    disk: float = 0.0  # of two factors on disk; zero where they cannot be there

    def spills(self, limit: float) -> bool:
        """Return whether the factors do not fit in ``limit`` bytes, while everything else does."""
        return self.disk > 0.0 and self.rest <= limit < self.memory


def plan_need(plan: Plan, kernel: Kernel, device: Device | None = None, limit: float = inf) -> Need:
    """Estimate the peak of bounds and a posterior on a plan, including the statistics.

    Two factors are held while the upper bound is computed; the elements of leaves come in
    chunks. The part of the inverse that a posterior keeps, for derivatives and single terms, is
    not on the device. Far beyond ``limit``, the result is a lower bound that is cheap to compute,
    without the symbolic elimination.
    """
    device = device or Cpu()
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
    block = sum(prod(range_.length for range_ in term) for term in tree.leaf_ranges) + columns
    sums = 4 * cells * prod(2 * k + 1 for k in plan.powers) + cross
    batched = isinstance(device, Batched)
    cost, leaves = tree.cost(padded=batched), len(tree.leaves) * block**2
    inverse = 0 if batched else len(tree.leaves) * (block - columns) * block
    factors = max(cost.factor_peak, cost.inverse_peak) + cost.factor_nonzeros
    chunks = 3 * min(device.chunk, leaves)
    joint = sum(map(_joint_numbers, plan.axes(kernel)))
    total = 8.0 * (factors + (3 if batched else 1) * leaves + inverse + chunks + sums + joint)
    if batched:
        return Need(MEMORY.batched_overhead * total, MEMORY.batched_overhead * total)
    rest = total - 8.0 * (cost.factor_held + cost.factor_nonzeros)
    return Need(total, rest, 16.0 * cost.factor_held)


def _joint_numbers(axes: Sequence[Axis]) -> float:
    """Return about how many numbers the elimination of a joint kernel's K alone holds at once."""
    joint = [axis for axis in axes if isinstance(axis, JointAxis)]
    if not joint:
        return 0.0
    tree = own_tree(joint)
    cost, leaves = tree.cost(padded=True), len(tree.leaves) * tree.leaf_index.shape[1] ** 2
    return 5.0 * leaves + 3.0 * cost.factor_held + 2.0 * cost.inverse_peak


# ------------------------------------------------------------ joint covariances


def joint_step(points: int, functions: int) -> int:
    """Return how many columns of a joint covariance to compute at a time."""
    return int(min(max(8, min(MEMORY.right_hand_sides // max(functions, 1), 512)), max(points, 1)))


def joint_bytes(points: int, functions: int, matrices: float = 1.0) -> float:
    """Return the memory that a joint covariance takes: ``matrices`` of it, and a few columns."""
    columns = joint_step(points, functions) * (5.0 * functions + 6.0 * points)
    return 8.0 * (matrices * float(points) ** 2 + columns)


def require_joint(
    what: str, points: int, functions: int, limit: float | None, matrices: float = 1.0
) -> None:
    """Raise `NotEnoughMemory` if a joint covariance does not fit in a limit, or in this machine."""
    name = "memory_limit"
    if limit is None:
        name, limit = "the limit, 80 % of what this machine has,", MEMORY.share * physical_memory()
    needed = joint_bytes(points, functions, matrices)
    if needed <= limit:
        return
    most = bisect_right(range(points), limit, key=lambda n: joint_bytes(n, functions, matrices))
    fewer = f"{most - 1} points would fit" if most > 1 else "Raise memory_limit"
    raise NotEnoughMemory(
        f"{what} of {points} points needs about {in_words(needed)}, and {name} is "
        f"{in_words(limit)}. {fewer}; return_std=True and sample_paths(...) need no matrix of "
        "all pairs of points."
    )


# ------------------------------------------------------------ the limit


class MemoryBudget:
    """The memory limit of a model, in bytes, and which plans fit in it.

    The limit is four fifths of the memory of the machine, or of the GPU, unless given. Messages
    before long work go to ``announce``; ``auto`` says that the number of functions is automatic.
    """

    def __init__(
        self,
        limit: float | None,
        device: Device,
        announce: Callable[[str], None] | None = None,
        auto: bool = False,
    ):
        self.device, self.announce, self.auto = device, announce, auto
        self.given = limit is not None
        self.limit = device.limit = MEMORY.share * device.memory if limit is None else limit
        self.notes: list[str] = []

    @cached_property
    def disk(self) -> float:
        """Free bytes on disk, before anything of this model is there."""
        return free_disk()

    def fits(self, plan: Plan, kernel: Kernel) -> bool:
        """Return whether a plan fits with its factors in memory."""
        return plan_need(plan, kernel, self.device, self.limit).memory <= self.limit

    def stopped(self) -> None:
        """Note, once, that a finer grid was not tried."""
        note = (
            "the basis was not refined further, because it would not fit in "
            f"{in_words(self.limit)} of memory (memory_limit)"
        )
        if note not in self.notes:
            self.notes.append(note)

    def check(self, plan: Plan, kernel: Kernel) -> Need:
        """Return what a plan takes; raise if it fits neither in memory nor on disk."""
        need = plan_need(plan, kernel, self.device, self.limit)
        if need.memory > self.limit and not (need.spills(self.limit) and need.disk <= self.disk):
            self.refuse("This model needs", need, plan, kernel)
        return need

    def require(self, plan: Plan, kernel: Kernel) -> None:
        """Raise if a plan does not fit; else announce what it will take, if that is much."""
        need = self.check(plan, kernel)
        if self.announce is None or not plan.inputs:
            return
        cost = plan.tree(kernel).cost()
        flops = cost.factor_flops + cost.inverse_flops
        seconds = flops / (MEMORY.efficiency * self.device.rate)
        spills = need.spills(self.limit)
        if seconds > MEMORY.announced_seconds or spills:
            counts = " + ".join(f"{count:,}" for count in plan.counts(kernel))
            self.announce(
                f"{len(plan.inputs)} inputs, {counts} splines and {plan.columns} columns: "
                f"{in_words(need.rest if spills else need.memory)} of {in_words(self.limit)}, "
                f"{flops / 1e9:,.0f} Gflop or about {seconds:.1f} s per bound"
                + spilled(need, spills)
            )

    def smaller(self, plan: Plan, kernel: Kernel) -> Plan | None:
        """Return the plan on wider cells, so that it fits; None if that is impossible.

        If possible, only the inputs of the main block get wider cells; otherwise the smooths too.
        """
        for least in (1.0, 0.0) if plan.inputs else (0.0,):  # of the share of the smooths' cells

            def scaled(power: int, least: float = least) -> Plan:
                share = 0.93**power
                smooths = _scaled(plan.smooth_grids, max(least, share), 4)
                return replace(plan, grids=_scaled(plan.grids, share), smooth_grids=smooths)

            powers = range(1, 256)
            power = bisect_left(powers, True, key=lambda n: self.fits(scaled(n), kernel))
            if power < len(powers):
                return scaled(powers[power])
        return None

    def starting_plan(self, plan: Plan, kernel: Kernel) -> Plan:
        """Return an automatic plan whose first stage fits, on wider cells where necessary."""

        def first(plan: Plan) -> Plan:
            return coarsened_plan(plan, first_coarsening(plan)) if plan.inputs else plan

        while not self.fits(first(plan), kernel):
            most = max((grid.cells for grid in plan.smooth_grids), default=0)
            if most <= MEMORY.least_smooth_cells:
                self.stopped()
                return self.smaller(first(plan), kernel) or plan
            plan = replace(plan, smooth_grids=_scaled(plan.smooth_grids, 0.5, 4))
        return plan

    def refuse(self, what: str, need: Need, plan: Plan, kernel: Kernel) -> None:
        """Raise `NotEnoughMemory`, with the numbers and what to change."""
        less = self.smaller(plan, kernel)
        where = "the GPU" if self.device.name.startswith("cuda") else "this machine"
        limit = "memory_limit" if self.given else f"the limit, 80 % of what {where} has,"
        advice = "Take fewer basis functions"
        if less is not None:
            advice = f"num_basis={less.num_basis(kernel, min)} would fit"
        if not self.auto:
            advice += "; num_basis='auto' keeps to the limit"
        raise NotEnoughMemory(
            f"{what} about {in_words(need.memory)}, and {limit} is {in_words(self.limit)}."
            f"{self._why_not_on_disk(need)} {advice}."
        )

    def _why_not_on_disk(self, need: Need) -> str:
        """Say why the factors are not put on disk."""
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
    """Say where the factor is, if not in memory."""
    return f"; the factor, {in_words(need.disk / 2.0)}, goes to disk" if spills else ""


def _scaled(grids: Sequence[Grid], share: float, least: int = 1) -> tuple[Grid, ...]:
    """Return grids with a share of their cells, but at least ``least`` if they have as many."""
    fewest = [FIELD.fewest_circle_cells if grid.cyclic else least for grid in grids]
    counts = [
        max(min(few, grid.cells), int(share * grid.cells))
        for few, grid in zip(fewest, grids, strict=True)
    ]
    return tuple(replace(grid, cells=count) for grid, count in zip(grids, counts, strict=True))


def fitting_cells(
    cells: Sequence[int], main: int, needed: Callable[[Sequence[int]], float], limit: float
) -> list[int]:
    """Halve the cells of an automatic grid until its statistics take at most ``limit`` bytes.

    The first ``main`` inputs are halved first, and when few of their cells are left, the smooths.
    """
    out = list(cells)
    while needed(out) > limit and max(out) > 8:
        smooths = main < len(out) and max(out[:main], default=0) <= 16
        which = range(main, len(out)) if smooths else range(main)
        for i in which:
            out[i] = max(4, ceil(out[i] / 2))
        if all(out[i] == 4 for i in which):
            break
    return out
