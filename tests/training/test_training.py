"""Training: starting values, L-BFGS, limits, interrupts, resolution."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import minimize

from asvgp import LBFGS, SHO, GPRegressor, Matern12, Matern32, Matern52, Matern72
from asvgp.basis import Grid
from asvgp.kernels import Kernel
from asvgp.kernels.algebra import Sum
from asvgp.likelihoods import Gaussian
from asvgp.model import elimination
from asvgp.model.chain import ChainEngine
from asvgp.policies import DATA, LINE
from asvgp.statistics import Statistics
from asvgp.training import fit, objective, schedule_line
from asvgp.training.finest import finest_cells
from asvgp.training.objective import Objective
from asvgp.training.optimise import Report, maximise
from asvgp.training.problem import Problem, State
from asvgp.training.schedule_line import LineSchedule, line_limits
from asvgp.training.starts import noise_estimate, signal_power, spectral_peaks
from tests.dense import ExactGP, sample
from tests.engines import lower_bound, upper_bound


def train(problem: Problem, stats: Statistics) -> tuple[tuple[Kernel, float], Report]:
    """Train on one grid, from coarse ones."""
    trained = fit.train(LineSchedule(problem, stats, auto=False))
    return (trained.state.kernel, trained.state.noise), trained.report


def choose(problem: Problem, stats: Statistics) -> fit.Trained:
    """Train from coarse to fine until it stops paying."""
    return fit.train(LineSchedule(problem, stats, auto=True))


def simulate(kernel, noise, n, span, cells, seed=0):
    """A draw from the model at regular times, through the Markov chain of the exact process."""
    rng = np.random.default_rng(seed)
    x = np.linspace(0.0, span, n)
    process = kernel.markov()
    size = len(process.operator) - 1
    matrix = np.eye(size, k=1)
    matrix[-1] = -process.operator[:-1]
    forward = expm(matrix * (x[1] - x[0]))
    values, vectors = np.linalg.eigh(process.covariance - forward @ process.covariance @ forward.T)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    state = np.linalg.cholesky(process.covariance) @ rng.standard_normal(size)
    f = np.empty(n)
    for i in range(n):
        f[i] = state[0]
        state = forward @ state + root @ rng.standard_normal(size)
    y = f + np.sqrt(noise) * rng.standard_normal(n)
    return Statistics.from_data(x, y, Grid(0.0, span, cells), kernel.order + 1)


@pytest.mark.parametrize(
    "truth", [Matern12(20.0, 3.0), Matern32(1.5, 3.0), Matern52(2.0, 0.5), SHO(3.0, 8.0, 2.0)]
)
def test_recovers_the_hyperparameters_without_being_told(truth):
    """Better than the truth, and by no more than a likelihood ratio of chance allows."""
    noise, degree = 0.1, truth.order + 1
    stats = simulate(truth, noise, 6000, 600.0, 6000)
    start = type(truth)()  # all ones
    state, report = train(Problem(start, Gaussian(), degree, "evidence", LBFGS()), stats)
    assert report.converged
    gain = report.objective - lower_bound(truth, noise, stats, degree, "evidence").fit
    assert 0.0 <= gain < 10.0
    assert state[1] == pytest.approx(noise, rel=0.15)
    np.testing.assert_allclose(np.log(state[0].values), np.log(truth.values), atol=0.7)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e9])
def test_units_do_not_matter(unit):
    """Scaling x and y scales the result, and nothing else."""
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 50, 2000)
    y = np.sin(x) + 0.2 * rng.standard_normal(2000)
    plain = Statistics.from_data(x, y, Grid(0.0, 50.0, 500), 2)
    scaled = Statistics.from_data(unit * x, y / unit, Grid(0.0, unit * 50.0, 500), 2)
    (a, noise_a), _ = train(
        Problem(Matern32(1.0, 1.0), Gaussian(), 2, "elbo", LBFGS(tolerance=1e-6)), plain
    )
    (b, noise_b), _ = train(
        Problem(Matern32(unit, unit**-2), Gaussian(), 2, "elbo", LBFGS(tolerance=1e-6)), scaled
    )
    assert b.lengthscale / unit == pytest.approx(a.lengthscale, rel=1e-3)
    assert b.variance * unit**2 == pytest.approx(a.variance, rel=1e-3)
    assert noise_b * unit**2 == pytest.approx(noise_a, rel=1e-3)


def test_the_optimum_is_stationary_and_beats_its_neighbours():
    rng = np.random.default_rng(2)
    x = rng.uniform(0, 20, 3000)
    y = np.sin(x) + np.cos(3 * x) + 0.3 * rng.standard_normal(3000)
    stats = Statistics.from_data(x, y, Grid(0.0, 20.0, 200), 2)
    (kernel, noise), report = train(
        Problem(Matern32(), Gaussian(), 2, "elbo", LBFGS(tolerance=1e-8)), stats
    )
    best = lower_bound(kernel, noise, stats, 2)
    assert report.objective == pytest.approx(best.elbo)
    assert np.abs(best.gradient).max() < 0.05
    for name in kernel.parameters:
        for factor in (0.9, 1.1):
            other = kernel.replace(**{name: factor * getattr(kernel, name)})
            assert lower_bound(other, noise, stats, 2).elbo < best.elbo


def test_agrees_with_the_exact_maximum_likelihood():
    """Many basis functions: the bound's optimum is the exact evidence's."""
    truth = Matern32(0.4, 1.0)
    x, y = sample(truth, 0.05, 80, 3.0, seed=3)

    def negative(theta):
        length, variance, noise = np.exp(theta)
        return -ExactGP(Matern32(length, variance), noise, x, y).evidence()

    exact = minimize(negative, np.log([0.4, 1.0, 0.05]), method="L-BFGS-B")
    stats = Statistics.from_data(x, y, Grid(0.0, 3.0, 1000), 3)
    (kernel, noise), _ = train(
        Problem(Matern32(), Gaussian(), 3, "elbo", LBFGS(tolerance=1e-8)), stats
    )
    np.testing.assert_allclose(np.log([*kernel.values, noise]), exact.x, atol=0.01)


def test_fixed_and_bounded_hyperparameters_are_respected():
    rng = np.random.default_rng(4)
    x = rng.uniform(0, 20, 1000)
    y = 3 * np.sin(x) + 0.1 * rng.standard_normal(1000)
    stats = Statistics.from_data(x, y, Grid(0.0, 20.0, 100), 2)
    kernel = Matern32(2.0, 1.0, fixed="variance", bounds={"lengthscale": (0.5, 2.5)})
    (found, _), report = train(Problem(kernel, Gaussian(), 2, "elbo", LBFGS()), stats)
    assert found.variance == 1.0
    assert 0.5 <= found.lengthscale <= 2.5
    tight = Matern32(0.2, 1.0, bounds={"lengthscale": (0.1, 0.3)})
    (found, _), report = train(Problem(tight, Gaussian(), 2, "elbo", LBFGS()), stats)
    assert found.lengthscale == pytest.approx(0.3)
    assert report.at_bounds == ["lengthscale"]
    assert "at a bound: lengthscale" in str(report)


def test_everything_fixed_but_the_noise():
    rng = np.random.default_rng(5)
    x = rng.uniform(0, 20, 1000)
    y = np.sin(x) + 0.1 * rng.standard_normal(1000)
    stats = Statistics.from_data(x, y, Grid(0.0, 20.0, 100), 2)
    kernel = Matern32(2.0, 1.0, fixed=("lengthscale", "variance"))
    (found, noise), _ = train(Problem(kernel, Gaussian(), 2, "elbo", LBFGS()), stats)
    assert found == kernel
    assert noise == pytest.approx(0.01, rel=0.2)


def test_ctrl_c_keeps_the_best_state(monkeypatch):
    rng = np.random.default_rng(6)
    x = rng.uniform(0, 20, 1000)
    y = np.sin(x) + 0.1 * rng.standard_normal(1000)
    stats = Statistics.from_data(x, y, Grid(0.0, 20.0, 100), 2)
    calls = []
    real = objective.lower_bound

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 25:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(objective, "lower_bound", interrupted)
    (kernel, noise), report = train(
        Problem(Matern32(), Gaussian(), 2, "elbo", LBFGS(tolerance=1e-12)), stats
    )
    assert not report.converged
    assert "interrupted" in report.message
    assert report.objective == pytest.approx(lower_bound(kernel, noise, stats, 2).elbo)
    values = [real(*arguments).elbo for arguments in calls[:-1]]
    assert report.objective == pytest.approx(max(values))


def test_iteration_limit_is_reported():
    rng = np.random.default_rng(7)
    x = rng.uniform(0, 20, 1000)
    stats = Statistics.from_data(x, np.sin(x) + rng.standard_normal(1000), Grid(0.0, 20.0, 50), 2)
    problem = Problem(Matern32(), Gaussian(), 2, "elbo", LBFGS())
    engine = ChainEngine(problem.kernel, stats, 2)
    target = Objective(problem, [engine], line_limits(problem, stats, stats))
    start = State(Matern32(5.0, 9.0), Gaussian(9.0))
    report = maximise(target, start, LBFGS(max_iterations=1))
    assert not report.converged
    assert "raise LBFGS(max_iterations=...)" in report.message
    assert report.objective >= target.trace[0]


def test_restarts_never_hurt():
    rng = np.random.default_rng(8)
    x = rng.uniform(0, 20, 400)
    y = np.sin(x) + 0.5 * np.sin(17 * x) + 0.2 * rng.standard_normal(400)
    stats = Statistics.from_data(x, y, Grid(0.0, 20.0, 300), 2)
    _, once = train(Problem(Matern32(), Gaussian(), 2, "elbo", LBFGS()), stats)
    _, more = train(Problem(Matern32(), Gaussian(), 2, "elbo", LBFGS(restarts=4)), stats)
    assert more.objective >= once.objective - 1e-9
    assert more.evaluations > once.evaluations


@pytest.mark.parametrize("cells", [10, 500, 20_000])
def test_starting_values_see_signal_and_noise(cells):
    rng = np.random.default_rng(9)
    n = 5000
    x = rng.uniform(0, 100, n)
    y = 2.0 * np.sin(2 * np.pi * x / 25.0) + 0.3 * rng.standard_normal(n)
    stats = Statistics.from_data(x, y, Grid(0.0, 100.0, cells), 2)
    assert signal_power(stats) == pytest.approx(2.09, rel=0.05)
    if cells > 10:
        assert noise_estimate(stats) == pytest.approx(0.09, rel=0.5)
        assert spectral_peaks(stats)[0] == pytest.approx(25.0, rel=0.05)


def test_resolution_follows_the_data():
    rng = np.random.default_rng(10)
    n = 40_000
    x = rng.uniform(0, 1, n)
    noise = 0.1 * rng.standard_normal(n)
    chosen = {}
    for name, f in {"smooth": np.sin(6 * x), "rough": np.sin(2000 * x)}.items():
        stats = Statistics.from_data(x, f + noise, Grid(0.0, 1.0, 65536), 2)
        choice = choose(Problem(Matern32(), Gaussian(), 2, "elbo", LBFGS()), stats)
        chosen[name] = choice.engine.statistics.grid.cells
        full, _ = train(Problem(Matern32(), Gaussian(), 2, "elbo", LBFGS()), stats)
        best = lower_bound(*full, stats, 2).elbo
        assert best - choice.report.objective < 0.01 * n
    assert chosen["smooth"] <= 1024
    assert chosen["rough"] >= 4 * chosen["smooth"]


def test_white_noise_needs_no_resolution():
    rng = np.random.default_rng(11)
    n = 20_000
    stats = Statistics.from_data(
        rng.uniform(0, 1, n), rng.standard_normal(n), Grid(0.0, 1.0, 65536), 2
    )
    choice = choose(Problem(Matern32(), Gaussian(), 2, "elbo", LBFGS()), stats)
    assert choice.engine.statistics.grid.cells <= 2048
    assert choice.state.noise == pytest.approx(1.0, rel=0.05)


def test_the_finest_grid_follows_the_gaps_not_the_count():
    rng = np.random.default_rng(12)
    even = finest_cells(rng.uniform(0, 1, 50_000), 0.0, 1.0)
    assert 100_000 <= even <= LINE.most_finest_cells_in_memory[0]
    assert finest_cells(rng.uniform(0, 1, 50_000), 0.0, 1.0, raised=True) == even // 2
    assert finest_cells(np.array([0.0, 0.5, 1.0]), 0.0, 1.0) == LINE.fewest_finest_cells
    clusters = np.concatenate([rng.uniform(0, 10, 200), rng.uniform(1e5, 1e5 + 10, 200)])
    ends = clusters.min(), clusters.max()
    assert finest_cells(clusters, *ends) == LINE.most_finest_cells
    assert (
        finest_cells(np.tile(clusters, 400), clusters.min(), clusters.max())
        == LINE.most_finest_cells_in_memory[0]
    )
    assert finest_cells(np.empty(DATA.many_rows + 1), 0.0, 1.0) == LINE.most_finest_cells


def test_a_grid_of_many_cells_keeps_them_when_it_grows():
    rng = np.random.default_rng(13)
    x = rng.uniform(0, 1, 60_000)
    gp = GPRegressor(Matern12()).partial_fit(x, np.sin(9 * x))
    cells = gp.stats_.grid.cells
    assert cells > LINE.most_finest_cells
    gp.partial_fit([1.01], [0.0])
    assert gp.stats_.grid.cells >= cells


def test_cells_are_not_doubled_where_training_would_take_too_long(monkeypatch):
    """A step without noise gains by every doubling; a note says where the resolution ended."""
    x = np.linspace(0.0, 1.0, 400)
    fits = []
    for work in (LINE.most_work, 1e4):
        monkeypatch.setattr(
            schedule_line, "LINE", replace(LINE, most_work=work, work_per_row=250.0)
        )
        with pytest.warns(UserWarning, match="although the last doubling gained") as caught:
            fits.append((GPRegressor(Matern12(), objective="elbo").fit(x, np.round(x)), caught))
    (whole, finest), (short, costly) = fits
    assert whole.num_basis_ == LINE.fewest_finest_cells + 1
    assert "give a larger num_basis for a finer fit" in str(finest[0].message)
    assert short.num_basis_ == LINE.fewest_finest_cells // 2 + 1
    reason = f"a finer grid would take too long: num_basis={whole.num_basis_} asks for one"
    assert reason in str(costly[0].message)


def stopped_by_cost(kernel, x, y, **changes):
    """Return the number of basis functions, and whether a note says that time was the reason."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        patch.setattr(schedule_line, "LINE", replace(LINE, **changes))
        gp = GPRegressor(kernel, objective="elbo").fit(x, y)
    notes = [str(note.message) for note in caught]
    assert len(notes) <= 1
    return gp.num_basis_, any("finer grid would take too long" in note for note in notes)


def test_a_resolution_that_ends_by_its_cost_says_so():
    """Even where the last doubling gained little, or where there was none yet."""
    x = np.linspace(0.0, 10.0, 300)
    y = np.sin(x) + 0.1 * np.random.default_rng(0).standard_normal(300)
    settled, noted = stopped_by_cost(Matern32(), x, y)
    assert not noted
    for work in (0.0, 1e3, 1e4):
        size, noted = stopped_by_cost(Matern32(), x, y, most_work=work, work_per_row=0.0)
        assert noted == (size < settled)
    assert stopped_by_cost(Matern32(), x, y, most_work=0.0, work_per_row=0.0)[1]


def test_square_roots_count_as_more_work(monkeypatch):
    """Where P is factored by them, the same budget ends at coarser grids; elsewhere it does not."""
    x = np.linspace(0.0, 10.0, 300)
    y = np.sin(x) + 0.1 * np.random.default_rng(0).standard_normal(300)

    def reached():
        times = [stopped_by_cost(Matern32(), x, y, work_of_roots=t) for t in (1.0, 1e9)]
        return times[0], times[1]

    plain, dear = reached()
    assert plain == dear
    never = replace(LINE, certain_information=0.0, hopeless_information=0.0)
    monkeypatch.setattr(elimination, "LINE", never)
    cheap, dear = reached()
    assert not cheap[1]
    assert dear[1]
    assert dear[0] < cheap[0]


def test_what_splines_miss_of_a_rough_field_is_not_taken_for_noise():
    """Hardly any noise, and a lengthscale of a gap or two: a few cells a gap are too few."""
    n, truth, noise = 1500, Matern32(1.5, 1.0), 0.004
    x, y = sample(truth, noise, n, span=n)
    gp = GPRegressor(Matern32(), progress=False).fit(x, y)
    assert gp.noise_variance_ == pytest.approx(noise, rel=0.5)
    assert ExactGP(truth, noise, x, y).evidence() - gp.elbo_ < 0.01 * n


@pytest.mark.parametrize("kernel", [Matern32(), Matern52(), Matern72()])
def test_data_without_noise_keep_the_bound_a_bound(kernel):
    """Nothing to stop the variance over the noise from growing: rounding must not win."""
    x = np.random.default_rng(0).uniform(0, 10, 200)
    degree = kernel.order + 1
    for y in (x, x**2 - 3 * x, np.exp(-x)):
        stats = Statistics.from_data(x, y, Grid(0.0, 10.0, 512), degree)
        (found, noise), report = train(Problem(kernel, Gaussian(), degree, "elbo", LBFGS()), stats)
        assert report.objective <= -100 * np.log(2 * np.pi * noise)
        assert report.objective <= upper_bound(found, noise, stats, degree) + 1e-3 * 200


def test_a_slow_trend_does_not_hide_the_season():
    """The optimum that takes the season for noise is left for the better one."""
    rng = np.random.default_rng(1)
    t = np.sort(rng.uniform(0, 40, 2000))
    y = 300 + 0.1 * t**2 + 3 * np.sin(2 * np.pi * t) + 0.3 * rng.standard_normal(2000)
    stats = Statistics.from_data(t, y, Grid(0.0, 40.0, 1000), 3)
    (_, noise), _ = train(Problem(Matern52(), Gaussian(), 3, "elbo", LBFGS()), stats)
    assert noise < 0.2  # the season's variance is 4.5


@pytest.mark.parametrize("weight", [1e-12, 1e-3, 1e6, 1e12])
def test_equal_weights_only_rescale_the_noise(weight):
    rng = np.random.default_rng(2)
    x = rng.uniform(0, 20, 500)
    y = np.sin(x) + 0.2 * rng.standard_normal(500)
    grid = Grid(0.0, 20.0, 100)
    plain = Statistics.from_data(x, y, grid, 2)
    weighted = Statistics.from_data(x, y, grid, 2, np.full(500, weight))
    problem = Problem(Matern32(), Gaussian(), 2, "elbo", LBFGS(tolerance=1e-6))
    (a, noise_a), _ = train(problem, plain)
    (b, noise_b), _ = train(problem, weighted)
    np.testing.assert_allclose(b.values, a.values, rtol=1e-3)
    assert noise_b / weight == pytest.approx(noise_a, rel=1e-3)


def test_ctrl_c_stops_all_levels(monkeypatch):
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 20, 3000)
    y = np.sin(x) + 0.1 * rng.standard_normal(3000)
    stats = Statistics.from_data(x, y, Grid(0.0, 20.0, 4096), 2)
    real, cells = objective.lower_bound, []

    def interrupted(factored, *others):
        cells.append(factored.engine.statistics.grid.cells)
        if len(cells) == 25:
            raise KeyboardInterrupt
        return real(factored, *others)

    monkeypatch.setattr(objective, "lower_bound", interrupted)
    _, report = train(Problem(Matern32(), Gaussian(), 2, "elbo", LBFGS(tolerance=1e-12)), stats)
    assert report.interrupted
    assert len(cells) == 25
    assert set(cells) == {512}


@pytest.mark.filterwarnings("ignore:y has a mean of 40000")
@pytest.mark.parametrize(
    ("objective", "offset"), [("elbo", 4e4), ("evidence", 4e4), ("evidence", 0.0)]
)
def test_tight_clusters_are_not_refined_for_nothing(objective, offset):
    """Where y is all but noiseless it varies within cells, but splines that bend explain that."""
    rng = np.random.default_rng(4)
    x = rng.choice([0.0, 0.3, 0.31, 1.0], 1000) + 1e-6 * rng.standard_normal(1000)
    y = offset + np.sin(20.0 * x) + 1e-7 * rng.standard_normal(1000)
    gp = GPRegressor(Matern32(), objective=objective).fit(x, y)
    assert len(gp.resolution_) < 6  # of the twelve that there are
    assert np.abs(gp.predict(x) - y).max() < 1e-3


def test_lengths_at_their_greatest_are_not_at_their_least():
    """Nor are those at a bound of the user's: finer knots would change neither."""
    rng = np.random.default_rng(5)
    x = rng.uniform(0.0, 1.0, 300)
    y = np.sin(20.0 * x) + 0.01 * rng.standard_normal(300)
    low, high = ({"lengthscale": pair} for pair in ((10.0, 20.0), (0.001, 0.01)))
    for kernel in (Matern32(10.0, bounds=low), Matern32(0.01, bounds=high)):
        gp = GPRegressor(kernel, objective="evidence").fit(x, y)
        assert gp.optimization_.at_bounds[0] == "lengthscale"
        assert not any("ended at the least" in note for note in gp.optimization_.notes)
        assert gp.resolution_[-1].spacing > gp.stats_.grid.spacing


def test_structure_that_only_fine_cells_show_is_not_missed():
    """A fast wave whose coarse averages vanish: the bound alone would stop too early."""
    x = np.random.default_rng(4).uniform(0, 1, 60_000)
    y = np.sin(2 * np.pi * 4096 * x) + 0.1 * np.random.default_rng(5).standard_normal(60_000)
    stats = Statistics.from_data(x, y, Grid(0.0, 1.0, 65536), 2)
    choice = choose(Problem(Matern32(), Gaussian(), 2, "elbo", LBFGS()), stats)
    assert choice.state.noise < 0.05


@pytest.mark.filterwarnings("ignore:Component 1, Matern12.*next to no variance")
@pytest.mark.parametrize("kernel", [Matern12() + SHO(period=24.0), Matern32() + Matern32()])
def test_sums_do_not_take_for_noise_what_coarse_cells_do_not_show(kernel):
    """A cycle far shorter than the first cells, in one of two terms."""
    rng = np.random.default_rng(7)
    x = rng.uniform(0, 12_000, 3000)
    y = (1.0 + 0.5 * np.sin(x / 700)) * np.sin(2 * np.pi * x / 24.0)
    y += 0.3 * rng.standard_normal(3000)
    alone = GPRegressor(kernel.components[1]).fit(x, y)
    both = GPRegressor(kernel).fit(x, y)
    assert both.noise_variance_ < 0.15
    assert both.elbo_ > alone.elbo_ - 0.02 * len(x)


def test_sums_are_tried_with_one_component_alone():
    kernel = Matern12() + SHO(period=24.0)
    assert isinstance(kernel, Sum)
    options = kernel.candidates([3.0, 30.0], [5.0], 2.0)
    main = [part for option in options for part in option.parts if part.variance == 1.8]
    assert {type(part) for part in main} == {Matern12, SHO}
    assert [part.period for part in main if isinstance(part, SHO)] == [24.0]  # it was given
    assert {part.lengthscale for part in main if isinstance(part, Matern12)} == {3.0, 30.0}
    assert all(option.prior_variance <= 2.0 * (1.0 + 1e-12) for option in options)
