"""What a field says of itself and keeps to: digits, memory, basis, boxes, limits, starts."""

from __future__ import annotations

import re
import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from asvgp import Constant, GPRegressor, Matern12, Matern32, Matern52, Matern72
from asvgp.basis import Grid
from asvgp.diagnostics.facts import field_facts
from asvgp.diagnostics.summary import summary
from asvgp.kernels import Kernel
from asvgp.likelihoods import Gaussian
from asvgp.model import conditioning
from asvgp.model.axis import Axis
from asvgp.model.devices import Cpu
from asvgp.model.grid import GridEngine
from asvgp.model.memory import MemoryBudget, plan_need
from asvgp.model.plan import Plan
from asvgp.model.prior import Prior
from asvgp.policies import MEMORY, VERDICT
from asvgp.posterior.grid import GridPosterior
from asvgp.statistics import Statistics
from asvgp.training import fit, schedule_field, second_look
from asvgp.training.boxes import boxes
from asvgp.training.schedule_field import FieldSchedule
from asvgp.training.starts import noise_estimate
from tests.dense import design, gram
from tests.engines import engine_bound
from tests.model.test_field import CASES, NOISE, dense_functions, dense_stiffness

UNTRAINED = {"noise_variance": 0.01, "optimizer": None}


def surface(n=400, columns=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 1.0, (n, columns))
    X[0], X[1] = 0.0, 1.0
    return X, np.sin(5 * X[:, 0]) * np.cos(4 * X[:, 1]) + 0.1 * rng.standard_normal(n)


def grids(*cells):
    return tuple(Grid(0.0, 1.0, n) for n in cells)


# ---------------------------------------------------------------- is the basis large enough?


def test_the_penalty_is_what_splines_miss_of_the_prior_at_the_data():
    X, y = surface()
    kernel = Matern32(0.5, 1.3, dim=0) * Matern32(0.7, dim=1)
    gp = GPRegressor(kernel, num_basis=(10, 12), degree=2, **UNTRAINED).fit(X, y)
    captured = np.full(len(X), 1.3)
    for d, grid in enumerate(gp.stats_.grids):
        phi = design(X[:, d], grid, 2)
        inverse = np.linalg.inv(gram(Prior(kernel.factors[d], grid, 2)))
        captured *= np.einsum("ni,ij,nj->n", phi, inverse, phi)
    missed = np.sum(1.3 - captured)
    basis = summary(gp).basis
    assert basis.penalty == pytest.approx(missed / (2 * 0.01 * len(X)), rel=1e-6)
    assert basis.missed_share == pytest.approx(missed / (1.3 * len(X)), rel=1e-6)
    assert basis.num_basis == 120


@pytest.mark.parametrize("name", ["mixed", "additive"])
def test_the_penalty_of_sums_adds_up_over_their_terms(name):
    case = CASES[name]
    X, _, w = case.data()
    assembly = case.assembly()
    own = slice(assembly.size - case.plan.effects)
    functions = dense_functions(case, X)[:, own]
    inverse = np.linalg.inv(dense_stiffness(case, assembly)[own, own])
    captured = np.einsum("ni,ij,nj->n", functions, inverse, functions)
    missed = np.sum(w * (case.kernel.prior_variance - captured))
    posterior = GridPosterior(case.kernel, NOISE, assembly)
    verdict = field_facts(posterior, "elbo", posterior.stats).verdict
    assert verdict.penalty == pytest.approx(missed / (2 * NOISE * len(X)), rel=1e-6)


def test_the_verdict_foretells_finer_grids():
    X, y = surface()
    kernel = Matern32(0.25, dim=0) * Matern32(0.3, dim=1)

    def verdict(cells):
        settings = {"noise_variance": 1.0, "optimizer": None, "degree": 2}
        gp = GPRegressor(kernel, num_basis=cells + 2, **settings)
        return summary(gp.fit(X, y)).basis

    known = {cells: verdict(cells) for cells in (8, 16, 32, 64)}
    for cells in (16, 32):
        gained = known[cells].penalty - known[2 * cells].penalty
        assert known[cells].gain == pytest.approx(gained, rel=0.2)
    words = re.fullmatch(
        r"no: about (\d+) times as many along every input would be enough", str(known[8])
    )
    assert words is not None
    times = int(words[1])
    assert str(known[8 * times]) == "yes"
    assert str(known[4 * times]) != "yes"  # fewer would not have done
    for basis in known.values():
        expected = "yes" if basis.penalty < 1e-3 else "nearly" if basis.penalty < 1e-2 else "no"
        assert str(basis).partition(":")[0] == expected


@pytest.mark.parametrize("name", ["mixed", "additive"])
def test_degrees_of_freedom_are_those_of_the_smoother(name):
    case = CASES[name]
    X, _, w = case.data()
    assembly, functions = case.assembly(), dense_functions(case, X)
    of_data = functions.T @ (w[:, None] * functions) / NOISE
    smoother = np.linalg.solve(of_data + dense_stiffness(case, assembly), of_data)
    posterior = GridPosterior(case.kernel, NOISE, assembly)
    facts = field_facts(posterior, "elbo", posterior.stats)
    assert facts.freedom == pytest.approx(np.trace(smoother), rel=1e-7)
    effects = np.diag(smoother)[assembly.size - case.plan.effects :].sum()
    rest = facts.freedom - sum(facts.component_freedom)
    assert rest == pytest.approx(effects, abs=1e-6)
    assert rest > 0.5 * case.plan.effects  # the data tell more of them than their priors


# ---------------------------------------------------------------- digits


@pytest.mark.parametrize(
    "kernel, columns, guilty",
    [
        (Matern72(1e8, dim=0) + Matern72(0.3, dim=1), 2, 1),
        (Matern72(0.3, dim=0) + Matern72(1e8, dim=1), 2, 2),
        (Matern32(0.3, dim=0) * Matern32(0.3, dim=1) + Matern72(1e8, dim=2), 3, 2),
    ],
)
def test_a_posterior_without_digits_is_refused(kernel, columns, guilty):
    X, y = surface(columns=columns)
    with pytest.raises(ValueError, match=r"not positive definite|only known to") as caught:
        GPRegressor(kernel, num_basis=10, degree=4, **UNTRAINED).fit(X, y)
    assert not isinstance(caught.value, np.linalg.LinAlgError)
    named = re.findall(r"term (\d) \(", str(caught.value))
    assert named == [str(guilty)]


@pytest.mark.parametrize("scale", [2.0**-10, 1.0, 2.0**10])
def test_few_digits_are_noted_whatever_the_unit_of_y(scale, monkeypatch):
    X, y = surface(columns=3)
    kernel = Matern32(0.3, scale**2, dim=0) * Matern32(0.3, dim=1)
    kernel = kernel + Matern52(100.0, scale**2, dim=2)
    settings = UNTRAINED | {"noise_variance": 0.01 * scale**2}
    gp = GPRegressor(kernel, num_basis=10, degree=3, **settings)
    monkeypatch.setattr(conditioning, "VERDICT", replace(VERDICT, few_digits=1e-12))
    with pytest.warns(UserWarning, match=r"good to about \de-\d+ nats only. term 2 \("):
        gp.fit(X, scale * y)


def test_what_is_well_conditioned_is_left_without_note(recwarn):
    X, y = surface(columns=3)
    kernel = Matern32(0.3, 1e6, dim=0) * Matern32(0.3, dim=1) + Matern52(0.5, 1e-3, dim=2)
    gp = GPRegressor(kernel, num_basis=10, **UNTRAINED).fit(X, y)
    assert gp.optimization_.notes == []
    assert not recwarn.list


@pytest.mark.parametrize(
    "place, guilty", [(0, [2]), (-1, [2]), ("next", [3]), ("effect", [1, 2, 3])]
)
def test_the_term_that_breaks_the_elimination_is_named(place, guilty):
    X, y = surface(columns=4)
    kernel = (
        Matern32(0.4, dim=0) * Matern32(0.4, dim=1)
        + Matern32(0.5, dim=2)
        + Matern32(0.6, dim=3)
        + Constant()
    )
    plan = Plan(
        (0, 1), grids(6, 6), (2, 2), (0,), ((2, 2),), ((0, 0),), (1, 2), grids(7, 5), (2, 2), 1
    )
    stats = Statistics.from_data(
        X[:, :2],
        y,
        plan.grids,
        plan.powers,
        smooths=tuple(zip(plan.smooth_grids, plan.smooth_degrees, strict=True)),
        smooth_inputs=X[:, 2:],
        covariates=np.ones((len(X), 1)),
    )
    column = {0: 0, -1: 8, "next": 9, "effect": 16}[place]
    wrong = stats.column_gram.copy()
    wrong[column, column] = -1e6  # sums of no data: the first pivot that is not positive
    assembly = GridEngine(kernel, plan, replace(stats, column_gram=wrong))
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite") as caught:
        assembly.factor(kernel, Gaussian(0.01))
    named = re.findall(r"term (\d) \(", str(caught.value))
    assert named == [str(number) for number in guilty]


@pytest.mark.parametrize("column, guilty", [(0, [1]), (6, [1]), (7, [2]), (12, [2]), (13, [1, 2])])
@pytest.mark.parametrize("value", [-1e6, 0.0])
def test_the_term_that_breaks_a_dense_factor_is_named(column, guilty, value):
    X, y = surface()
    kernel = Matern32(0.4, dim=0) + Matern32(0.5, dim=1) + Constant()
    plan = Plan((), (), (), (), (), (), (0, 1), grids(5, 4), (2, 2), 1)
    stats = Statistics.from_data(
        None,
        y,
        (),
        (),
        smooths=tuple(zip(plan.smooth_grids, plan.smooth_degrees, strict=True)),
        smooth_inputs=X,
        covariates=np.ones((len(X), 1)),
    )
    wrong = stats.column_gram.copy()
    engine = GridEngine(kernel, plan, stats)
    stiffness = engine.column_stiffness(engine.prior(kernel))
    wrong[column, column] = 0.01 * (value - stiffness[column, column])
    assembly = GridEngine(kernel, plan, replace(stats, column_gram=wrong))
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite") as caught:
        assembly.factor(kernel, Gaussian(0.01))
    named = re.findall(r"term (\d) \(.*?lengthscale=([\d.]+)", str(caught.value))
    assert named == [(str(number), {1: "0.4", 2: "0.5"}[number]) for number in guilty]


@pytest.mark.parametrize("process", [Matern32(dim=2), Matern52(dim=2), Matern72(dim=2)])
@pytest.mark.parametrize("lengthscale", [1e2, 1e4, 1e8])
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.filterwarnings("ignore:.*good to about")
def test_very_long_smooths_are_right_or_named(process, lengthscale, mixed):
    X, y = surface(columns=3)
    y += np.sin(5 * X[:, 0]) * (1.0 - np.cos(4 * X[:, 1]))  # a sum over the inputs, too
    rough = Matern32(0.5, dim=0), Matern32(0.5, dim=1)
    kernel = rough[0] * rough[1] if mixed else rough[0] + rough[1]
    gp = GPRegressor(Matern32(), num_basis=30, **UNTRAINED)
    shorter = gp.set_params(kernel=kernel + Matern32(10.0, dim=2)).fit(X, y).elbo_
    try:
        gp.set_params(kernel=kernel + process.replace(lengthscale=lengthscale)).fit(X, y)
    except ValueError as error:
        said = str(error)
        assert re.findall(r"term (\d) \(", said) == ["2" if mixed else "3"]
        assert f"lengthscale {lengthscale:.4g} = " in said
        assert f" splines of degree {process.default_degree} along input 2" in said
        assert lengthscale > 1e2 or process.order == 3
        return
    assert gp.elbo_ == pytest.approx(shorter, abs=3.0)  # all of them a constant, nearly


@pytest.mark.parametrize("process", [Matern12(1e3), Matern32(1e3), Matern52(1e3), Matern72(1e3)])
@pytest.mark.parametrize("cells", [1, 2, 20])
def test_what_long_processes_have_of_the_variance(process, cells):
    degree, (grid,) = process.default_degree, grids(cells)
    x = np.random.default_rng(0).uniform(0.0, 1.0, 200)
    axis = Axis(process, grid, degree, 0, degree)
    where, s = grid.locate(x)
    moments = np.zeros((cells, 2 * degree + 1))
    np.add.at(moments, where, s[:, None] ** np.arange(2 * degree + 1))
    functions = design(x, grid, degree)
    trace, slope = axis.banded_trace(functions.T @ functions)
    assert trace == pytest.approx(axis.trace(moments)[0], rel=1e-12)
    np.testing.assert_allclose(slope, axis.trace(moments)[1], rtol=1e-6, atol=1e-11)


# ---------------------------------------------------------------- memory and time


def peak_of_bounds(kernel: Kernel, plan: Plan) -> float:
    """Bytes at the peak of a bound, a posterior and an upper bound, the statistics among them."""
    X, y = surface(300, 3)
    stats = Statistics.from_data(
        X[:, : len(plan.inputs)] if plan.inputs else None,
        y,
        plan.grids,
        plan.powers,
        smooths=tuple(zip(plan.smooth_grids, plan.smooth_degrees, strict=True)),
        smooth_inputs=X[:, : len(plan.smooths)] if plan.smooths else None,
    )
    tracemalloc.start()
    try:
        assembly = GridEngine(kernel, plan, stats)
        engine_bound(assembly, kernel, NOISE)
        posterior = GridPosterior(kernel, NOISE, assembly)
        assert np.isfinite(posterior.upper_bound())
        return stats.nbytes + tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def cube(cells: int) -> Plan:
    return Plan((0, 1, 2), grids(*[cells] * 3), (1, 1, 1), (0,), ((1, 1, 1),), ((0, 0, 0),))


def additive(cells: int) -> Plan:
    return Plan((), (), (), (), (), (), (0, 1), grids(cells, cells), (2, 2))


@pytest.mark.parametrize(
    "kernel, planned, cells, least",
    [
        (Matern12(0.3, dim=0) * Matern12(0.3, dim=1) * Matern12(0.3, dim=2), cube, 24, 0.8),
        (Matern32(0.3, dim=0) + Matern32(0.3, dim=1), additive, 100, 0.5),
    ],
    ids=["field", "additive"],
)
def test_memory_is_foretold(kernel, planned, cells, least):
    peak_of_bounds(kernel, planned(6))  # what is compiled is not counted
    peak = peak_of_bounds(kernel, planned(cells))
    assert least * peak < plan_need(planned(cells), kernel).memory < 2.0 * peak


def test_announced_seconds_are_the_operations_at_the_rate_of_the_device():
    class Slow(Cpu):
        rate = 1e7  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    said: list[str] = []
    kernel = Matern12(0.3, dim=0) * Matern12(0.3, dim=1) * Matern12(0.3, dim=2)
    plan = cube(20)
    MemoryBudget(1e12, Slow(), said.append).require(plan, kernel)
    (text,) = said
    words = re.search(r"([\d,]+) Gflop or about ([\d.]+) s per bound", text)
    assert words is not None
    cost = plan.tree(kernel).cost()
    flops = cost.factor_flops + cost.inverse_flops
    assert float(words[1].replace(",", "")) == pytest.approx(flops / 1e9, abs=0.51)
    assert float(words[2]) == pytest.approx(flops / (MEMORY.efficiency * 1e7), abs=0.051)
    said.clear()
    Slow.rate = 1e15  # nobody has to be told of a moment
    MemoryBudget(1e12, Slow(), said.append).require(plan, kernel)
    assert said == []


# ---------------------------------------------------------------- boxes


def test_a_box_of_crowded_cells_has_the_squares_and_weights_of_its_data():
    rng = np.random.default_rng(0)
    cells, n = 224, 200_000
    x = rng.uniform(0.0, cells, (n, 2))
    w = rng.uniform(0.1, 0.5, n)
    y = np.sin(0.1 * x[:, 0]) + rng.standard_normal(n) / w**0.5
    whole = (Grid(0.0, float(cells), cells),) * 2
    plan = Plan((0, 1), whole, (1, 1), (0,), ((1, 1),), ((0, 0),))
    stats = Statistics.from_data(x, y, whole, (1, 1), w)
    parts = boxes(Matern12(6.0, dim=0) * Matern12(6.0, dim=1), plan, stats, (1, 1))
    assert parts
    for part in parts:
        sides = [grid.cells for grid in part.grids]
        (corner,) = (
            np.array([a, b])
            for a in range(0, cells - sides[0] + 1, 16)
            for b in range(0, cells - sides[1] + 1, 16)
            if np.array_equal(
                stats.cell_weights[a : a + sides[0], b : b + sides[1]], part.cell_weights
            )
        )
        inside = np.all((x >= corner) & (x < corner + sides), axis=1)
        # Not kept cell by cell: shares of the whole, good to what varies from box to box.
        assert part.count == pytest.approx(inside.sum(), rel=0.02)
        assert part.squares[0] == pytest.approx(np.sum((w * y**2)[inside]), rel=0.04)
        assert part.log_weights == pytest.approx(np.log(w[inside]).sum(), rel=0.02)


# ---------------------------------------------------------------- resolution and limits


def cells_by_axis(gp: GPRegressor):
    """Of every axis of the main block: its process and its splines' cells."""
    plan = gp.posterior_.plan  # pyright: ignore[reportAttributeAccessIssue]
    axes = plan.axes(gp.posterior_.kernel)
    return [(axis.process, axis.grid) for own in axes for axis in own if axis.process is not None]


@pytest.mark.parametrize("objective", ["elbo", "evidence"])
def test_cells_are_never_wider_than_a_quarter_of_a_length(objective):
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (3000, 2))
    y = 100.0 * rng.standard_normal(3000)
    # So much noise that nothing the splines miss would matter.
    gp = GPRegressor(
        Matern32(0.3, dim=0) * Matern32(0.15, dim=1),
        noise_variance=1e4,
        optimizer=None,
        objective=objective,
    ).fit(X, y)
    ratios = [process.lengthscale / grid.spacing for process, grid in cells_by_axis(gp)]
    assert len(ratios) == 2
    assert min(ratios) >= 4.0
    assert max(ratios) < 8.0  # and no finer than that


def test_under_evidence_there_are_no_more_cells_than_places():
    rng = np.random.default_rng(0)
    places = 24
    axis = np.linspace(0.0, 1.0, places)
    x0 = np.repeat(axis, 200)  # many at each, so that cells are few beside data
    X = np.stack([x0, rng.uniform(0.0, 1.0, len(x0))], axis=1)
    y = rng.standard_normal(len(X))
    gp = GPRegressor(
        Matern32(0.05, dim=0) * Matern32(0.5, dim=1),
        noise_variance=1e-6,
        optimizer=None,
        objective="evidence",
    ).fit(X, y)
    (_, along), _ = cells_by_axis(gp)
    assert along.cells <= 1.5 * places
    assert 2 * along.cells > 1.5 * places  # as fine as that allows


@pytest.mark.parametrize(
    "kernel",
    [
        Matern32(dim=0) * Matern32(dim=1),
        Matern32(dim=0) * Matern32(dim=1) + Matern12(fixed=("lengthscale", "variance"), dim=0),
    ],
    ids=["one term", "two terms"],
)
def test_under_evidence_lengths_stay_longer_than_two_cells(kernel):
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (600, 2))
    y = rng.standard_normal(600)  # all of it the process's, the shorter the better
    gp = GPRegressor(kernel, num_basis=10, objective="evidence")
    with pytest.warns(UserWarning, match="wider than necessary"):
        gp.fit(X, y, noise_variance=np.full(600, 0.01))
    ratios = [process.lengthscale / grid.spacing for process, grid in cells_by_axis(gp)[:2]]
    assert min(ratios) > 2.0 - 1e-6
    assert min(ratios) < 2.1  # the data would have gone on


# ---------------------------------------------------------------- starts, sums and kernels


def test_noise_is_estimated_from_neighbours_where_cells_hold_one_point():
    rng = np.random.default_rng(0)
    side = 64
    x = np.stack(np.indices((side, side)), axis=-1).reshape(-1, 2) + 0.5
    w = np.exp(rng.uniform(-3.0, 3.0, len(x)))
    noise = 0.7
    y = 9.0 * np.sin(2 * np.pi * x[:, 0] / side) * np.ones(len(x))
    y += (noise / w) ** 0.5 * rng.standard_normal(len(x))
    whole = (Grid(0.0, float(side), side),) * 2
    stats = Statistics.from_data(x, y, whole, (1, 1), w)
    # What the signal adds, from its differences alone.
    step = np.diff(9.0 * np.sin(2 * np.pi * (np.arange(side) + 0.5) / side))
    table = w.reshape(side, side)
    pair = 1.0 / (1.0 / table[1:] + 1.0 / table[:-1])
    extra = np.sum(step[:, None] ** 2 * pair) / (2 * side * (side - 1))
    assert noise_estimate(stats) == pytest.approx(noise + extra, rel=0.06)


def test_what_little_is_left_after_forgetting_is_kept():
    rng = np.random.default_rng(0)
    n, few = 5000, 60
    x, z = rng.uniform(0.0, 1.0, (n, 2)), rng.uniform(0.0, 1.0, (n, 1))
    y, linear = rng.standard_normal(n), rng.standard_normal((n, 2))
    linear[:few, 1] = 0.0  # a column that leaves with the rest

    def of(rows):
        return Statistics.from_data(
            x[rows],
            y[rows],
            grids(4, 3),
            (1, 2),
            smooths=((Grid(0.0, 1.0, 5), 2),),
            smooth_inputs=z[rows],
            covariates=linear[rows],
        )

    left, alone = of(slice(n)) - of(slice(few, n)), of(slice(few))
    assert left.count == alone.count
    for name in ("moments", "targets", "cross", "column_gram", "column_targets", "squares"):
        np.testing.assert_allclose(
            getattr(left, name), getattr(alone, name), atol=1e-9, err_msg=name
        )
    assert not left.column_gram[-1].any()  # not even rounding
    assert not left.cross[..., -1].any()


def test_bounds_of_a_variance_are_bounds_of_the_products():
    one = Matern32(1.0, 2.0, dim=0, bounds={"variance": (1.0, 4.0)})
    two, three = Matern32(1.0, 3.0, dim=1), Matern52(1.0, 5.0, dim=2)
    other = Matern32(1.0, 7.0, dim=3, bounds={"variance": (6.0, 8.0)})
    for product, expected in [
        (one * two, (3.0, 12.0)),
        (two * one, (3.0, 12.0)),
        (one * two * three, (15.0, 60.0)),
        (one * two * other, (18.0, 96.0)),
    ]:
        assert product.bounds["variance"] == pytest.approx(expected)
        lower, upper = product.bounds["variance"]
        assert lower <= product.variance <= upper
        assert product.replace_free({"variance": 1e9}).variance == pytest.approx(upper)
    assert "variance" not in (two * three).bounds


def test_fixed_and_bounded_factors_stay_so_in_products():
    short = Matern32(0.05, dim="lon", bounds={"lengthscale": (0.01, 0.1)})
    known = Matern32(0.3, 2.0, dim="lat", fixed=("lengthscale", "variance"))
    kernel = short * known
    assert kernel.bounds == {"lengthscale[lon]": (0.01, 0.1)}
    assert kernel.fixed == ("lengthscale[lat]", "variance")
    more = kernel * Matern12(dim="time", fixed=("lengthscale",))
    assert more.bounds == kernel.bounds
    assert {*more.fixed} == {"lengthscale[lat]", "lengthscale[time]", "variance"}


def test_bounds_of_a_kernel_over_all_inputs_are_those_of_each():
    X, y = surface()
    kernel = Matern32(0.05, bounds={"lengthscale": (0.01, 0.1), "variance": (0.1, 3.0)})
    gp = GPRegressor(kernel, num_basis=8).fit(X, y)
    assert gp.kernel_.bounds["lengthscale[0]"] == gp.kernel_.bounds["lengthscale[1]"] == (0.01, 0.1)
    assert gp.kernel_.bounds["variance"] == (0.1, 3.0)
    assert gp.optimization_.at_bounds[:2] == ["lengthscale[0]", "lengthscale[1]"]
    assert gp.kernel_.values[:2] == pytest.approx([0.1, 0.1])


def test_what_ended_on_a_bound_is_named_as_the_user_names_columns():
    X, y = surface(columns=3)
    kernel = Matern32(0.05, dim="lon", bounds={"lengthscale": (0.01, 0.1)}) * Matern32(dim="lat")
    kernel = kernel + Matern32(0.03, dim="height", bounds={"lengthscale": (0.01, 0.05)})
    frame = pd.DataFrame(X, columns=["lon", "lat", "height"])
    gp = GPRegressor(kernel, num_basis=8).fit(frame, y)
    assert "1.lengthscale[lon]" in gp.optimization_.at_bounds
    assert {*gp.optimization_.at_bounds} <= {*gp.kernel_.parameters, "noise variance"}
    assert "at a bound: 1.lengthscale[lon]" in str(gp.optimization_)
    notes = {(row["component"], row["name"]): row["note"] for row in summary(gp).hyperparameters}
    assert notes["1 Matern32 x Matern32", "lengthscale[lon]"] == "at bound"
    assert notes["1 Matern32 x Matern32", "variance"] != "at bound"


# ---------------------------------------------------------------- Ctrl-C


def striking(monkeypatch, place, name, when=1):
    """Let Ctrl-C strike a compiled function in some call of something."""
    kept, calls = getattr(place, name), []

    def struck(*arguments, **options):
        calls.append(name)
        if len(calls) == when:
            raise SystemError("a result with an exception set") from KeyboardInterrupt()
        return kept(*arguments, **options)

    monkeypatch.setattr(place, name, struck)
    return calls


@pytest.mark.parametrize(
    "place, name, when, stages",
    [
        (schedule_field, "GridPosterior", 1, 2),
        (FieldSchedule, "following", 1, 1),
        (FieldSchedule, "_engine", 2, 1),
        (second_look, "climb", 1, 1),
        (schedule_field, "climb", 2, 2),
    ],
)
def test_ctrl_c_keeps_the_state_wherever_it_strikes(place, name, when, stages, monkeypatch):
    X, y = surface()
    kernel = Matern32(0.4, dim=0) * Matern32(0.4, dim=1)
    calls = striking(monkeypatch, place, name, when)
    with pytest.warns(UserWarning, match="interrupted; the best state so far is kept"):
        gp = GPRegressor(kernel, num_basis=30).fit(X, y)
    assert len(calls) >= when
    assert gp.optimization_.interrupted
    assert not gp.optimization_.converged
    assert len(gp.resolution_) == stages
    assert np.std(y - gp.predict(X)) < 0.2


@pytest.mark.parametrize("place, name", [(fit, "lower_bound"), (schedule_field, "GridPosterior")])
def test_ctrl_c_is_an_interrupt_where_there_is_nothing_to_keep(place, name, monkeypatch):
    X, y = surface()
    striking(monkeypatch, place, name)
    with pytest.raises(KeyboardInterrupt):
        GPRegressor(Matern32(0.4), num_basis=10, **UNTRAINED).fit(X, y)
