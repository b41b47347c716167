"""A whole fit on a GPU: pass, training, a million predictions with variance; single bounds.

    python benchmarks/field_gpu.py [--device cuda] [--points 10_000_000] [--functions 1000]
                                   [--joint 1000] [--cube 100] [--degree 1]

Prints seconds per stage, and one bound with its gradient and the peak of memory for a joint kernel
of two inputs and for a cube of functions of three. Zero leaves a part out. Limits on an H200: the
whole fit in ten seconds, a bound of 1000 x 1000 functions of a joint kernel in a quarter of one.
"""

import argparse
import time

import numpy as np

from asvgp.basis import Grid
from asvgp.kernels import Matern, Matern12, Matern32
from asvgp.likelihoods import Gaussian
from asvgp.model.bound import lower_bound
from asvgp.model.devices import device_for
from asvgp.model.grid import GridEngine
from asvgp.model.plan import Plan
from asvgp.model.room import with_room
from asvgp.posterior.posterior import GridPoints
from asvgp.statistics import Statistics
from asvgp.training.fit import fit
from asvgp.training.optimise import LBFGS
from asvgp.training.problem import Problem
from asvgp.training.schedule_field import FieldSchedule

LIMIT, JOINT_LIMIT = 10.0, 0.25


def waves(X, scale, seed=0, count=300):
    """A rough random field: many waves of about the given wavelength."""
    rng = np.random.default_rng(seed)
    k = rng.standard_normal((count, X.shape[1])) / scale
    phase, amplitude = rng.uniform(0, 2 * np.pi, count), (2.0 / count) ** 0.5
    out = np.zeros(len(X), dtype=np.float32)
    for wave, shift in zip(k, phase, strict=True):
        out += amplitude * np.cos(X @ wave + shift)
    return out


class Clock:
    """Seconds since the last look, the device having finished."""

    def __init__(self, engine):
        self.engine, self.last = engine, time.perf_counter()

    def __call__(self) -> float:
        torch = getattr(self.engine, "torch", None)
        if torch is not None and self.engine.name.startswith("cuda"):
            torch.cuda.synchronize()
        now = time.perf_counter()
        seconds, self.last = now - self.last, now
        return seconds


def square(device, points, functions):
    """Two inputs."""
    rng = np.random.default_rng(1)
    X = rng.uniform(0.0, 1.0, (points, 2))
    scale = 20.0 / functions
    y = waves(X, scale) + 0.3 * rng.standard_normal(points, dtype=np.float32)
    for warm in (True, False):
        cells = 48 if warm else functions - 2
        some = slice(0, 20_000) if warm else slice(None)
        engine = device_for(device)
        clock = Clock(engine)
        grids = (Grid(0.0, 1.0, cells),) * 2
        stats = Statistics.from_data(X[some], y[some], grids, (2, 2))
        one_pass = clock()
        if warm:  # compiles what only the large grid would call
            stats.coarsen(2)
        plan = Plan((0, 1), grids, (2, 2), (0,), ((2, 2),), ((0, 0),))
        kernel = Matern32(dim=0) * Matern32(dim=1)
        problem = Problem(kernel, Gaussian(), 2, "elbo", LBFGS())
        fitted = fit(FieldSchedule(problem, stats, plan, False, engine))
        training = clock()
        new = rng.uniform(0.0, 1.0, (1000 if warm else 1_000_000, 2))
        none = np.empty((len(new), 0))
        mean, variance = fitted.posterior.predict(GridPoints(new, none, none))
        prediction = clock()
    truth = waves(new, scale)
    total = one_pass + training + prediction
    z = (mean[0] - truth) / np.sqrt(variance)
    print(
        f"{points:,} points, {functions} x {functions} functions on {device}: pass "
        f"{one_pass:.2f} s, training {training:.2f} s ({fitted.report.evaluations} bounds), "
        f"{len(new):,} predictions {prediction:.2f} s, whole {total:.2f} s  "
        f"{'ok' if total < LIMIT else 'MISSED'}"
    )
    print(
        f"  {fitted.kernel}, noise {fitted.noise:.4f}; error {np.std(mean[0] - truth):.4f}, "
        f"{np.mean(np.abs(z) < 1.96):.1%} inside the 95 % band"
    )


def joint(device, functions):
    """Two inputs and a joint kernel, on splines of the least and of the usual degree."""
    rng = np.random.default_rng(3)
    X = rng.uniform(0.0, 1.0, (2_000_000, 2))
    y = waves(X, 20.0 / functions, count=100) + 0.3 * rng.standard_normal(len(X))
    kernel, likelihood = Matern(1, 8.0 / functions, dim=(0, 1)), Gaussian(0.09)
    for degree in (2, 3):
        engine = device_for(device)
        grids = (Grid(0.0, 1.0, functions - degree),) * 2
        stats = Statistics.from_data(X, y, grids, (degree, degree))
        plan = Plan((0, 1), grids, (degree, degree), (0,), ((degree, degree),), ((0, 0),))
        assembly = GridEngine(kernel, with_room(plan, kernel), stats, engine)
        lower_bound(assembly.factor(kernel, likelihood))  # compiles and makes tables
        if device.startswith("cuda"):
            engine.torch.cuda.reset_peak_memory_stats()
        clock, times = Clock(engine), []
        for longer in (1.01, 1.02, 1.03):
            near = kernel.replace(lengthscale=longer * kernel.lengthscale)
            lower_bound(assembly.factor(near, likelihood), "evidence", missed="left out")
            times.append(clock())
        lower_bound(assembly.factor(near, likelihood))
        whole = clock()
        memory = ""
        if device.startswith("cuda"):
            memory = f", peak {engine.torch.cuda.max_memory_allocated() / 2**30:.1f} GiB"
        print(
            f"joint, {assembly.size:,} functions of degree {degree} on {device}: evidence of the "
            f"splines and gradient {min(times):.3f} s, all bounds {whole:.3f} s{memory}  "
            f"{'ok' if min(times) < JOINT_LIMIT else 'MISSED'}"
        )


def cube(device, functions, degree):
    """Three inputs: one bound with its gradient."""
    rng = np.random.default_rng(2)
    X = rng.uniform(0.0, 1.0, (2_000_000, 3))
    y = waves(X, 8.0 / functions, count=100) + 0.1 * rng.standard_normal(len(X))
    engine = device_for(device)
    grids = (Grid(0.0, 1.0, functions - degree),) * 3
    stats = Statistics.from_data(X, y, grids, (degree,) * 3)
    plan = Plan((0, 1, 2), grids, (degree,) * 3, (0,), ((degree,) * 3,), ((0, 0, 0),))
    process = Matern12 if degree == 1 else Matern32
    length = 6.0 / functions
    kernel = process(length, dim=0) * process(length, dim=1) * process(length, dim=2)
    clock = Clock(engine)
    assembly, likelihood = GridEngine(kernel, plan, stats, engine), Gaussian(0.02)
    _ = assembly.gram, assembly.right
    made = clock()
    if device.startswith("cuda"):
        engine.torch.cuda.reset_peak_memory_stats()
    first = lower_bound(assembly.factor(kernel, likelihood))
    clock()
    bound = lower_bound(assembly.factor(kernel, likelihood))
    seconds = clock()
    memory = ""
    if device.startswith("cuda"):
        memory = f", peak {engine.torch.cuda.max_memory_allocated() / 2**30:.1f} GiB"
    assert np.isclose(first.elbo, bound.elbo)
    print(
        f"{functions}^3 functions of degree {degree} on {device}: assembly {made:.2f} s, bound and "
        f"gradient {seconds:.2f} s{memory}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--points", type=int, default=10_000_000)
    parser.add_argument("--functions", type=int, default=1000)
    parser.add_argument("--joint", type=int, default=1000)
    parser.add_argument("--cube", type=int, default=100)
    parser.add_argument("--degree", type=int, default=1)
    options = parser.parse_args()
    if options.points:
        square(options.device, options.points, options.functions)
    if options.joint:
        joint(options.device, options.joint)
    if options.cube:
        cube(options.device, options.cube, options.degree)
