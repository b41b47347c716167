"""Files are at most ten times the data's own columns, and the models in them answer the same."""

import copy
from functools import cache

import numpy as np
import pytest

import asvgp
from asvgp import SHO, Constant, GPRegressor, Linear, Matern12, Matern32, Matern52, Periodic
from asvgp.basis import Grid
from asvgp.likelihoods import Gaussian
from asvgp.model.series.engine import SeriesEngine
from asvgp.model.series.plan import Along, Around, Part, SeriesPlan
from asvgp.policies import SAVING
from asvgp.statistics import Statistics
from asvgp.statistics.points import from_points, to_points
from tests.saving.saved import same

RNG = np.random.default_rng(3)


def given(kernel, X, y):
    """Hyperparameters stay as they are: training is tested elsewhere."""
    return GPRegressor(kernel, noise_variance=0.04, optimizer=None).fit(X, y), X, y


def seasons():
    t = np.arange(700.0)
    kernel = Matern32(100.0) + Periodic(24.0, 8.0) + Periodic(168.0, 20.0) + Constant()
    return given(kernel, t, 5.0 + np.sin(t / 4) + 0.1 * RNG.standard_normal(700))


def sine():
    x = RNG.uniform(0.0, 300.0, 6000)
    return given(SHO(3.0, 1e4), x, np.sin(2 * np.pi * x / 3) + 0.2 * RNG.standard_normal(6000))


def hours():
    t = np.arange(5000.0)
    walk = np.cumsum(0.1 * RNG.standard_normal(5000))
    kernel = Matern32(50.0) + SHO(24.0, 1000.0) + SHO(4383.0, 10.0)
    return given(kernel, t, walk + np.sin(2 * np.pi * t / 24))


def drift():
    """Irregular, with a season that is a whole number of cells, and its drift."""
    t = np.sort(RNG.uniform(0.0, 1000.0, 1500))
    kernel = Matern32(200.0) + Periodic(24.0, 8.0) + Periodic(24.0, 8.0, 0.1) * Matern32(300.0)
    return given(kernel + Linear(), t, np.sin(2 * np.pi * t / 24) + 0.01 * t)


def line():
    x = RNG.uniform(0.0, 100.0, 3000)
    return given(Matern32(2.0), x, np.sin(x))


def rough():
    x = RNG.uniform(0.0, 100.0, 2000)
    return given(Matern12(0.5), x, np.sin(x))


def map_():
    X = RNG.uniform(0.0, 10.0, (5000, 2))
    return given(Matern32(2.0), X, np.sin(X[:, 0]) * np.cos(X[:, 1]))


def effects():
    X = RNG.uniform(0.0, 10.0, (2000, 3))
    kernel = Matern32(2.0, dim=0) + Linear(1) + Linear(2) + Constant()
    return given(kernel, X, 7.0 + np.sin(X[:, 0]) + X[:, 1])


def outputs():
    X = RNG.uniform(0.0, 10.0, (1500, 2))
    wave = np.sin(X.sum(axis=1))
    return given(Matern52(3.0), X, np.stack([wave, 2.0 - wave, wave**2], axis=1))


MODELS = [seasons, sine, hours, drift, line, rough, map_, effects, outputs]
each_model = pytest.mark.parametrize("case", MODELS, ids=lambda case: case.__name__)


@cache
def fitted(case):
    return case()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.asvgp"


def loaded(gp, path, **kwargs):
    gp.save(path, **kwargs)
    return asvgp.load(path)


def close(mine, theirs) -> None:
    np.testing.assert_allclose(theirs, mine, rtol=1e-10, atol=1e-11)


# ---------------------------------------------------------------- sizes and answers


@each_model
def test_a_file_is_at_most_ten_times_the_data(case, path):
    gp, X, y = fitted(case)
    gp.save(path)
    assert path.stat().st_size <= 10 * (X.nbytes + y.nbytes) + 2**16


@each_model
def test_a_small_file_answers_the_same(case, path):
    gp, X, y = fitted(case)
    small = loaded(gp, path)
    Q = np.concatenate([X[:30], X[:5] + 1.1 * np.ptp(X)])
    for kwargs in ({"return_std": True}, {"return_cov": True}):
        for mine, theirs in zip(gp.predict(Q, **kwargs), small.predict(Q, **kwargs), strict=True):
            close(mine, theirs)
    close(*(m.sample_y(Q[:5], 2, random_state=0) for m in (gp, small)))
    ends = (1.0, 4.0) if X.ndim == 1 else ((1.0, 2.0), (3.0, 4.0))
    if case is not effects:  # whose covariates an integral does not know
        integrals = (m.integrate(*ends, return_std=True) for m in (gp, small))
        for mine, theirs in zip(*integrals, strict=True):
            close(mine, theirs)
    rest = (m.leave_one_out(X[:50], y[:50]) for m in (gp, small))
    mine, theirs = (vars(each) for each in rest)
    for name in ("mean", "std"):
        close(mine[name], theirs[name])
    assert small.domain_ == gp.domain_
    assert small.num_basis_ == gp.num_basis_
    assert str(small.summary()) == str(gp.summary())


@pytest.mark.parametrize("case", [hours, drift])
def test_a_small_file_forecasts_the_same(case, path):
    gp, X, _ = fitted(case)
    later = np.max(X) + np.arange(0.5, 60.0)
    close(*(np.asarray(model.forecast(X=later)) for model in (gp, loaded(gp, path))))


@each_model
def test_a_full_file_learns_on_as_the_model_does(case, path):
    gp, X, y = fitted(case)
    full, gp, some = loaded(gp, path, full=True), copy.copy(gp), slice(0, 200)
    assert same(gp.stats_.moments, full.stats_.moments)
    for model in (gp, full):
        model.partial_fit(X[some], y[some])
    assert same(gp.predict(X[some], return_std=True), full.predict(X[some], return_std=True))


@pytest.mark.parametrize("case", [seasons, drift, line, map_, effects], ids=lambda c: c.__name__)
def test_a_small_file_learns_on_on_its_own_cells(case, path):
    """Its sums are those on the finest cells, joined: more data and other models add."""
    gp, X, y = fitted(case)
    small, some = loaded(gp, path), slice(0, 200)
    small.partial_fit(X[some], y[some])
    both = loaded(copy.copy(gp).partial_fit(X[some], y[some]), path)  # not trained, so all of it
    assert both.stats_.grids == gp.stats_.grids
    joined, own = both.stats_.on_common_cells(small.stats_)
    assert joined.grids == own.grids == small.stats_.grids
    for name in ("moments", "targets", "cross", "column_gram", "column_targets", "squares"):
        mine, theirs = getattr(joined, name), getattr(own, name)
        np.testing.assert_allclose(theirs, mine, rtol=1e-9, atol=1e-9 * np.abs(mine).max(initial=0))
    assert np.all(np.isfinite(small.predict(X[some])))
    assert loaded(gp, path).merge(gp).stats_.count == 2 * len(y)
    assert small.forget(X[some], y[some]).stats_.count == len(y)


def test_tables_that_find_no_room_are_left_out(path, monkeypatch):
    gp, X, _ = fitted(outputs)
    states = []
    for times in (1e9, 4.0, 0.0):
        monkeypatch.setattr("asvgp.estimators.persistence.SAVING", type(SAVING)(times, 0))
        states.append(loaded(gp, path))
        close(gp.predict(X[:9], return_std=True)[1], states[-1].predict(X[:9], return_std=True)[1])
        close(gp.predict(X[:9]), states[-1].predict(X[:9]))
    known = [model.posterior_._saved_inverse is not None for model in states]
    assert known == [True, False, False]


# ---------------------------------------------------------------- how it is done


@pytest.mark.parametrize("inputs", [1, 2, 3])
def test_points_tell_all_sums(inputs):
    """Of single inputs, repeated ones and crowded cells, with weights, outputs and columns."""
    rng = np.random.default_rng(inputs)
    x = rng.uniform(0.0, 1.0, (60, inputs))
    x = np.concatenate(
        [x, x[:20], np.full((9, inputs), 0.5) + 1e-3 * rng.uniform(size=(9, inputs))]
    )
    grids = [Grid(0.0, 1.0, n) for n in (40, 9, 5)[:inputs]]
    stats = Statistics.from_data(
        x,
        rng.standard_normal((89, 2)),
        grids,
        [3, 2, 2][:inputs],
        rng.uniform(0.5, 2.0, 89),
        covariates=rng.standard_normal((89, 2)),
    )
    parts = to_points(stats)
    assert parts is not None
    assert len(parts["point_cells"]) > 5
    assert len(parts["other_cells"]) > 0
    found = Statistics(**from_points(parts))
    for name in ("moments", "targets", "cross"):
        np.testing.assert_allclose(getattr(found, name), getattr(stats, name), atol=1e-12)
    again = to_points(found)
    assert again is not None
    for name, value in parts.items():
        assert same(again[name], value), name


def test_points_that_contradict_themselves_are_refused():
    stats = Statistics.from_data([0.1, 0.6], [1.0, 2.0], Grid(0.0, 1.0, 40), degree=2)
    parts = to_points(stats)
    assert parts is not None
    for name, value, match in (
        ("point_cells", np.array([1.0, 100.0]), "do not increase|cell"),
        ("point_cells", np.array([1.0, 0.0]), "do not increase"),
        ("point_cells", np.array([1.0, np.nan]), "do not increase"),
        ("point_cells", np.array([1, 2]), "int64"),
        ("point_firsts", np.zeros((2, 2)), "no weight"),
        ("point_firsts", np.ones((2, 3)), "firsts of points"),
        ("point_sums", np.ones((2, 2)), "sums of points"),
        ("other_cells", parts["point_cells"], "both"),
        ("other_moments", np.ones((1, 5)), "moments of cells"),
        ("degrees", (0,), "degrees"),
    ):
        with pytest.raises(ValueError, match=match):
            from_points(parts | {name: value})
    with pytest.raises(MemoryError, match="cells need"):
        from_points(parts | {"grids": (Grid(0.0, 1.0, 10**15),)})


def test_wider_cells_hold_the_same_functions():
    """The posterior of a plan is the same on the widest cells that hold all of its functions."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 10.0, 300)
    grid = Grid(0.0, 10.25, 82)  # of which the last wide cell is not full
    kernel = Matern32(3.0) + Periodic(2.0, 0.7) + SHO(4.0, 20.0)
    stats = Statistics.from_data(x, np.sin(x), grid, degree=9)
    parts = Part(Along(3, 3)), Part(around=Around(3, 8, 2)), Part(Along(9, 4, wave=True))
    plan = SeriesPlan(grid, 9, parts)
    assert [part.spare_levels for part in parts] == [3, 1, 2]
    fine = SeriesEngine(kernel, plan, stats)
    wide = fine.on_widest_cells()
    assert (wide.plan.grid.cells, wide.size) == (41, fine.size)
    assert wide.on_widest_cells() is wide
    mine, theirs = (engine.factor(kernel, Gaussian(0.01)) for engine in (fine, wide))
    np.testing.assert_allclose(theirs.mean, mine.mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(theirs.explained, mine.explained, rtol=1e-10)
