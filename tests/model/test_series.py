"""Functions of oscillators, seasons and drifts, and the engine of series, beside dense matrices."""

from __future__ import annotations

import numpy as np
import pytest

from asvgp import SHO, Constant, Matern32
from asvgp.basis import Grid
from asvgp.kernels import Matern12, Matern52, Periodic
from asvgp.likelihoods import Gaussian
from asvgp.model.bound import lower_bound, upper_bound
from asvgp.model.circle import CircleAxis
from asvgp.model.moments import CellMoments
from asvgp.model.series.engine import SeriesEngine
from asvgp.model.series.plan import Along, Around, Part, SeriesPlan
from asvgp.model.series.tables import SeriesTables
from asvgp.model.series.terms import terms_of
from asvgp.model.series.wave import WaveAxis, cell_functions
from asvgp.statistics import Statistics

GRID = Grid(0.0, 12.0, 48)
X = np.sort(np.random.default_rng(1).uniform(0.0, 12.0, 200))


def powers(degree: int) -> np.ndarray:
    """Return powers of s at the inputs, (inputs, degree + 1)."""
    return GRID.locate(X)[1][:, None] ** np.arange(degree + 1)


def moments(degree: int) -> CellMoments:
    out = np.zeros((GRID.cells, 2 * degree + 1))
    np.add.at(out, GRID.locate(X)[0], powers(2 * degree))
    return CellMoments(out)


class Wave:
    """The functions of an oscillator as dense matrices."""

    degree, level = 9, 3

    def axis(self, values) -> WaveAxis:
        return WaveAxis(SHO(*values), GRID, self.degree, self.level)

    def matrix(self, axis: WaveAxis) -> np.ndarray:
        out = np.zeros((axis.count, axis.count))
        for cell, numbers in enumerate(axis.numbers):
            out[np.ix_(numbers, numbers)] += axis.element + (axis.boundary if cell == 0 else 0.0)
        return out

    def functions(self, axis: WaveAxis) -> np.ndarray:
        out, s, width = np.zeros((len(X), axis.count)), powers(self.degree), 2**self.level
        for i, cell in enumerate(GRID.locate(X)[0]):
            out[i, axis.numbers[cell // width]] += axis.parts[cell % width] @ s[i]
        return out


class Circle:
    """Cyclic splines as dense matrices."""

    degree, width, count = 3, 2, 10

    def axis(self, values) -> CircleAxis:
        period = self.count * self.width * GRID.spacing
        return CircleAxis(Periodic(period, *values), GRID, self.degree, self.count, self.width)

    def matrix(self, axis: CircleAxis) -> np.ndarray:
        out = np.zeros((axis.count, axis.count))
        for numbers in axis.numbers:
            np.add.at(out, np.ix_(numbers, numbers), axis.element)
        return out

    def functions(self, axis: CircleAxis) -> np.ndarray:
        out, s = np.zeros((len(X), axis.count)), powers(self.degree)
        for i, cell in enumerate(GRID.locate(X)[0]):
            numbers = axis.numbers[cell // self.width % self.count]
            out[i, numbers] += axis.parts[cell % self.width] @ s[i]
        return out


AXES = {
    "wave of many periods": (Wave(), (2.0, 50.0)),
    "short wave": (Wave(), (4.0, 0.9)),
    "circle": (Circle(), (1.3,)),
}


@pytest.mark.parametrize("name", AXES)
def test_log_determinants_and_traces_are_those_of_dense_matrices(name):
    case, values = AXES[name]
    axis = case.axis(values)
    matrix, functions = case.matrix(axis), case.functions(axis)
    scale = 1.0 / np.sqrt(np.diag(matrix))
    explained = np.sum(
        functions
        * scale
        * np.linalg.solve(matrix * scale[:, None] * scale, (functions * scale).T).T,
        axis=1,
    )
    assert axis.log_det == pytest.approx(np.linalg.slogdet(matrix)[1], abs=1e-9)
    assert axis.trace(moments(axis.degree))[0] == pytest.approx(explained.sum(), rel=1e-9)
    assert explained.max() <= 1.0 + 1e-9
    cells = GRID.locate(X)[0] % len(axis.variance_polynomials)
    polynomials = axis.variance_polynomials.reshape(-1, 2 * axis.degree + 1)
    got = np.sum(polynomials[cells] * powers(2 * axis.degree), axis=1)
    np.testing.assert_allclose(got, explained, atol=1e-9)


@pytest.mark.parametrize("name", AXES)
def test_derivatives_of_axes_are_limits_of_differences(name):
    case, values = AXES[name]
    axis, h = case.axis(values), 1e-4
    own = moments(axis.degree)
    for p in range(len(values)):
        step = h * (np.arange(len(values)) == p)
        above, below = (case.axis(values * np.exp(sign * step)) for sign in (1, -1))
        slope = (above.log_det - below.log_det) / (2 * h)
        assert axis.d_log_det[p] == pytest.approx(slope, rel=1e-6)
        slope = (above.trace(own)[0] - below.trace(own)[0]) / (2 * h)
        assert axis.trace(own)[1][p] == pytest.approx(slope, rel=1e-5, abs=1e-6)
        slopes = (above.element - below.element) / (2 * h)
        np.testing.assert_allclose(
            axis.d_element[p], slopes, atol=1e-6 * np.abs(axis.element).max()
        )


@pytest.mark.parametrize("quality", [1e2, 1e4, 1e6])
def test_two_cells_per_period_follow_an_oscillator(quality):
    axis = WaveAxis(SHO(2.0, quality), GRID, 9, 2)
    assert axis.grid.spacing == 1.0
    assert 1.0 - axis.trace(moments(9))[0] / len(X) < 1e-3


@pytest.mark.parametrize("cells_in_period", [100.0, 1e4])
def test_cells_far_shorter_than_a_period_miss_nothing(cells_in_period):
    # Of a wave of quality 1e5 the energies of 24 cells have no digit in common with its variance.
    values = 0.5 * cells_in_period, 1e5
    axis, own = Wave().axis(values), moments(9)
    axis = WaveAxis(axis.process, GRID, 9, 1)
    trace, slopes = axis.trace(own)
    assert 1.0 - trace / len(X) == pytest.approx(0.0, abs=1e-11)
    np.testing.assert_allclose(slopes / len(X), 0.0, atol=1e-5)
    states = axis.cell_covariances[:, : axis.states, : axis.states]
    np.testing.assert_allclose(states[:, 0, 0], 1.0, rtol=1e-11)
    slope = 2.0 * np.pi / cells_in_period  # of f over a cell: the process is stationary
    np.testing.assert_allclose(states[:, 1, 1], slope**2, rtol=1e-8)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_cells_have_states_at_both_ends_and_bubbles(order):
    functions, states = cell_functions(order, 9), order + 1
    for number, row in enumerate(functions):
        taylor = np.polynomial.Polynomial(row)
        ends = []
        for s in (0.0, 1.0):
            factorial = 1.0
            for i in range(states):
                factorial *= max(i, 1)
                ends.append((taylor.deriv(i) if i else taylor)(s) / factorial)
        np.testing.assert_allclose(ends, np.arange(2 * states) == number, atol=1e-9)


# ---------------------------------------------------------------- the engine

NOISE = 0.02
KERNEL = (
    Matern32(3.0, 0.5)
    + SHO(24.0, 20.0, 0.3)
    + Periodic(24.0, 6.0, 0.7)
    + Periodic(24.0, 9.0, 0.6, centred=True) * Matern32(60.0, 1.0)
    + Constant(variance=4.0)
)


def series(seed=3, count=150):
    rng = np.random.default_rng(seed)
    t = rng.uniform(0.0, 96.0, count)
    y = np.sin(t / 24 * 2 * np.pi) + 0.3 * np.sin(t) + 0.5 + 0.1 * rng.standard_normal(count)
    return t, y


def engine(more: int, y=None) -> SeriesEngine:
    """Return an engine on 96 cells, doubled ``more`` times; drifts have cells of their own."""
    t, targets = series()
    cells = 96 * 2**more
    grid, period = Grid(0.0, 96.0, cells), cells // 4
    parts = (
        Part(along=Along(3, 0)),
        Part(along=Along(9, more + 3, True)),
        Part(around=Around(3, period, 1)),
        Part(along=Along(3, 3), around=Around(3, period // 2, 2)),
    )
    columns = np.ones((len(t), 1))
    stats = Statistics.from_data(t, targets if y is None else y, grid, 9, covariates=columns)
    return SeriesEngine(KERNEL, SeriesPlan(grid, 9, parts, 1), stats)


def evidence(kernel, noise) -> float:
    t, y = series()
    lag = np.abs(np.subtract.outer(t, t))
    whole = 4.0 + noise * np.eye(len(t))
    for part in kernel.components:
        whole += part.variance * np.prod([f.covariance(lag) for f in part.factors], axis=0)
    _, log_det = np.linalg.slogdet(2.0 * np.pi * whole)
    return -0.5 * (y @ np.linalg.solve(whole, y) + log_det)


def test_bounds_enclose_the_evidence_and_close_in_on_it():
    exact, gaps = evidence(KERNEL, NOISE), []
    for more in (0, 1, 2):
        factored = engine(more).factor(KERNEL, Gaussian(NOISE))
        bound = lower_bound(factored)
        assert bound.elbo <= exact <= upper_bound(factored)
        gaps.append(exact - bound.elbo)
    assert gaps[2] < gaps[1] < gaps[0]
    assert gaps[2] < 0.01 * len(series()[0])


def test_gradients_of_the_bound_are_limits_of_differences():
    own, h = engine(0), 1e-4
    at = np.log(np.append(KERNEL.values, NOISE))

    def elbo(theta):
        moved = dict(zip(KERNEL.parameters, np.exp(theta[:-1]), strict=True))
        noise = Gaussian(float(np.exp(theta[-1])))
        return lower_bound(own.factor(KERNEL.replace_free(moved), noise))

    gradient = elbo(at).gradient
    for i, step in enumerate(h * np.eye(len(at))):
        slope = (elbo(at + step).elbo - elbo(at - step).elbo) / (2 * h)
        assert gradient[i] == pytest.approx(slope, rel=1e-5, abs=1e-4)


def test_engines_share_tables_for_other_sums():
    _, y = series()
    one, other = engine(0), engine(0, np.cos(y))
    again = one.with_statistics(other.statistics)
    assert again.tables is one.tables
    expected = lower_bound(other.factor(KERNEL, Gaussian(NOISE))).elbo
    assert lower_bound(again.factor(KERNEL, Gaussian(NOISE))).elbo == pytest.approx(expected)


def test_functions_of_one_cell_and_of_gaps_are_counted():
    """Bubbles are on one cell, states on two; of the splines, those that have data count."""
    t = np.concatenate([np.linspace(0.3, 30.3, 80), np.linspace(70.3, 95.3, 80)])
    grid, kernel = Grid(0.0, 96.0, 96), Matern32(3.0) + SHO(24.0, 20.0)
    parts = Part(along=Along(3, 0)), Part(along=Along(9, 3, True))
    stats = Statistics.from_data(t, np.ones_like(t), grid, 9)
    tables = SeriesEngine(kernel, SeriesPlan(grid, 9, parts), stats).tables
    inner = np.split(tables.inner, [tables.terms[0].size])
    assert not inner[0].any()
    cells = np.bincount(WaveAxis(SHO(24.0, 20.0), grid, 9, 3).numbers.ravel())
    assert np.all(cells[inner[1]] == 1)
    assert np.count_nonzero(cells[~inner[1]] == 1) == 4  # both states at both ends
    # sums of splines, which are positive, over the data, whose y are ones
    splines = np.count_nonzero(tables.right(stats)[tables.where(0)] > 0.0)
    assert splines < tables.terms[0].size
    states = [k for k in range(13) if np.any(np.abs(t - 8.0 * k) < 8.0)]
    assert len(states) < 13
    assert tables.coupled(stats) == splines + 2 * len(states)


def test_what_cannot_be_factored_names_the_kernel():
    own = engine(0)
    own.__dict__["gram"] = -1e6 * np.abs(own.gram)
    with pytest.raises(np.linalg.LinAlgError, match="cannot be factored on 96 cells"):
        own.factor(KERNEL, Gaussian(NOISE))


@pytest.mark.parametrize(
    ("kernel", "part", "size"),
    [
        (Matern12(2.0), Part(along=Along(1, 1)), 24 + 1),
        (Matern52(2.0), Part(along=Along(4, 2)), 12 + 4),
        (SHO(2.0, 9.0), Part(along=Along(9, 2, True)), 2 * 13 + 6 * 12),
        (Periodic(4.0, 1.0), Part(around=Around(3, 8, 2)), 8),
        (Periodic(4.0) * Matern32(9.0), Part(Along(3, 3), Around(3, 16, 1)), (6 + 3) * 16),
    ],
    ids=str,
)
def test_terms_miss_little_and_never_less_than_nothing(kernel, part, size):
    (term,) = terms_of(kernel, SeriesPlan(GRID, part.power, (part,)))
    assert term.size == size
    missed, slope = term.missed(moments(part.power), float(len(X)))
    assert 0.0 <= missed < 0.1 * len(X)
    assert slope.shape == (len(kernel.parameters),)
    assert slope[-1] == pytest.approx(missed)


def test_cells_of_a_part_do_not_get_wider():
    wide, narrow = Part(Along(3, 4), Around(3, 12, 8)), Part(Along(3, 2), Around(3, 24, 4))
    assert wide.no_wider(narrow) == narrow.no_wider(wide) == narrow
    wave = Part(Along(9, 1, wave=True))
    assert wide.no_wider(wave) == wide  # functions of another kind


def test_the_table_of_a_drifting_season_has_no_more_rows_than_there_are_cells():
    # Cells along the line and around the circle that have no divisor in common.
    part = Part(Along(3, 5), Around(3, 4, 13))
    kernel = Periodic(52.0, 10.0) * Matern32(300.0)
    plan = SeriesPlan(Grid(0.0, 128.0, 128), 6, (part,))
    (term,) = terms_of(kernel, plan)
    assert len(term.table) == 128 < 32 * 13
    (longer,) = terms_of(kernel, SeriesPlan(Grid(0.0, 512.0, 512), 6, (part,)))
    assert len(longer.table) == 32 * 13
    np.testing.assert_allclose(longer.table[:128, :4], term.table[:, :4])


def test_leaves_grow_with_the_functions_of_a_drifting_season():
    def tables(phases: int) -> SeriesTables:
        parts = Part(Along(3, 0)), Part(Along(3, 8), Around(3, phases, 256 // phases))
        kernel = Matern32(3.0) + Periodic(256.0, 9.0) * Matern32(900.0)
        return SeriesTables(kernel, SeriesPlan(Grid(0.0, 8192.0, 8192), 6, parts))

    few, many = tables(16), tables(128)
    assert len(few.edges) > 2 * len(many.edges)
    # Without larger leaves, every one of those of few would hold the functions of many.
    assert many.leaf_bytes < 0.5 * 8.0 * (len(few.edges) - 1) * many.block**2
