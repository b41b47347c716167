"""Single terms, derivatives and joint covariances of fields, against dense twins."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import BSpline

from asvgp import Constant, GPRegressor, Linear, Matern32, Matern52, Periodic
from asvgp.model import memory
from asvgp.model.memory import NotEnoughMemory
from asvgp.posterior import grid_rows as functionals
from asvgp.posterior.grid import GridPosterior
from asvgp.posterior.posterior import GridPoints
from asvgp.runtime.memory import group_limit, physical_memory
from tests.model.test_field import CASES, NOISE, Case, dense_functions, dense_stiffness

INSIDE = np.random.default_rng(3).uniform(0.0, 1.0, (40, 4))
FIXED = {"noise_variance": 0.01, "optimizer": None}


@pytest.fixture(params=CASES, ids=str)
def case(request) -> Case:
    return CASES[request.param]


def along(axis, x, order):
    """Values or derivatives of a line's functions."""
    if axis.process is None:
        return np.full((len(x), 1), float(order == 0))
    k, grid = axis.degree, axis.grid
    knots = grid.lower + grid.spacing * np.arange(-k, grid.cells + k + 1)
    functions = [BSpline(knots, row, k) for row in np.eye(grid.cells + k)]
    if grid.cyclic:
        x = grid.lower + np.mod(x - grid.lower, grid.upper - grid.lower)
    out = np.stack([function(x, nu=order) for function in functions], axis=1)
    out[:, : k * grid.cyclic] += out[:, axis.count :]
    return out[:, : axis.count]


def variance_along(process, order):
    """Prior variance of a process of variance one, or of its first derivative."""
    if process is None or order == 0:
        return 1.0 if order == 0 else 0.0
    if isinstance(process, Periodic):
        rate = np.sqrt(2 * process.nu) / process.lengthscale
        z = rate * process.period * np.abs(np.arange(-99, 100))
        whole, part = {1.5: (1 + z, 1 - z), 2.5: (1 + z + z**2 / 3, (1 + z - z**2) / 3)}[process.nu]
        return rate**2 * np.sum(part * np.exp(-z)) / np.sum(whole * np.exp(-z))
    return {"Matern32": 3.0, "Matern52": 5.0 / 3.0}[type(process).__name__] / (
        process.lengthscale**2
    )


def dense_rows(case: Case, X, orders, term):
    """Weights on all functions, and the prior variance, of f, a derivative or one term."""
    points, blocks, prior = case.points(X), [], 0.0
    plan, parts = case.plan, case.kernel.components
    for number, axes in zip(plan.terms, case.plan.axes(case.kernel), strict=True):
        on = term in (None, number) and set(orders) <= set(plan.inputs)
        value, own = np.full((len(X), 1), float(on)), float(on) * parts[number].variance
        for d, axis in enumerate(axes):
            order = orders.get(plan.inputs[d], 0)
            part = along(axis, points.main[:, d], order)
            value = (value[:, :, None] * part[:, None, :]).reshape(len(X), -1)
            own *= variance_along(axis.process, order)
        blocks.append(value)
        prior += own
    for j, axis in enumerate(plan.smooth_axes(case.kernel)):
        over = parts[plan.smooths[j]].factors[0].dim
        on = float(term in (None, plan.smooths[j]) and set(orders) <= {over})
        order = orders.get(over, 0)
        blocks.append(on * along(axis, points.smooths[:, j], order))
        prior += on * parts[plan.smooths[j]].variance * variance_along(axis.process, order)
    effects = points.effects * float(term is None and not orders)
    return np.hstack([*blocks, effects]), prior, effects


def dense_answers(case: Case, X, orders, term):
    """Mean and variance by inverting dense matrices."""
    data, y, w = case.data()
    assembly = case.assembly()
    functions, stiffness = dense_functions(case, data), dense_stiffness(case, assembly)
    inverse = np.linalg.inv(functions.T @ (w[:, None] * functions) / NOISE + stiffness)
    rows, prior, effects = dense_rows(case, X, orders, term)
    mean = rows @ inverse @ functions.T @ (w * y) / NOISE
    prior = prior + effects**2 @ np.array(case.variances) if case.variances else prior
    missed = prior - np.einsum("ni,ij,nj->n", rows, np.linalg.inv(stiffness), rows)
    return mean, missed + np.einsum("ni,ij,nj->n", rows, inverse, rows)


def test_every_term_alone_is_that_of_the_dense_matrices(case):
    X = INSIDE[:, : case.columns]
    posterior = GridPosterior(case.kernel, NOISE, case.assembly())
    for term in (None, *range(len(case.kernel.components))):
        mean, variance = posterior.predict(case.points(X), component=term)
        expected = dense_answers(case, X, {}, term)
        np.testing.assert_allclose(mean[0], expected[0], atol=1e-8)
        np.testing.assert_allclose(variance, expected[1], atol=1e-8)


@pytest.mark.parametrize(
    ("name", "column"),
    [("separable", 1), ("two resolutions", 0), ("mixed", 0), ("mixed", 2), ("additive", 1)],
)
def test_derivatives_are_those_of_the_dense_matrices(name, column):
    case = CASES[name]
    X = INSIDE[:, : case.columns]
    points = case.points(X)
    points = GridPoints(points.main, points.smooths, np.zeros_like(points.effects))
    posterior = GridPosterior(case.kernel, NOISE, case.assembly())
    for term in (None, 0, len(case.kernel.components) - 1):
        mean, variance = posterior.predict(points, component=term, order={column: 1})
        expected = dense_answers(case, X, {column: 1}, term)
        np.testing.assert_allclose(mean[0], expected[0], atol=1e-6)
        np.testing.assert_allclose(variance, np.maximum(expected[1], 1e-14), atol=1e-6)


def test_rows_in_chunks_are_rows_at_once(case, monkeypatch):
    X = np.vstack([INSIDE, 2.0 * INSIDE])[:, : case.columns]
    posterior = GridPosterior(case.kernel, NOISE, case.assembly())
    term = len(case.kernel.components) - 1
    whole = [posterior.predict(case.points(X), component=t) for t in (None, term)]
    inside = posterior.predict(case.points(INSIDE[:, : case.columns]))
    monkeypatch.setattr("asvgp.posterior.grid._CHUNK", 7)
    again = [posterior.predict(case.points(X), component=t) for t in (None, term)]
    again.append(posterior.predict(case.points(INSIDE[:, : case.columns])))
    for one, other in zip([*whole, inside], again, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)


def test_a_smooth_alone_takes_its_own_columns_only():
    case = CASES["additive"]
    engine = case.assembly()
    prior, points = engine.prior(case.kernel), case.points(INSIDE[:, :3])
    rows = functionals.Functionals(engine, prior, points, component=1)
    assert rows.index.shape == (40, 4)  # the cubic's
    first = prior.smooths[0].size
    assert rows.index.min() >= first
    assert rows.index.max() < first + prior.smooths[1].size
    assert functionals.Functionals(engine, prior, points, {2: 1}).index.shape[1] == 4


def test_the_inverse_is_computed_once(case, monkeypatch):
    posterior = GridPosterior(case.kernel, NOISE, case.assembly())
    X = 1.5 * INSIDE[:, : case.columns]
    first = posterior.predict(case.points(X))[1], posterior.predict(case.points(X), component=0)[1]

    def never(*arguments):
        raise AssertionError("inverted again")

    monkeypatch.setattr(type(posterior.factored.solution.factor), "selected_inverse", never)
    if not case.plan.inputs:
        monkeypatch.setattr(type(posterior.factored.solution.factor), "inverse", never)
    again = posterior.predict(case.points(X))[1], posterior.predict(case.points(X), component=0)[1]
    np.testing.assert_array_equal(first, again)
    if case.plan.inputs:
        kept = posterior._leaf_inverse.nbytes
        assert memory.plan_need(case.plan, case.kernel).memory > kept + posterior.engine.gram.nbytes


def test_covariances_some_columns_at_a_time(case, monkeypatch):
    X = np.vstack([INSIDE[:15], 1.5 * INSIDE[15:25]])[:, : case.columns]
    posterior = GridPosterior(case.kernel, NOISE, case.assembly())
    whole = posterior.covariance(case.points(X))
    widths = []
    solve = posterior.engine.solve

    def watched(factor, right):
        widths.append(right.shape[1])
        return solve(factor, right)

    monkeypatch.setattr(posterior.engine, "solve", watched)
    monkeypatch.setattr(functionals, "joint_step", lambda points, size: 4)
    some = posterior.covariance(case.points(X))
    assert max(widths) == 4
    assert sum(widths) == len(X)
    np.testing.assert_allclose(some, whole, atol=1e-10)
    np.testing.assert_array_equal(some, some.T)
    np.testing.assert_allclose(np.diag(some), posterior.predict(case.points(X))[1], atol=1e-9)


def test_right_hand_sides_at_a_time_are_bounded():
    assert memory.joint_step(5000, 1_000_000) == 8
    assert memory.joint_step(3, 10) == 3
    beyond = memory.joint_bytes(20_000, 300_000) - 8.0 * 20_000**2
    assert beyond < 8.0 * 300_000 * 1000  # all at once: 20,000 columns
    assert memory.joint_bytes(2000, 300, 6.0) > 6 * 8 * 2000**2


def plane(n=300, columns=2):
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (n, columns))
    return X, np.sin(4 * X[:, 0]) * np.cos(3 * X[:, 1]) + 0.1 * rng.standard_normal(n)


def test_joint_covariances_that_do_not_fit_are_refused():
    X, y = plane()
    kernel = Matern32(0.5, dim=0) * Matern32(0.5, dim=1)
    gp = GPRegressor(kernel, num_basis=9, memory_limit="8 MiB", **FIXED).fit(X, y)
    assert gp.predict(X, return_cov=True)[1].shape == (300, 300)
    many = np.tile(X, (10, 1))
    said = (
        r"covariance of 3000 points needs about .* MiB, and memory_limit is 8.0 MiB. (\d+) points"
    )
    with pytest.raises(NotEnoughMemory, match=said) as error:
        gp.predict(many, return_cov=True)
    most = int(str(error.value).split("8.0 MiB. ")[1].split()[0])
    assert gp.predict(many[:most], return_cov=True)[1].shape == (most, most)
    with pytest.raises(NotEnoughMemory, match=f"of {most + 1} points"):
        gp.predict(many[: most + 1], return_cov=True)
    both = GPRegressor(kernel, num_basis=9, memory_limit="8 MiB", **FIXED).fit(X, np.c_[y, y])
    with pytest.raises(NotEnoughMemory, match=f"of {most} points"):  # repeated for the outputs
        both.predict(many[:most], return_cov=True)
    with pytest.raises(NotEnoughMemory, match="A joint sample of 900 points needs about"):
        gp.sample_y(many[:900])
    assert gp.predict(many, return_std=True)[1].shape == (3000,)


def test_covariances_along_a_line_that_do_not_fit_are_refused():
    X, y = plane()
    gp = GPRegressor(Matern32(0.5), num_basis=9, memory_limit="1 MiB", **FIXED).fit(X[:, 0], y)
    with pytest.raises(NotEnoughMemory, match="The covariance of 1000 points"):
        gp.predict(np.linspace(0, 1, 1000), return_cov=True)


def test_orders_of_derivatives_are_checked():
    X, y = plane()
    kernel = Matern52(0.5, dim=0) * Matern52(0.5, dim=1)
    gp = GPRegressor(kernel, num_basis=9, **FIXED).fit(X, y)
    with pytest.raises(ValueError, match="order along 0 must be a non-negative integer, got -1"):
        gp.predict(X, derivative={0: -1})
    with pytest.raises(TypeError, match=r"order along 0 must be a non-negative integer, got 1\.7"):
        gp.predict(X, derivative={0: 1.7})
    with pytest.raises(TypeError, match="order along 1 must be a non-negative integer, got 'x'"):
        gp.predict(X, derivative=(0, "x"))
    with pytest.raises(ValueError, match="2 is no input; they are 0, 1"):
        gp.predict(X, derivative=(0, 0, 1))
    with pytest.raises(ValueError, match="say along which"):
        gp.predict(X, derivative="lon")
    slope = gp.predict(X, derivative={1: np.int64(1)})
    np.testing.assert_array_equal(gp.predict(X, derivative=np.array([0, 1])), slope)
    np.testing.assert_array_equal(gp.predict(X, derivative={0: 0, 1: 1}), slope)
    np.testing.assert_allclose(gp.predict(X, derivative={0: 0}), gp.predict(X), atol=1e-10)


def test_unknown_inputs_of_derivatives_are_told_by_name():
    pd = pytest.importorskip("pandas")
    X, y = plane(columns=3)
    kernel = Matern32(0.5, dim="lon") * Matern32(0.5, dim="lat") + Linear("depth")
    frame = pd.DataFrame(X, columns=["lon", "lat", "depth"])
    gp = GPRegressor(kernel, num_basis=9, **FIXED).fit(frame, y)
    with pytest.raises(ValueError, match="'height' is no input; they are 'lon', 'lat', 'depth'"):
        gp.predict(frame, derivative={"height": 1})
    with pytest.raises(ValueError, match="of f along 'lat' does not exist"):
        gp.predict(frame, derivative={"lat": 2})


@pytest.mark.parametrize("outputs", [1, 2])
def test_answers_on_axes_have_the_shape_of_predictions(outputs):
    axes = np.linspace(0, 1, 12), np.linspace(0, 2, 7)
    X = np.stack([part.ravel() for part in np.meshgrid(*axes, indexing="ij")], axis=1)
    rng = np.random.default_rng(0)
    y = np.sin(4 * X[:, :1] + np.arange(outputs)) + 0.1 * rng.standard_normal((84, outputs))
    y = y if outputs > 1 else y[:, 0]
    kernel = Matern32(0.5, dim=0) * Matern32(0.5, dim=1) + Constant()
    gp = GPRegressor(kernel, num_basis=9, **FIXED).fit(X, y)
    values = y.reshape(12, 7, *y.shape[1:])
    own = values.shape
    noise = rng.uniform(0.01, 0.02, (12, 7))

    draws = gp.sample_y(axes, 3, random_state=0)
    assert draws.shape == (*own, 3)
    np.testing.assert_array_equal(
        draws.reshape(84, *draws.shape[2:]), gp.sample_y(X, 3, random_state=0)
    )
    density = gp.log_predictive_density(axes, values, noise_variance=noise)
    assert density.shape == (12, 7)
    expected = gp.log_predictive_density(X, y, noise_variance=noise.ravel())
    np.testing.assert_allclose(density.ravel(), expected, atol=1e-9)
    found, expected = gp.leave_one_out(axes, values), gp.leave_one_out(X, y)
    for name in ("mean", "std", "residual", "z", "log_density"):
        part, flat = getattr(found, name), getattr(expected, name)
        assert part.shape == (*flat.shape[:-1], 12, 7)
        np.testing.assert_allclose(part.reshape(flat.shape), flat, atol=1e-9)


def test_one_axis_is_a_line():
    x = np.linspace(0, 1, 50)
    gp = GPRegressor(Matern32(0.5), num_basis=9, **FIXED).fit(x, np.sin(5 * x))
    np.testing.assert_array_equal(
        gp.sample_y((x[:5],), 2, random_state=0), gp.sample_y(x[:5], 2, random_state=0)
    )
    left = gp.leave_one_out((x,), np.sin(5 * x))
    np.testing.assert_array_equal(left.mean, gp.leave_one_out(x, np.sin(5 * x)).mean)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_memory_is_what_control_groups_allow(tmp_path, monkeypatch):
    assert group_limit(tmp_path) == np.inf
    base = tmp_path / "sys/fs/cgroup"
    write(base / "memory.max", "max\n")
    assert group_limit(tmp_path) == np.inf
    write(tmp_path / "proc/self/cgroup", "0::/jobs/seven\n")
    write(base / "jobs/seven/memory.max", "max\n")
    write(base / "jobs/memory.max", "3000000\n")  # of a group above
    assert group_limit(tmp_path) == 3e6
    write(base / "memory.max", "2000000\n")
    assert group_limit(tmp_path) == 2e6
    first = tmp_path / "first"
    write(first / "proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/b\n")
    write(first / "sys/fs/cgroup/memory/b/memory.limit_in_bytes", "1000000\n")
    write(first / "sys/fs/cgroup/memory/a/memory.limit_in_bytes", "10\n")  # another's
    assert group_limit(first) == 1e6
    assert physical_memory() > 0.0
    monkeypatch.setattr("asvgp.runtime.memory.group_limit", lambda: 12345.0)
    assert physical_memory() == 12345.0
