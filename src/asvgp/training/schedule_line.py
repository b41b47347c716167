"""Resolutions of one input, from coarse to fine.

One pass on a fine grid gives every coarser one exactly. With a given number of basis functions,
training explores a coarse grid, where a bound is cheap, and ends on the given one. An automatic
number is found by doubling, until two successive doublings gain less than a tolerance per datum,
or no more than what was missed before while next to nothing is missed now; and the scatter inside
cells holds no structure that finer knots could still explain. It is not doubled, either, where
training as long as on the last grid would take too long (`LINE.most_work`), and a note says so.
"""

from __future__ import annotations

from math import inf, nan

from asvgp.kernels import Kernel, Sum
from asvgp.model.bound import Bound, upper_bound
from asvgp.model.chain import ChainEngine
from asvgp.model.effects import without_centres
from asvgp.model.prior import data_variance
from asvgp.policies import LINE, START
from asvgp.posterior.chain import ChainPosterior
from asvgp.statistics import Statistics
from asvgp.training.climb import climb
from asvgp.training.objective import Limits, Objective, log_limits
from asvgp.training.optimise import Report
from asvgp.training.problem import Level, Problem, State
from asvgp.training.starts import (
    line_starts,
    mean_weight,
    noise_estimate,
    scatter,
    signal_power,
    signal_spread,
    without_effects,
)


class LineSchedule:
    """The schedule of one input: ``auto`` chooses among the grid of ``stats`` and coarser ones."""

    def __init__(self, problem: Problem, stats: Statistics, auto: bool):
        self.problem, self.stats, self.auto = problem, without_centres(problem.kernel, stats), auto
        self.levels: list[Level] = []
        self._reached: list[float] = []  # the objective on every level
        self._lost: list[float] = []  # by what the splines miss, in nats per datum
        self._finer: list[Statistics] = []  # still to come, the finest first
        self._scatters: list[tuple[float, float]] = []  # on these and the present one
        self._work = 0.0  # functions times bounds of the last climb, if ``auto``

    def begin(self, state: State | None, trained: bool) -> tuple[ChainEngine, State | None, Report]:
        """Return the engine of the coarsest grid."""
        grids = [self.stats]
        if self.auto:
            while grids[-1].grid.cells >= 2 * LINE.first_cells:
                grids.append(grids[-1].coarsen())
            self._scatters = [scatter(self._plain(stats)) for stats in grids]
        elif trained and state is None:
            while grids[-1].grid.cells > LINE.cheap_cells:
                grids.append(grids[-1].coarsen(LINE.coarsening_step))
        self._finer = grids
        return self._engine(self._finer.pop()), state, Report()

    def _engine(self, stats: Statistics) -> ChainEngine:
        return ChainEngine(self.problem.kernel, stats, self.problem.degree)

    def _plain(self, stats: Statistics) -> Statistics:
        return without_effects(self.problem.kernel, stats)

    def climb(
        self, engine: ChainEngine, state: State | None, report: Report
    ) -> tuple[ChainEngine, State, Report, Bound]:
        """Train on one grid: from many starts, or a state and what only these knots express."""
        problem, stats = self.problem, engine.statistics
        cells, plain = stats.grid.cells, self._plain(stats)
        objective = Objective(problem, [engine], line_limits(problem, stats, plain))
        objective.shown_size = cells
        estimate = noise_estimate(plain)

        def second_look(left: list[State]) -> list[State]:
            """Return some other starts if the optimum may have taken signal for noise."""
            best = objective.best[1]
            if problem.fixed_likelihood or best is None or best.noise <= LINE.noise_trap * estimate:
                return []
            # The long-lengthscale optimum is a common trap.
            quiet = [start for start in left if start.noise <= 1.01 * estimate]
            return quiet[: LINE.second_looks[cells > LINE.cheap_cells]]

        attempts = 1 + (problem.settings.restarts if state is None else 0)
        starts, settings = _proposals(problem, plain, state), problem.settings
        best, report = climb(
            objective, starts, settings, attempts, report, state, second_look=second_look
        )
        if self.auto:
            times = 1.0 if engine.factor(*best).chain.path == "plain" else LINE.work_of_roots
            self._work = times * objective.evaluations * engine.size
        return engine, best, report, objective.bound(best)

    def record(self, engine: ChainEngine, state: State, bound: Bound) -> None:
        """Add a level; only an automatic resolution needs the upper bound of every one."""
        stats = engine.statistics
        if not self.auto:
            self.levels.clear()  # only the last is one that was asked for
        variance = sum(data_variance(part, stats)[0] for part in state.kernel.components)
        upper = nan
        if self.auto:
            # With next to no noise the bounds meet, and only rounding could exchange them.
            upper = max(bound.elbo, upper_bound(engine.factor(*state)))
        self._lost.append(bound.missed / (2.0 * state.noise * stats.observations))
        size, share = stats.grid.cells + stats.degree, bound.missed / variance
        self.levels.append(Level(size, stats.grid.spacing, bound.elbo, upper, share))

    def following(self, engine: ChainEngine, state: State, report: Report) -> ChainEngine | None:
        """Return the engine of the next finer grid; None where it stops paying."""
        if self.auto and self._settled(engine.statistics, state, report):
            return None
        if self._scatters:
            self._scatters.pop()
        return self._engine(self._finer.pop()) if self._finer else None

    def _settled(self, stats: Statistics, state: State, report: Report) -> bool:
        """Return True if a finer grid would gain next to nothing, or there is none."""
        self._reached.append(report.objective)
        reached, data = self._reached, stats.observations * len(stats.squares)
        gained = (reached[-1] - reached[-3]) / data if len(reached) > 2 else inf
        explained = self._lost[-3] if gained < inf and self._lost[-1] < LINE.settled_loss else 0.0
        if (
            gained < LINE.settled_gain + explained
            and not self._pinned(stats, state.kernel, report)
            and not self._hides_structure(stats, state.noise)
        ):
            return True
        last = (reached[-1] - reached[-2]) / data if len(reached) > 1 else 0.0
        costly = 2.0 * self._work > LINE.most_work + LINE.work_per_row * stats.count
        stopped = f"the automatic resolution stopped at {self.levels[-1].num_basis} basis functions"
        gaining = last > LINE.unsettled_gain
        if gaining:
            stopped += f", although the last doubling gained {last:.3g} nats per datum"
        if self._finer and costly:
            finer = self._finer[-1].grid.cells + stats.degree
            report.notes.append(
                f"{stopped}, because a finer grid would take too long: "
                f"num_basis={finer} asks for one"
            )
        elif not self._finer and gaining:
            advice = (
                "more knots would lie inside the intervals that y is averaged over"
                if stats.averaged
                else "give a larger num_basis for a finer fit"
            )
            report.notes.append(f"{stopped}: {advice}")
        return costly or not self._finer

    def _pinned(self, stats: Statistics, kernel: Kernel, report: Report) -> list[str]:
        """Return the names of lengths that ended at the least that the evidence allows."""
        least = _shortest(self.problem, stats)
        values = dict(zip(kernel.parameters, kernel.values, strict=True))
        return [
            name
            for name in report.at_bounds  # which may be the greatest, or a bound of the user's
            if name in least and name not in kernel.bounds and values[name] < 1.01 * least[name]
        ]

    def _hides_structure(self, stats: Statistics, noise: float) -> bool:
        """Return True if y scatters clearly less in finer cells than what is taken for noise here.

        The scatter in cells of this level is the most that can be. Where training has found less
        noise than that, the splines explain the rest already; and less than the least noise that
        training may find is nothing that finer cells could show.
        """
        (here, error), least = self._scatters[-1], _noise_limits(stats, self._plain(stats))[0]
        if not self.problem.fixed_likelihood:
            here = min(here, noise)
        return any(
            here - max(finer, least)
            > (LINE.hidden_structure + 4.0 * (error**2 + finer_error**2) ** 0.5) * here
            for finer, finer_error in self._scatters[:-1]
        )

    def final(self, engine: ChainEngine) -> ChainEngine:
        """Return the engine of the given grid, even if training was interrupted before."""
        return engine if self.auto or not self._finer else self._engine(self.stats)

    def posterior(self, engine: ChainEngine, state: State) -> ChainPosterior:
        """Return the posterior."""
        stats, degree = engine.statistics, self.problem.degree
        return ChainPosterior(*state, stats, degree, engine)

    def finish(
        self, posterior: ChainPosterior, bound: Bound, report: Report, trained: bool
    ) -> None:
        """Add a note on lengths that ended at the least that the knots can express."""
        if pinned := self._pinned(posterior.stats, posterior.kernel, report):
            its = "its lower limit" if len(pinned) == 1 else "their lower limits"
            report.notes.append(
                f"{', '.join(pinned)} ended at {its}, a few times the knot spacing: give a larger "
                "num_basis, or objective='elbo'"
            )


def line_limits(problem: Problem, stats: Statistics, plain: Statistics) -> Limits:
    """Return the limits of training on one grid; ``plain`` is without the effects.

    The bound subtracts ``variance / noise`` times N from itself, so that their ratio must stay
    well below 1 / eps for the difference to mean anything.
    """
    noise, shortest = _noise_limits(stats, plain), _shortest(problem, stats)
    grids = {part.factors[0].dim: stats.grid for part in problem.kernel.components}
    power, spread = signal_power(plain), signal_spread(plain)
    return log_limits(problem, grids, spread, power, noise, shortest, {})


def _noise_limits(stats: Statistics, plain: Statistics) -> tuple[float, float]:
    """Return the least and the greatest noise that training may find."""
    power, spread, weight = signal_power(plain), signal_spread(plain), mean_weight(stats)
    least = max(LINE.least_noise * spread, LINE.least_noise_of_power * power)
    return weight * least, weight * LINE.most_noise * power


def _shortest(problem: Problem, stats: Statistics) -> dict[str, float]:
    """Return the least lengths that training may find by their names, where the knots limit them.

    Under the evidence, splines on wider knots are another process, which training would exploit.
    """
    if problem.objective != "evidence":
        return {}
    shortest = {}
    for name in _scales(problem.kernel):
        cells = LINE.shortest_lengthscale / (2.0 if name.endswith("period") else 1.0)
        shortest[name] = cells * stats.grid.spacing
    return shortest


def _scales(kernel: Kernel) -> list[str]:
    """Return the names of the hyperparameters that are lengths along the input."""
    return [prefix + name for prefix, part in kernel.labelled for name in part.scales]


def _proposals(problem: Problem, plain: Statistics, warm: State | None) -> list[State]:
    """Return starting points for a grid, from statistics without the effects."""
    if warm is None:
        return line_starts(problem, problem.kernel, plain)
    spacing = plain.grid.spacing
    lengths = [cells * spacing for cells in LINE.finer_lengths]
    finer = line_starts(problem, warm.kernel, plain, lengths)
    if isinstance(problem.kernel, Sum) and len(problem.kernel.components) > 1:
        # What coarser cells did not show may have driven the others far from what was given.
        further = [*lengths, LINE.finer_length_of_sums * spacing]
        finer += line_starts(problem, problem.kernel, plain, further)
        finer += [State(kernel, warm.likelihood) for kernel in _revived(warm, problem.kernel)]
    quiet = [
        State(kernel, other.with_noise(min(other.noise, warm.noise))) for kernel, other in finer
    ]
    return [warm, State(problem.kernel, warm.likelihood), *quiet]


def _revived(warm: State, given: Sum) -> list[Sum]:
    """Return kernels with one component as given, as strong as the noise or part of the prior."""
    options: list[Sum] = []
    for i, part in enumerate(given.components):
        for variance in (warm.noise, START.revived_share * warm.kernel.prior_variance):
            parts = list(warm.kernel.components)
            parts[i] = part.replace_free({"variance": variance})
            options.append(given.replace_parts(parts))
    return options
