"""What every engine promises, against dense matrices that know nothing of its coordinates.

A further engine is covered by a further line in `TWINS`.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import log

import numpy as np
import pytest

from asvgp import SHO, Constant, GPRegressor, Linear, Matern12, Matern32, Matern52, Periodic
from asvgp.basis import Grid
from asvgp.kernels import Kernel
from asvgp.likelihoods import Gaussian
from asvgp.model.bound import lower_bound, upper_bound
from asvgp.model.chain import ChainEngine
from asvgp.model.devices import device_for
from asvgp.model.engine import Engine, Factored
from asvgp.model.exact import ExactEngine
from asvgp.model.grid import GridEngine
from asvgp.model.prior import Prior
from asvgp.model.series.engine import SeriesEngine
from asvgp.model.series.plan import Along, Around, Part, SeriesPlan
from asvgp.model.series.terms import Season, Term, terms_of
from asvgp.statistics import Statistics
from tests.dense import design, gram
from tests.model.test_field import CASES, Case, dense_functions

NOISE = 0.04


@dataclass
class Twin:
    """An engine, and what it stands for as dense matrices.

    ``covariances(X, Y)`` are those that the splines have of every component; ``columns`` are of
    the effects, whose variances are given.
    """

    engine: Engine
    again: Callable[[np.ndarray], Engine]  # with other y
    data: tuple[np.ndarray, np.ndarray, np.ndarray]
    covariances: Callable[[np.ndarray, np.ndarray], list[np.ndarray]]
    columns: Callable[[np.ndarray], np.ndarray]
    variances: list[float]

    @property
    def kernel(self) -> Kernel:
        return self.engine.kernel

    def factor(self, noise: float = NOISE) -> Factored:
        return self.engine.factor(self.kernel, Gaussian(noise))

    def effects(self, X, Y) -> np.ndarray:
        return (self.columns(X) * np.array(self.variances)) @ self.columns(Y).T

    def noisy(self, noise: float = NOISE) -> np.ndarray:
        """Covariance of y in the model of the splines."""
        X, _, w = self.data
        return sum(self.covariances(X, X)) + self.effects(X, X) + np.diag(noise / w)


def line() -> Twin:
    kernel = Matern52(1.1, 0.9, dim=0) + SHO(0.9, 2.0, 0.5, dim=0) + Matern12(0.4, 0.3, dim=0)
    kernel = kernel + Constant(variance=5.0) + Linear(0, variance=2.0) + Linear(1, variance=0.7)
    return _line(kernel, (3, 3, 1), [5.0, 2.0, 0.7])


def plain_line() -> Twin:
    return _line(Matern32(1.1, 0.9), (2,), [])


def _line(kernel: Kernel, degrees: tuple[int, ...], variances: list[float]) -> Twin:
    rng = np.random.default_rng(0)
    X = np.stack([rng.uniform(0.0, 5.0, 90), rng.standard_normal(90)], axis=1)
    X[:2, 0] = 0.0, 5.0
    w, grid = rng.uniform(0.5, 2.0, 90), Grid(0.0, 5.0, 14)
    y = np.sin(3 * X[:, 0]) + X[:, 1] + 2.0 + 0.2 * rng.standard_normal(90)
    columns = X[:, 1:] if variances else None

    def statistics(y) -> Statistics:
        return Statistics.from_data(X[:, 0], y, grid, max(degrees), w, covariates=columns)

    def covariances(A, B) -> list[np.ndarray]:
        out = []
        for part, degree in zip(kernel.components, degrees, strict=True):
            functions = [design(points[:, 0], grid, degree) for points in (A, B)]
            stiffness = gram(Prior(part, grid, degree))
            out.append(functions[0] @ np.linalg.solve(stiffness, functions[1].T))
        return out

    def effects(A) -> np.ndarray:
        return np.stack([np.ones(len(A)), A[:, 0], A[:, 1]], axis=1)[:, : len(variances)]

    engine = ChainEngine(kernel, statistics(y), degrees if variances else 2)
    return Twin(
        engine,
        lambda y: engine.with_statistics(statistics(y)),
        (X, y, w),
        covariances,
        effects,
        variances,
    )


def grid(name: str, device: str = "cpu") -> Twin:
    case: Case = CASES[name]
    X, y, w = case.data()
    plan, kernel = case.plan, case.kernel

    def covariances(A, B) -> list[np.ndarray]:
        functions, out, first = (dense_functions(case, A), dense_functions(case, B)), {}, 0
        smooths = ([axis] for axis in plan.smooth_axes(kernel))
        for number, axes in zip(
            (*plan.terms, *plan.smooths), (*plan.axes(kernel), *smooths), strict=True
        ):
            stiffness = np.ones((1, 1)) / kernel.components[number].variance
            for axis in axes:
                stiffness = np.kron(stiffness, axis.matrix.toarray())
            own = slice(first, first + len(stiffness))
            out[number] = functions[0][:, own] @ np.linalg.solve(stiffness, functions[1][:, own].T)
            first = own.stop
        return [out[number] for number in range(len(out))]

    engine = GridEngine(kernel, plan, case.stats(X, y, w), device_for(device))
    return Twin(
        engine,
        lambda y: engine.with_statistics(case.stats(X, y, w)),
        (X, y, w),
        covariances,
        lambda A: case.points(A).effects,
        case.variances,
    )


SERIES = (
    Matern32(6.0, 0.5)
    + SHO(9.0, 8.0, 0.4)
    + Periodic(8.0, 5.0, 0.7)
    + Periodic(8.0, 6.0, 0.5) * Matern32(20.0)
    + Constant(variance=5.0)
    + Linear(1, variance=0.7)
)


def series(exact: bool) -> Twin:
    rng = np.random.default_rng(0)
    X = np.stack([rng.integers(0, 48, 90) + 0.25, rng.standard_normal(90)], axis=1)
    if not exact:
        X[:, 0] = rng.uniform(0.0, 48.0, 90)
    grid, w = Grid(0.0, 48.0, 48), rng.uniform(0.5, 2.0, 90)
    y = np.sin(X[:, 0] * np.pi / 4) + X[:, 1] + 2.0 + 0.2 * rng.standard_normal(90)
    parts = (
        Part(along=Along(3, 1)),
        Part(along=Along(9, 2, wave=True)),
        Part(around=Around(3, 8, 1)),
        Part(along=Along(3, 3), around=Around(3, 4, 2)),
    )
    plan = SeriesPlan(grid, 9, parts, 2)

    def columns(A) -> np.ndarray:
        return np.stack([np.ones(len(A)), A[:, 1]], axis=1)

    def statistics(y) -> Statistics:
        return Statistics.from_data(X[:, 0], y, grid, 9, w, covariates=columns(X))

    def covariances(A, B) -> list[np.ndarray]:
        lag = np.abs(np.subtract.outer(A[:, 0], B[:, 0]))
        if exact:
            return [
                part.variance * np.prod([f.covariance(lag) for f in part.factors], axis=0)
                for part in SERIES.components
            ]
        return [_captured(term, grid, A[:, 0], B[:, 0]) for term in terms_of(SERIES, plan)]

    engine = (
        ExactEngine(SERIES, statistics(y)) if exact else SeriesEngine(SERIES, plan, statistics(y))
    )
    return Twin(
        engine,
        lambda y: engine.with_statistics(statistics(y)),
        (X, y, w),
        covariances,
        columns,
        [5.0, 0.7],
    )


def _captured(term: Term, grid: Grid, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the covariance that the functions of a component of a series have."""
    functions = []
    for x in (a, b):
        cells, s = grid.locate(x)
        tables = term.table[cells % len(term.table)]
        values = np.einsum("xap,xp->xa", tables, s[:, None] ** np.arange(tables.shape[2]))
        functions.append(np.zeros((len(x), term.size)))
        np.add.at(functions[-1], (np.arange(len(x))[:, None], term.numbers(cells)), values)
    if isinstance(term, Season):
        stiffness = term.matrix
    else:
        stiffness, (element, first) = np.zeros((term.size, term.size)), term.elements
        for cell, numbers in enumerate(term.element_numbers):
            stiffness[np.ix_(numbers, numbers)] += element + (first if cell == 0 else 0.0)
    return functions[0] @ np.linalg.solve(stiffness, functions[1].T)


TWINS: dict[str, Callable[[], Twin]] = {
    "chain": line,
    "chain, one component": plain_line,
    "grid": lambda: grid("mixed"),
    "grid, two resolutions": lambda: grid("two resolutions"),
    "grid in torch": lambda: grid("space, time and both", "torch"),
    "grid around a circle": lambda: grid("around a circle"),
    "grid around a circle in torch": lambda: grid("around a circle", "torch"),
    "no main block": lambda: grid("additive"),
    "series": lambda: series(exact=False),
    "exact": lambda: series(exact=True),
}


@pytest.fixture(params=TWINS, ids=str)
def twin(request) -> Twin:
    if "torch" in request.param:
        pytest.importorskip("torch")
    return TWINS[request.param]()


def test_the_evidence_of_the_splines_is_that_of_dense_matrices(twin):
    _, y, w = twin.data
    covariance, factored = twin.noisy(), twin.factor()
    expected = -0.5 * (
        y @ np.linalg.solve(covariance, y) + np.linalg.slogdet(2 * np.pi * covariance)[1]
    )
    bound, upper = lower_bound(factored), upper_bound(factored)
    assert bound.fit == pytest.approx(expected, abs=1e-7)
    assert bound.elbo <= bound.fit <= upper
    gained = np.linalg.slogdet(covariance)[1] - np.sum(np.log(NOISE / w))
    assert factored.gained == pytest.approx(gained, abs=1e-7)
    stats = twin.engine.statistics
    assert float(stats.log_weights) == pytest.approx(np.log(w).sum())
    misfit = stats.squares / NOISE - factored.explained
    constant = stats.log_weights - len(y) * log(2 * np.pi * NOISE)
    assert bound.fit == pytest.approx(0.5 * (constant - gained - misfit.sum()), abs=1e-7)


def test_missed_variance_and_freedom_of_every_component(twin):
    X, _, w = twin.data
    factored, parts = twin.factor(), twin.covariances(X, X)
    missed, slope = factored.missed()
    expected = [
        w @ (part.variance - np.diag(own))
        for part, own in zip(twin.kernel.components, parts, strict=True)
    ]
    np.testing.assert_allclose(missed, expected, rtol=1e-6, atol=1e-7)
    assert slope.shape == (len(twin.kernel.parameters),)
    inverse = np.linalg.inv(twin.noisy())
    np.testing.assert_allclose(
        factored.component_freedoms(), [np.sum(inverse * own) for own in parts], rtol=1e-6
    )
    whole = twin.noisy() - np.diag(NOISE / w)
    assert factored.forms().freedom == pytest.approx(np.sum(inverse * whole), rel=1e-8)


@pytest.mark.parametrize("objective", ["elbo", "evidence"])
def test_gradients_are_those_of_differences(twin, objective):
    kernel, engine = twin.kernel, twin.engine
    theta = np.log(np.append(kernel.values, NOISE))

    def bound(theta, missed="exact"):
        moved = kernel.replace_free(dict(zip(kernel.parameters, np.exp(theta[:-1]), strict=True)))
        factored = engine.factor(moved, Gaussian(float(np.exp(theta[-1]))))
        return lower_bound(factored, objective, missed=missed)

    def value(theta):
        found = bound(theta)
        return np.array([found.elbo if objective == "elbo" else found.fit, found.missed])

    here = bound(theta, "about")
    for i, step in enumerate(1e-3 * np.eye(len(theta))):
        ends = [value(theta + k * step) for k in (-2, -1, 1, 2)]
        difference = (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * 1e-3)
        assert here.gradient[i] == pytest.approx(difference[0], rel=1e-6, abs=1e-5)
        assert here.d_missed[i] == pytest.approx(difference[1], rel=1e-5, abs=1e-6)


def test_other_statistics_are_those_of_a_new_engine(twin):
    X, y, w = twin.data
    before = lower_bound(twin.factor())
    other = twin.again(np.cos(y))
    expected = replace(twin, engine=other, data=(X, np.cos(y), w))
    got = lower_bound(other.factor(twin.kernel, Gaussian(NOISE)))
    covariance = expected.noisy()
    assert got.fit == pytest.approx(
        -0.5 * np.cos(y) @ np.linalg.solve(covariance, np.cos(y))
        - 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1],
        abs=1e-7,
    )
    assert got.missed == pytest.approx(before.missed, rel=1e-12)
    assert lower_bound(twin.factor()).fit == before.fit


def test_tables_stay_when_only_sums_change():
    one = grid("mixed")
    assert isinstance(one.engine, GridEngine)
    lower_bound(one.factor())
    tables = one.engine.tables
    known = tables.tree, tables.leaves, tables.leaves.grams, tables.leaves.values
    other = one.again(np.cos(one.data[1]))
    assert isinstance(other, GridEngine)
    assert other.factor(one.kernel, Gaussian(NOISE)).mean is not one.engine
    assert other.tables is tables
    now = other.tables.tree, other.tables.leaves, tables.leaves.grams, tables.leaves.values
    assert all(a is b for a, b in zip(known, now, strict=True))
    late = grid("mixed")  # shared too where nothing was needed before
    assert isinstance(late.engine, GridEngine)
    assert late.engine.with_statistics(late.engine.statistics).tables is late.engine.tables


def test_the_last_factorisation_is_remembered(twin):
    engine, kernel = twin.engine, twin.kernel

    def solution(noise: float, remember: bool = True):
        factored = engine.factor(kernel, Gaussian(noise), remember)
        return getattr(factored, "solution", None) or getattr(factored, "chain", None)

    first = solution(NOISE)
    assert solution(NOISE) is first
    assert solution(2 * NOISE, remember=False) is not first
    assert solution(NOISE) is first
    second = solution(2 * NOISE)
    assert solution(2 * NOISE, remember=False) is second
    assert solution(NOISE) is not first


# ---------------------------------------------------------------- memory


@contextmanager
def no_garbage_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_engines_are_freed_without_the_garbage_collector(twin):
    kernel = twin.kernel
    with no_garbage_collector():
        factored = twin.factor()
        lower_bound(factored)
        upper_bound(factored)
        getattr(factored, "cell_inverse", None)  # which a posterior reads
        held = weakref.ref(twin.engine), weakref.ref(twin.engine.statistics), weakref.ref(factored)
        del factored
        twin.engine = twin.again = None  # pyright: ignore
        assert [ref() for ref in held] == [None] * 3
    assert kernel.components


@pytest.mark.parametrize("inputs", [1, 2])
@pytest.mark.parametrize("effects", [False, True])
def test_estimators_are_freed_without_the_garbage_collector(inputs, effects):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(80, inputs))
    X = X[:, 0] if inputs == 1 else X
    y = np.sin(5 * X.reshape(80, -1)[:, 0]) + 1.0
    kernel = Matern32(0.5) + Constant() if effects else Matern32(0.5)
    gp = GPRegressor(kernel, num_basis=8, noise_variance=0.01)
    gp.fit(X, y)  # compiled code is kept, as it should be
    with no_garbage_collector():
        gp.fit(X, y)
        gp.predict(X, return_std=True)
        gp.leave_one_out(X, y)
        assert np.isfinite(gp.evidence_upper_bound_)
        held = [weakref.ref(part) for part in (gp, gp.stats_, gp.posterior_)]
        del gp
        assert [ref() for ref in held] == [None] * 3


def test_one_number_for_several_smooths_over_one_input():
    case = CASES["smooths over one column"]  # with 10 and 12 functions
    assert case.plan.num_basis(case.kernel) == (10, 10, 12)
    assert case.plan.num_basis(case.kernel, min) == (10, 10, 10)
