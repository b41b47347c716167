"""Cells of series, chosen from what they miss, and training on them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from asvgp import LBFGS, SHO, Constant, GPRegressor, Matern32
from asvgp.basis import Grid
from asvgp.kernels import Kernel, Periodic
from asvgp.likelihoods import Gaussian
from asvgp.model.bound import lower_bound
from asvgp.model.series import tables
from asvgp.model.series.engine import SeriesEngine
from asvgp.model.series.levels import noise_beside, plan_for
from asvgp.model.series.tables import SeriesTables
from asvgp.policies import SERIES
from asvgp.statistics import Statistics
from asvgp.times import Duration
from asvgp.training import schedule_series
from asvgp.training.finest_series import series_grid, wanted_cells
from asvgp.training.fit import train
from asvgp.training.problem import Problem, State
from asvgp.training.schedule_series import SeriesSchedule, window
from asvgp.training.season_notes import season_notes

DAY, WEEK, YEAR = 86400.0, 604800.0, 31557600.0


@pytest.mark.parametrize(
    ("periods", "span", "wanted"),
    [
        ([24.0], 1000.0, 1000),
        ([24.0, 168.0], 1000.0, 1000),
        ([DAY, WEEK, YEAR], 3 * YEAR, 26298),
        ([DAY, WEEK, YEAR], 30 * DAY, 720),
        ([2.5, 4.0], 100.0, 400),
        ([24.0], 20.0, 30),  # less than one period
    ],
)
def test_periods_are_whole_numbers_of_cells(periods, span, wanted):
    grid = series_grid(periods, [], 5.0, 5.0 + span, wanted)
    assert grid.lower == 5.0
    assert grid.upper > 5.0 + span  # the last input has a cell of its own
    assert grid.cells >= min(wanted, SERIES.most_finest_cells)
    for period in periods:
        cells = period / grid.spacing
        turns = max(1.0, span / period)
        assert abs(cells - round(cells)) * turns <= 2 * SERIES.period_drift * cells
        assert round(cells) >= SERIES.fewest_phases


def test_incommensurate_periods_raise():
    with pytest.raises(ValueError, match=r"periods 24, 75\.398.* no common part"):
        series_grid([24.0, 24.0 * np.pi], [], 0.0, 20000.0, 2000)
    periods = [Duration(DAY), Duration(np.sqrt(7.0) * DAY)]
    with pytest.raises(ValueError, match=r"periods 1 day, .* no common part"):
        series_grid(periods, [], 0.0, 300 * DAY, 7200)
    with pytest.raises(ValueError, match=r"period 0\.01 is too short"):
        series_grid([0.01], [], 0.0, 200.0, 200)


def test_waves_have_enough_cells():
    grid = series_grid([], [2.0], 0.0, 100.0, 50)
    assert grid.spacing <= 2.0 / SERIES.cells_per_wave
    assert series_grid([], [], 0.0, 100.0, 50).cells == 51


def test_wanted_cells_are_no_more_than_inputs():
    x = np.arange(100.0)
    assert wanted_cells(x, 0.0, 99.0, whole=True) == 99
    assert wanted_cells(np.repeat(x, 5), 0.0, 99.0, whole=True) == 99
    crowded = wanted_cells(np.append(x, x + 1e-6), 0.0, 99.0, whole=True)
    assert crowded <= SERIES.cells_per_input * 200
    assert wanted_cells(x, 0.0, 99.0, whole=False) == SERIES.most_finest_cells
    assert wanted_cells(np.ones(5), 0.0, 2.0, whole=True) == SERIES.fewest_finest_cells


# ---------------------------------------------------------------- plans

KERNEL = (
    Matern32(40.0, 0.5)
    + SHO(18.0, 50.0, 0.3)
    + Periodic(24.0, 12.0, 0.7)
    + Periodic(24.0, 9.0, 0.2) * Matern32(200.0)
    + Constant()
)
NOISE = 0.05


def statistics(count=480, noise=0.2, seed=0) -> Statistics:
    """Return those of an hourly series with a daily cycle."""
    t = np.arange(float(count))
    rng = np.random.default_rng(seed)
    y = np.sin(2 * np.pi * t / 24) + 0.2 * np.sin(t / 60) + noise * rng.standard_normal(count)
    grid = series_grid([24.0], [18.0], 0.0, count - 1.0, count - 1)
    return Statistics.from_data(t, y, grid, 9, covariates=np.ones((count, 1)))


@pytest.fixture(scope="module")
def hourly() -> Statistics:
    return statistics()


def elbo(kernel: Kernel, noise: float, stats: Statistics) -> float:
    plan = plan_for(kernel, noise, stats, 9, 1e-4)
    return lower_bound(SeriesEngine(kernel, plan, stats).factor(kernel, Gaussian(noise))).elbo


def test_a_tighter_tolerance_never_makes_cells_wider(hourly):
    plans = [plan_for(KERNEL, NOISE, hourly, 9, tolerance) for tolerance in (1.0, 0.1, 0.01, 1e-3)]
    for loose, tight in pairwise(plans):
        for one, other in zip(loose.parts, tight.parts, strict=True):
            if one.along and other.along and one.along.wave == other.along.wave:
                assert other.along.level <= one.along.level
            if one.around and other.around:
                assert other.around.count >= one.around.count
    assert plans[0] != plans[-1]


def test_cells_cost_at_most_the_tolerance(hourly):
    best = elbo(KERNEL, NOISE, hourly)
    for tolerance in (0.1, 0.01, 1e-3):
        plan = plan_for(KERNEL, NOISE, hourly, 9, tolerance)
        bound = lower_bound(SeriesEngine(KERNEL, plan, hourly).factor(KERNEL, Gaussian(NOISE)))
        assert bound.missed / (2 * NOISE) <= tolerance * hourly.count
        assert bound.elbo >= best - tolerance * hourly.count


# ---------------------------------------------------------------- stretches


def test_a_window_holds_the_sums_of_its_cells(hourly):
    stretch = window(hourly, 100)
    first = (hourly.grid.cells - 100) // 2
    x = hourly.grid.lower + (first + np.array([0, 100])) * hourly.grid.spacing
    assert (stretch.grid.lower, stretch.grid.upper) == pytest.approx(tuple(x))
    assert stretch.count == 100
    assert stretch.weight == pytest.approx(100.0)
    t = np.arange(float(hourly.count))
    inside = (t >= x[0]) & (t < x[1])
    y = hourly.targets[0, :, 0][np.flatnonzero(hourly.cell_weights)]
    assert stretch.squares[0] == pytest.approx(np.sum(y[inside] ** 2))
    assert stretch.linear == 0


def test_a_window_has_its_share_of_the_scatter_within_cells():
    rng = np.random.default_rng(0)
    t, y = rng.uniform(0.0, 100.0, 4000), rng.standard_normal(4000)
    stretch = window(Statistics.from_data(t, y, Grid(0.0, 100.0, 100), 3), 40)
    assert stretch.count == pytest.approx(1600, rel=0.1)
    assert stretch.squares[0] == pytest.approx(stretch.weight, rel=0.1)


def test_a_window_avoids_gaps():
    t = np.concatenate([np.arange(0.0, 120.0), np.arange(280.0, 400.0)])
    stretch = window(Statistics.from_data(t, np.sin(t), Grid(0.0, 400.0, 400), 3), 100)
    assert stretch.count == 100
    assert stretch.grid.lower in (20.0, 280.0)


# ---------------------------------------------------------------- training


def problem(kernel: Kernel, **changes) -> Problem:
    return replace(Problem(kernel, Gaussian(), 3, "elbo", LBFGS()), **changes)


@pytest.mark.parametrize("auto", [True, False], ids=["at the inputs", "on cells"])
def test_a_daily_cycle_is_found(hourly, auto):
    kernel = Matern32() + Periodic(24.0) + Constant()
    schedule = SeriesSchedule(problem(kernel), hourly, auto)
    trained = train(schedule)
    true = Matern32(60.0, 0.02) + Periodic(24.0, 20.0, 0.5) + Constant()
    assert trained.bound.elbo >= elbo(true, 0.04, hourly)
    assert trained.state.noise == pytest.approx(0.04, rel=0.2)
    season = trained.state.kernel.components[1]
    assert season.variance > 0.1
    assert schedule.levels
    assert schedule.levels[-1].elbo == trained.bound.elbo


def test_a_long_series_is_explored_on_a_stretch(hourly, monkeypatch):
    stats, kernel = hourly, Matern32() + Periodic(24.0) + Constant()
    short = replace(SERIES, window_inputs=(200,), cheap_functions=0)  # by which it is long
    monkeypatch.setattr("asvgp.training.schedule_series.SERIES", short)
    schedule = SeriesSchedule(problem(kernel), stats, auto=False)
    trained = train(schedule)
    assert schedule._explored is not None
    assert schedule._explored.kernel.components[1].variance > 0.1  # the cycle is found on it
    true = Matern32(60.0, 0.02) + Periodic(24.0, 20.0, 0.5) + Constant()
    assert trained.bound.elbo >= elbo(true, 0.04, stats) - 0.004 * stats.count
    assert trained.state.noise == pytest.approx(0.04, rel=0.2)
    # a warm start is where training goes on from, and it ends nearby
    again = train(SeriesSchedule(problem(kernel), stats, auto=False), warm=trained.state)
    assert again.bound.elbo == pytest.approx(trained.bound.elbo, abs=0.004 * stats.count)
    assert again.report.evaluations < trained.report.evaluations


def test_without_training_hyperparameters_stay(hourly):
    kernel, given = KERNEL, problem(KERNEL, likelihood=Gaussian(NOISE), from_user=True)
    trained = train(SeriesSchedule(given, hourly, auto=False), trained=False)
    assert trained.state == State(kernel, Gaussian(NOISE))
    fine = plan_for(kernel, NOISE, hourly, 9, SERIES.tolerances[-1])
    assert isinstance(trained.engine, SeriesEngine)
    assert trained.engine.plan == fine


@pytest.mark.parametrize("quiet", ["a gap", "a constant"])
def test_series_with_a_silent_middle(quiet):
    t = np.arange(3000.0)
    y = np.sin(2 * np.pi * t / 24) + 0.1 * np.random.default_rng(0).standard_normal(3000)
    silent = (t > 800) & (t < 2200)
    if quiet == "a gap":
        t, y = t[~silent], y[~silent]
    else:
        y[silent] = 0.0
    gp = GPRegressor(Matern32() + Periodic(24.0) + Constant()).fit(t, y)
    mean, std = gp.predict([10.0, 2990.0], return_std=True)
    np.testing.assert_allclose(mean, np.sin(2 * np.pi * np.array([10.0, 2990.0]) / 24), atol=0.5)
    assert np.isfinite(std).all()


@pytest.mark.parametrize(
    ("kernel", "step", "message"),
    [
        (Periodic(500.0), 1.0, "period 500, but the data span 200"),
        (Periodic(1.5), 1.0, "period 1.5, less than two steps of 1 between"),
        (Periodic(24.0) + Periodic(24.0), 1.0, "component 2 has the period 24, like component 1"),
        (Matern32() + Periodic(24.0) + Periodic(24.0) * Matern32(), 1.0, None),
        (Periodic(2.0), 1.0, None),
        (Periodic(200.0), 1.0, None),
        (Periodic(4.0), 20.0, "10 observations are too few"),
        (Matern32() + SHO(500.0, 5.0), 1.0, "component 2 has the period 500, but the data span"),
        (Matern32() + SHO(500.0, 5.0, fixed=("period",)), 1.0, None),
        (Matern32() + SHO(500.0, 0.7), 1.0, None),
        (SHO(1.5, 5.0), 1.0, "period 1.5, less than two steps of 1 between"),
        (SHO(24.0, 100.0) + Periodic(24.01), 1.0, "period 24.01, like component 1"),
        (SHO(24.0, 100.0) + Periodic(25.0), 1.0, None),
        (SHO(24.0, 3.0) + Periodic(24.0), 1.0, None),
    ],
    ids=str,
)
def test_notes_on_seasons(kernel, step, message):
    t = np.arange(0.0, 200.0, step)
    stats = Statistics.from_data(t, np.sin(t), series_grid([24.0], [], 0.0, 199.0, 199), 3)
    notes = season_notes(kernel, stats)
    if message is None:
        assert notes == []
    else:
        assert any(message in note for note in notes)


# ---------------------------------------------------------------- dense series


def test_a_season_lasts_half_its_period_unless_a_shorter_life_is_given():
    """Rough noise would make a drift of it, with functions for all phases on every cell."""
    rng, t = np.random.default_rng(2), np.arange(1500.0)
    y = np.convolve(rng.standard_normal(1502), [0.3, 1.0, 0.3], "valid")
    drift = Periodic(48.0) * Matern32()
    for kernel, least in ((drift, 24.0), (Periodic(48.0) * Matern32(5.0), 5.0)):
        gp = GPRegressor(kernel).fit(t, y)
        assert gp.kernel_.factors[1].lengthscale == pytest.approx(least, rel=1e-6)


def test_what_finest_cells_miss_is_noise_to_other_components(hourly):
    """A component with a lengthscale of a fraction of a cell is noise to splines."""
    assert noise_beside(KERNEL, NOISE, hourly) == NOISE
    rough = Matern32(0.05, 3.0) + Periodic(24.0, 12.0, 0.7) * Matern32(200.0)
    tiny = 1e-9
    noise = noise_beside(rough, tiny, hourly)
    assert 1.0 < noise <= 3.0
    spared = SeriesTables(rough, plan_for(rough, noise, hourly, 9, 0.01))
    wasted = SeriesTables(rough, plan_for(rough, tiny, hourly, 9, 0.01))
    assert spared.size < 0.5 * wasted.size


@pytest.mark.parametrize("policy", [{"most_leaf_bytes": 2e6}, {"most_drift_flops": 1e7}])
def test_seasons_drift_with_fewer_phases_where_they_cost_too_much(policy, hourly, monkeypatch):
    state = State(KERNEL, Gaussian(1e-6))

    def phases(auto: bool) -> int:
        around = SeriesSchedule(problem(KERNEL), hourly, auto=auto)._plan(state).parts[3].around
        assert around is not None
        return around.count

    free = phases(auto=True)
    for name, value in policy.items():
        monkeypatch.setattr(schedule_series, "SERIES", replace(SERIES, **{name: value}))
    assert phases(auto=True) < free <= phases(auto=False)  # the latter has no limit


def test_larger_leaves_take_less_memory_and_give_the_same_bound(monkeypatch):
    stats, kernel = statistics(1200), KERNEL
    plan = plan_for(kernel, NOISE, stats, 9, 1e-3)
    small = SeriesEngine(kernel, plan, stats)
    bound = lower_bound(small.factor(kernel, Gaussian(NOISE))).elbo
    taken = small.tables.leaf_bytes
    monkeypatch.setattr(tables, "SERIES", replace(SERIES, leaf_bytes=0.0, leaf_functions=8))
    large = SeriesEngine(kernel, plan, stats)
    assert large.tables.leaf_bytes < taken
    assert len(large.tables.edges) < len(small.tables.edges)
    assert lower_bound(large.factor(kernel, Gaussian(NOISE))).elbo == pytest.approx(bound, abs=1e-6)
