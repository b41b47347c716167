"""The protocol of a schedule: which resolutions to train on, in which order."""

from __future__ import annotations

from typing import Protocol, TypeVar

from asvgp.model.bound import Bound
from asvgp.model.engine import Engine
from asvgp.posterior.posterior import AnyPosterior
from asvgp.statistics import Statistics
from asvgp.training.optimise import Report
from asvgp.training.problem import Problem, State
from asvgp.training.resolution import Level

AnyEngine = TypeVar("AnyEngine", bound=Engine)


class Schedule(Protocol[AnyEngine, AnyPosterior]):
    """Resolutions from coarse to fine, and how to train on each."""

    problem: Problem
    stats: Statistics  # on the finest grids
    levels: list[Level]  # one for every resolution that was trained or tried

    def begin(self, state: State | None, trained: bool) -> tuple[AnyEngine, State | None, Report]:
        """Return the engine to begin with, a state to go on from, and the report so far."""
        ...

    def climb(
        self, engine: AnyEngine, state: State | None, report: Report
    ) -> tuple[State, Report, Bound]:
        """Train on one resolution."""
        ...

    def record(self, engine: AnyEngine, state: State, bound: Bound) -> None:
        """Add a level to the record."""
        ...

    def following(self, engine: AnyEngine, state: State, report: Report) -> AnyEngine | None:
        """Return the engine of the next resolution; None to end."""
        ...

    def final(self, engine: AnyEngine) -> AnyEngine:
        """Return the engine for the posterior, if training ended on this one."""
        ...

    def posterior(self, engine: AnyEngine, state: State) -> AnyPosterior:
        """Return the posterior."""
        ...

    def finish(
        self, posterior: AnyPosterior, bound: Bound, report: Report, trained: bool, /
    ) -> None:
        """Complete the report with notes for the user."""
        ...
