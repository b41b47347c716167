"""Short ways to the bounds of a state, for tests and documentation of internals."""

from __future__ import annotations

from asvgp.kernels import Kernel
from asvgp.likelihoods import Gaussian
from asvgp.model import bound
from asvgp.model.bound import Bound
from asvgp.model.chain import ChainEngine, ChainFactored
from asvgp.model.chain_effects import estimate
from asvgp.model.elimination import eliminate
from asvgp.model.engine import Engine


def factored(kernel: Kernel, noise: float, stats, degree, path: str | None = None) -> ChainFactored:
    """P of one input, factored by the path that the library chooses, or by a given one."""
    engine, likelihood = ChainEngine(kernel, stats, degree), Gaussian(noise)
    if path is None:
        return engine.factor(kernel, likelihood)
    design = engine.design
    sums = engine.statistics if design is None else design.augmented
    chain = eliminate(engine.prior(kernel), sums, noise, path)
    effects = None if design is None else estimate(design, chain, noise)
    return ChainFactored(engine, kernel, likelihood, chain, effects)


def lower_bound(
    kernel: Kernel, noise: float, stats, degree, objective: str = "elbo", path: str | None = None
) -> Bound:
    """The lower bound of one input."""
    return bound.lower_bound(factored(kernel, noise, stats, degree, path), objective)


def upper_bound(kernel: Kernel, noise: float, stats, degree) -> float:
    """The upper bound of one input."""
    return bound.upper_bound(factored(kernel, noise, stats, degree))


def both_bounds(kernel: Kernel, noise: float, stats, degree) -> tuple[Bound, float]:
    """Both bounds of one input."""
    solved = factored(kernel, noise, stats, degree)
    lower = bound.lower_bound(solved)
    # With next to no noise the two meet, and only rounding could exchange them.
    return lower, max(lower.elbo, bound.upper_bound(solved))


def engine_bound(engine: Engine, kernel: Kernel, noise: float, objective: str = "elbo") -> Bound:
    """The lower bound by an engine."""
    return bound.lower_bound(engine.factor(kernel, Gaussian(noise)), objective)


def engine_upper_bound(engine: Engine, kernel: Kernel, noise: float) -> float:
    """The upper bound by an engine."""
    return bound.upper_bound(engine.factor(kernel, Gaussian(noise)))
