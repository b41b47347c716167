"""Matérn kernels on the sphere, against quadrature and dense Gaussian processes."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

from asvgp import Matern, Matern32
from asvgp.basis import Grid
from asvgp.degrees import Latitudes, Longitudes
from asvgp.kernels import EarthMatern
from asvgp.likelihoods import Gaussian
from asvgp.model.bound import lower_bound
from asvgp.model.devices import Cpu
from asvgp.model.earth_axis import earth_axis
from asvgp.model.joint import JointPrior, JointTables
from asvgp.model.rings import columns, from_nodes
from asvgp.posterior.grid import GridPosterior
from asvgp.posterior.posterior import GridPoints
from tests.model.field_cases import NOISE, FieldCase, check_bounds_and_gradients
from tests.model.test_joint import dense, functions


def earth(nu: float, length: float, variance: float = 1.0) -> EarthMatern:
    return cast(EarthMatern, Matern(nu, length, variance, dim=(0, 1), coordinates="degrees"))


@pytest.mark.parametrize(("nu", "degree"), [(1, 2), (2, 3), (3, 4)])
@pytest.mark.parametrize("around", [False, True])
def test_K_is_the_norm_on_the_sphere(nu, degree, around):
    kernel = earth(nu, 50.0)
    lon = Longitudes(0.0, 360.0, 8, cyclic=True) if around else Longitudes(10.0, 14.0, 2)
    grids = lon, Latitudes(20.0, 60.0, 2)
    axes = [
        earth_axis(along, grid, degree, 0, degree, 1)
        for along, grid in zip(kernel.along, grids, strict=True)
    ]
    prior = JointPrior(kernel, JointTables(axes, Cpu()))
    # Derivatives along both inputs at Gauss nodes of all cells, in radians
    along, places, weights = [], [], []
    nodes, node_weights = np.polynomial.legendre.leggauss(16)
    for axis, grid in zip(axes, grids, strict=True):
        knots = grid.knots if grid.cyclic else grid.lower + grid.spacing * axis.knots
        width = np.diff(knots)[:, None]
        x = (knots[:-1, None] + 0.5 * width * (nodes + 1.0)).ravel()
        places.append(np.radians(x))
        weights.append(np.radians(0.5 * width * node_weights).ravel())
        along.append(
            [functions(axis, x, m) * np.degrees(1.0) ** m for m in range(kernel.alpha + 1)]
        )
    A, B = along
    cos, tan, s2 = np.cos(places[1])[:, None], np.tan(places[1])[:, None], kernel.decay**2
    weight = np.kron(weights[0], weights[1] * cos[:, 0])
    sec2, kron = 1.0 / cos**2, np.kron
    flat = B[0] - s2 * (B[2] - tan * B[1])
    value = kron(A[0], flat) - s2 * kron(A[2], sec2 * B[0])  # (1 - s^2 Laplace) f
    if nu == 3:  # once more; derivatives of what depends on the latitude by hand
        d1 = B[3] - tan * B[2] - sec2 * B[1]
        d2 = B[4] - tan * B[3] - 2.0 * sec2 * B[2] - 2.0 * tan * sec2 * B[1]
        lap = B[2] - tan * B[1]
        twice = d2 - tan * d1
        g1 = sec2 * (B[1] + 2.0 * tan * B[0])
        g2 = sec2 * (B[2] + 4.0 * tan * B[1] + (4.0 * tan**2 + 2.0 * sec2) * B[0])
        value = (
            kron(A[0], B[0] - 2.0 * s2 * lap + s2**2 * twice)
            + kron(A[2], -2.0 * s2 * sec2 * B[0] + s2**2 * (sec2 * lap + g2 - tan * g1))
            + s2**2 * kron(A[4], sec2**2 * B[0])
        )
    square = value.T @ (weight[:, None] * value)
    if nu == 2:  # and the gradient of that
        north = B[1] - s2 * (B[3] - tan * B[2] - sec2 * B[1])
        north = kron(A[0], north) - s2 * kron(A[2], sec2 * (B[1] + 2.0 * tan * B[0]))
        east = kron(A[1], flat / cos) - s2 * kron(A[3], sec2 * B[0] / cos)
        for part in (north, east):
            square += s2 * part.T @ (weight[:, None] * part)
    q = (
        4.0
        * np.pi
        / sum((2.0 * n + 1.0) / (1.0 + s2 * n * (n + 1.0)) ** kernel.alpha for n in range(100_000))
    )
    np.testing.assert_allclose(dense(prior), square / q, rtol=1e-6, atol=1e-8 * square.max() / q)


class Case(FieldCase):
    """A kernel with data on a part of the Earth."""

    def __init__(self, kernel, lon, lat, cells, degrees, levels=None, time=False):
        self.kernel, self.cells, self.degrees = kernel, cells, degrees
        self.levels = levels or tuple((0,) * len(cells) for _ in degrees)
        rng = np.random.default_rng(3)
        n = 120
        columns = [rng.uniform(*lon, n), rng.uniform(*lat, n)]
        self.ends = [lon, lat, *([(0.0, 1.0)] if time else [])]
        self.X = np.stack([*columns, *([rng.uniform(0.0, 1.0, n)] if time else [])], axis=1)
        self.w = rng.uniform(0.5, 2.0, n)
        wave = np.radians(self.X[:, :2])
        self.y = np.sin(3.0 * wave[:, 0]) * np.cos(4.0 * wave[:, 1]) + 0.2 * rng.standard_normal(n)

    def grids(self, times: int) -> list[Grid]:
        around = self.ends[0][1] - self.ends[0][0] == 360.0
        kinds = (lambda *a: Longitudes(*a, cyclic=around), Latitudes, Grid)
        rows = zip(kinds, self.ends, self.cells, strict=False)
        return [kind(*ends, times * n) for kind, ends, n in rows]


GLOBE = (-180.0, 180.0)
CASES = {
    "regional": Case(earth(1, 10.0, 1.3), (-20.0, 20.0), (50.0, 70.0), (6, 6), ((3, 3),)),
    "smooth": Case(earth(2, 20.0, 1.3), (150.0, 220.0), (-40.0, 10.0), (4, 4), ((4, 4),)),
    "global": Case(earth(1, 40.0, 1.3), GLOBE, (-75.0, 80.0), (16, 8), ((3, 3),)),
    "poles": Case(earth(3, 60.0, 1.3), GLOBE, (-75.0, 86.0), (12, 6), ((5, 5),)),
    "sum": Case(
        earth(2, 60.0, 1.3) + earth(1, 40.0, 0.5),
        GLOBE,
        (-75.0, 80.0),
        (16, 6),
        ((4, 4), (2, 3)),
        ((1, 0), (0, 0)),
    ),
    "with time": Case(
        Matern32(0.6, dim=2) * earth(1, 50.0, 1.3),
        GLOBE,
        (-75.0, 80.0),
        (8, 3, 2),
        ((2, 2, 2),),
        time=True,
    ),
}
each = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


@each
def test_bounds_hold_the_evidence_and_gradients_are_right(case):
    check_bounds_and_gradients(case)


def test_torch_agrees():
    pytest.importorskip("torch")
    case = CASES["sum"]
    bounds = [
        lower_bound(case.engine(device=device).factor(case.kernel, Gaussian(NOISE)))
        for device in ("cpu", "torch")
    ]
    assert bounds[1].elbo == pytest.approx(bounds[0].elbo, rel=1e-9)
    np.testing.assert_allclose(bounds[1].gradient, bounds[0].gradient, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("nu", [1, 2])
def test_draws_have_the_inverse_of_the_updated_precision(nu):
    """And solutions and the selected inverse, where the poles matter."""
    kernel = earth(nu, 40.0)
    case = Case(kernel, GLOBE, (-75.0, 80.0), (8, 3), ((nu + 1, nu + 1),))
    engine = case.engine()
    factor, size = engine.factor(kernel, Gaussian(NOISE)).solution.factor, engine.size
    inverse = factor.solve(np.eye(size))
    root = factor.sample(np.eye(factor.normals))
    np.testing.assert_allclose(root @ root.T, inverse, atol=1e-9 * np.abs(inverse).max())
    # The determinant is that of splines and poles together, where K of the latter is one
    joint = factor.log_det - engine.prior(kernel).log_det
    whole = engine.prior(kernel)
    assert whole.at_poles is not None
    A = whole.at_poles[0]
    both = np.linalg.inv(dense(whole.terms[0].units[0])) + A @ A.T
    alone = -np.linalg.slogdet(inverse)[1] + np.linalg.slogdet(both)[1]
    assert joint == pytest.approx(alone, rel=1e-7)
    index = engine.tables.tree.leaf_index

    def consume(start, stop, blocks):
        for numbers, block in zip(index[start:stop], blocks, strict=True):
            there = numbers >= 0
            own = inverse[np.ix_(numbers[there], numbers[there])]
            np.testing.assert_allclose(block[np.ix_(there, there)], own, rtol=1e-6, atol=1e-9)

    factor.selected_inverse(consume)
    prior = engine.prior(kernel).terms[0].units[0]
    rows = [
        axis.rows(np.array([10.0, 200.0]) * (d == 0) + 70.0 * d)
        for d, axis in enumerate(prior.axes)
    ]
    plain = JointPrior(kernel, prior.tables)
    assert np.all(prior.captured(rows) > plain.captured(rows) + 0.3)
    assert np.all(prior.captured(rows) < 1.0)


@pytest.mark.parametrize("nu", [1, 2, 3])
def test_rings_tell_all_that_is_beyond_them(nu):
    """As much of the variance as means over any rings there do, and little more than all."""
    process, lat = earth(nu, 40.0), np.array([-40.0, 30.0, 80.0, 86.0])
    here, turn = np.stack([0.0 * lat, lat], axis=1), np.arange(0.0, 360.0, 360.0 / 256)
    at = from_nodes(lat)
    for wave in (0, 1, 2):
        told, _ = columns(process, True, False, at, wave, nu + 1)
        weights = np.cos(wave * np.radians(turn)) / len(turn)
        rings = 90.0 - np.array([2.0, 1.98, 1.9, 1.5])
        around = [np.stack([turn, np.full_like(turn, ring)], axis=1) for ring in rings]
        cross = np.stack([process.between(here, each) @ weights for each in around], axis=1)
        start = np.stack([0.0 * rings, rings], axis=1)
        inner = np.stack([process.between(start, each) @ weights for each in around], axis=1)
        inner = (0.5 if wave else 1.0) * 0.5 * (inner + inner.T)
        means = np.einsum("ni,in->n", cross, np.linalg.solve(inner, cross.T))
        found = np.sum((at @ told) ** 2, axis=1)
        assert np.all(found > means * (1.0 - 1e-3) - 1e-7)
        assert np.all(found < 1.1 * means + 1e-4)


def test_fewer_columns_at_the_poles_tell_less():
    case = CASES["poles"]
    unit = case.engine().prior(case.kernel).terms[0].units[0]
    missed = [
        JointPrior(unit.process, unit.tables, most).missed_shares()[1]
        for most in (1, 2, 6, 24, 400)
    ]
    assert np.all(np.diff(missed) < 0.0)
    assert missed[0] > 0.5
    assert 0.0 < missed[-1] < 0.01


@pytest.mark.parametrize("length", [1.0, 4.0, 5.0, 6.0, 30.0])
def test_poles_at_any_distance_take_columns_or_none(length):
    # Between far and near, a ring is correlated with the data and yet tells next to nothing.
    case = Case(earth(1, length), (0.0, 10.0), (40.0, 50.0), (4, 4), ((3, 3),))
    prior = case.engine().prior(case.kernel)
    assert prior.at_poles is None or prior.at_poles[0].shape[1] > 0


@pytest.mark.parametrize("name", ["regional", "smooth", "global", "poles"])
def test_bounds_and_posteriors_converge_to_dense_ones(name):
    """Also beyond the data, and for longitudes that are turns away."""
    case, rng = CASES[name], np.random.default_rng(5)
    (west, east), (south, north) = case.ends
    X = np.stack([rng.uniform(west - 10, east + 10, 40), rng.uniform(south, north, 40)], axis=1)
    X[:20, 1] += 2.0
    cross = case.kernel(case.X, X)
    solved = np.linalg.solve(case.noisy, cross)
    covariance = case.kernel(X) - cross.T @ solved
    off = []
    for times in (1, 3):
        posterior = GridPosterior(case.kernel, NOISE, case.engine(times))
        nothing = np.empty((len(X), 0))
        mean, variance = posterior.predict(GridPoints(X, nothing, nothing))
        found = posterior.covariance(GridPoints(X, nothing, nothing))
        turned = GridPoints(X + np.array([360.0, 0.0]), nothing, nothing)
        again = posterior.predict(turned)
        np.testing.assert_allclose(again[0], mean, rtol=1e-7)
        np.testing.assert_allclose(again[1], variance, rtol=1e-7)
        np.testing.assert_allclose(np.diag(found), variance, rtol=1e-8)
        std = np.sqrt(np.diag(covariance))
        parts = mean[0] - solved.T @ case.y, np.sqrt(variance) - std, found - covariance
        bound = lower_bound(posterior.factored).elbo
        off.append([case.evidence() - bound, *(np.abs(part).max() for part in parts)])
    assert np.all(np.array(off[1]) < 0.65 * np.array(off[0]))
    assert np.max(off[1][1:]) < (0.01 if name == "poles" else 0.07)
