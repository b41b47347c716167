"""Kernels of several inputs with data and a dense twin, and checks that hold for all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from asvgp.basis import Grid
from asvgp.kernels import Kernel
from asvgp.likelihoods import Gaussian
from asvgp.model.bound import lower_bound, upper_bound
from asvgp.model.devices import device_for
from asvgp.model.grid import GridEngine
from asvgp.model.plan import Plan
from asvgp.model.room import with_room
from asvgp.statistics import Statistics

NOISE = 0.05


class FieldCase:
    """A kernel with the degrees and levels of its terms, and data with weights."""

    kernel: Kernel
    degrees: tuple[tuple[int, ...], ...]
    levels: tuple[tuple[int, ...], ...]
    X: np.ndarray
    y: np.ndarray
    w: np.ndarray

    def grids(self, times: int) -> Sequence[Grid]:
        """Grids with so many times the cells of the case."""
        raise NotImplementedError

    def engine(self, times: int = 1, device: str = "cpu") -> GridEngine:
        grids = tuple(self.grids(times))
        powers = tuple(map(max, zip(*self.degrees, strict=True)))
        terms, inputs = tuple(range(len(self.degrees))), tuple(range(len(grids)))
        plan = Plan(inputs, grids, powers, terms, self.degrees, self.levels)
        plan = with_room(plan, self.kernel)
        stats = Statistics.from_data(self.X, self.y, grids, powers, self.w)
        return GridEngine(self.kernel, plan, stats, device_for(device))

    @property
    def noisy(self) -> np.ndarray:
        return self.kernel(self.X) + np.diag(NOISE / self.w)

    def evidence(self) -> float:
        fit = self.y @ np.linalg.solve(self.noisy, self.y)
        return float(-0.5 * fit - 0.5 * np.linalg.slogdet(2.0 * np.pi * self.noisy)[1])


def check_bounds_and_gradients(case: FieldCase) -> None:
    """Check that bounds hold the evidence, and gradients against differences."""
    engine, kernel = case.engine(), case.kernel
    factored = engine.factor(kernel, Gaussian(NOISE))
    bound = lower_bound(factored)
    assert bound.elbo <= case.evidence() <= upper_bound(factored)
    assert np.all(factored.missed(derivatives=False)[0] >= 0.0)
    step, values = 1e-4, dict(zip(kernel.parameters, kernel.values.tolist(), strict=True))
    for place, (name, value) in enumerate(values.items()):
        ends = [
            lower_bound(engine.factor(kernel.replace(**{name: value * np.exp(s)}), Gaussian(NOISE)))
            for s in (-step, step)
        ]
        for part, slopes in (("elbo", bound.gradient), ("missed", bound.d_missed)):
            slope = (getattr(ends[1], part) - getattr(ends[0], part)) / (2.0 * step)
            assert slopes[place] == pytest.approx(slope, rel=1e-5, abs=1e-4)
