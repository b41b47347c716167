"""The finest cells of automatic grids: as many as are worth it, and where the data need them."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asvgp import Constant, GPRegressor, Linear
from asvgp.basis import Grid
from asvgp.kernels import Matern32
from asvgp.linalg.conditionals import conditionals
from asvgp.model.levels import first_coarsening
from asvgp.model.plan import Plan
from asvgp.policies import FIELD, PILOT
from asvgp.statistics import Statistics
from asvgp.structures.structure import Points
from asvgp.training import pilot
from asvgp.training.finest import doublings, shared_out
from asvgp.training.pilot import cell_lengths, lengths


def matern32(x, lengths):
    """Prior covariance at unit variance, dense."""
    r = np.sqrt(3.0) * np.abs(x[:, None] - x[None]) / lengths
    return np.prod((1.0 + r) * np.exp(-r), axis=-1)


def draw(rng, x, along, noise=0.01):
    """A field with these lengths, by random Fourier features: t with 3 degrees of freedom."""
    # A product of Matérn-3/2: independent frequencies, Student's t with 2 nu = 3 degrees.
    frequencies = rng.standard_t(3, (2000, x.shape[1])) / along
    phases = rng.uniform(0.0, 2.0 * np.pi, 2000)
    f = np.sqrt(2.0 / 2000) * np.cos(x @ frequencies.T + phases).sum(axis=1)
    return f + noise * rng.standard_normal(len(x))


@pytest.mark.parametrize("inputs", [1, 2, 3])
def test_conditionals_are_those_of_a_dense_process(inputs):
    rng = np.random.default_rng(inputs)
    places, values = rng.uniform(0, 1, (5, 7, inputs)), rng.standard_normal((5, 7, 2))
    along, ratio = rng.uniform(0.1, 1.0, inputs), 0.3
    logs, squares = conditionals(places, values, along, ratio)
    variances, errors = [], []
    for x, y in zip(places, values, strict=True):
        k = matern32(x, along) + ratio * np.eye(7)
        weights = np.linalg.solve(k[1:, 1:], k[1:, 0])
        variances.append(k[0, 0] - k[0, 1:] @ weights)
        errors.append((y[0] - weights @ y[1:]) ** 2 / variances[-1])
    assert logs == pytest.approx(np.mean(np.log(variances)), rel=1e-10)
    np.testing.assert_allclose(squares, np.mean(errors, axis=0), rtol=1e-10)


@pytest.mark.parametrize("along", [(0.02, 0.3), (0.3, 0.02), (0.1, 0.1), (0.03, 0.3, 0.3)])
def test_lengths_are_found_to_a_factor(along):
    rng = np.random.default_rng(0)
    units = np.array([1.0, 500.0, 1e-3])[: len(along)]
    x = rng.uniform(0, 1, (6000, len(along)))
    found = lengths(list((x * units).T), draw(rng, x, np.array(along))) / units
    ratios = np.log2(found / along)
    assert np.abs(ratios).max() < 2.0
    assert np.ptp(ratios) < 1.6


def test_lengths_do_not_depend_on_order_and_units_and_missing_rows():
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 1, (30_000, 2))  # more than are looked at: boxes are chosen
    y = draw(rng, x, np.array([0.02, 0.2]))
    found = lengths([x[:, 0], x[:, 1]], y)
    order = rng.permutation(len(x))
    np.testing.assert_array_equal(lengths([x[order, 0], x[order, 1]], y[order]), found)
    more, gaps = np.concatenate([x, x[:500] * 0.5]), np.full(500, np.nan)
    np.testing.assert_array_equal(lengths(list(more.T), np.concatenate([y, gaps])), found)
    outputs = np.stack([y, -3.0 * y], axis=1)
    assert np.abs(np.log2(lengths(list(x.T), outputs) / found)).max() <= 1.0


def smooth(x, y):
    """A field of lengths ten and fourteen, on all scales from there to the domain."""
    return np.sin(x / 9.0 + 0.3) * np.cos(y / 13.0) + np.sin(x / 40.0 - y / 31.0)


def test_lengths_on_a_lattice_much_finer_than_they_are():
    """There, points are foretold by their line alone: that must not decide."""
    x, y = (a.ravel().astype(float) for a in np.indices((300, 500)))
    rng = np.random.default_rng(8)
    steps = np.cumsum(np.cumsum(rng.standard_normal((300, 500)), axis=0), axis=1).ravel()
    for values in (smooth(x, y) + 1e-4 * rng.standard_normal(len(x)), steps):
        first, second = lengths([x, y], values)
        assert 1.0 / 8.0 < first / second < 8.0


def test_neighbours_are_taken_along_every_input_of_a_lattice():
    x = np.stack(np.indices((60, 60)), axis=-1).reshape(-1, 2) / 59.0
    order = np.random.default_rng(9).permutation(len(x))
    box = [(x[order], np.zeros((len(x), 1)))]
    gaps = np.array([pilot._gap(box, d) for d in (0, 1)])
    np.testing.assert_allclose(gaps, 1 / 59.0)
    narrow = np.array([1e-3, 10.0])  # by which all neighbours are along the second
    places, _ = pilot._neighbourhoods(box, pilot._rankings(box, narrow))
    assert (np.ptp(places[:, :, 0], axis=1) == 0.0).all()
    places, _ = pilot._neighbourhoods(box, pilot._rankings(box, narrow), pilot._rankings(box, gaps))
    assert (np.ptp(places, axis=1) > 0.0).all()


def test_lengths_from_cells_are_those_from_rows():
    rng = np.random.default_rng(10)
    x = rng.uniform(0, 1, (4000, 2)) * [3.0, 70.0] + [5.0, -9.0]
    y = draw(rng, x, np.array([0.2, 20.0]))
    grids = Grid(5.0, 8.0, 512), Grid(-9.0, 61.0, 512)
    found = cell_lengths(Statistics.from_data(x, y, grids, (2, 2)))
    assert np.abs(np.log2(found / lengths(list(x.T), y))).max() <= 1.0


def test_effects_hide_no_lengths():
    rng = np.random.default_rng(11)
    x = rng.uniform(0, 1, (4000, 2))
    y = draw(rng, x, np.array([0.02, 0.3]))
    effects = [np.ones(4000), x[:, 1]]
    found = lengths(list(x.T), y + 1000.0 * x[:, 1] - 1e4, effects)
    assert np.abs(np.log2(found / lengths(list(x.T), y, effects))).max() <= 1.0
    kernel = Matern32(dim=0) * Matern32(dim=1) + Linear(dim=1) + Constant()
    cells = [
        [grid.cells for grid in GPRegressor(kernel).partial_fit(x, values).stats_.grids]
        for values in (y, y + 1000.0 * x[:, 1])
    ]
    assert cells[0] == cells[1]
    assert cells[0][0] >= 4 * cells[0][1]


def test_large_grids_are_looked_at_in_part(monkeypatch):
    rng = np.random.default_rng(12)
    axes = [np.sort(rng.uniform(0, 1, n)) for n in (60, 50)]
    y = rng.standard_normal((3000, 1))
    points = Points(axes, [], [], (60, 50))
    columns, values, _ = points.sampled(y)
    np.testing.assert_array_equal(columns[0], np.repeat(axes[0], 50))
    np.testing.assert_array_equal(values, y)
    monkeypatch.setattr("asvgp.structures.structure.PILOT", replace(PILOT, rows=100))
    columns, values, _ = points.sampled(y)
    assert len(values) == 100
    table = {(a, b): v for a, b, v in zip(*points.expanded().main, y[:, 0], strict=True)}
    assert [table[pair] for pair in zip(*columns, strict=True)] == list(values[:, 0])


def test_the_first_block_of_a_stream_may_be_a_slab():
    """What is slow beside a slab is not known to be fast beside the domain."""
    rng = np.random.default_rng(13)
    x = np.stack([rng.integers(0, 2, 3000), *rng.uniform(0, 1, (2, 3000))], axis=1)
    y = draw(rng, x[:, 1:], np.array([0.06, 0.06]))
    gp = GPRegressor(Matern32(), domain=((0.0, 8760.0), (0.0, 1.0), (0.0, 1.0))).partial_fit(x, y)
    hours, *places = [grid.cells for grid in gp.stats_.grids]
    assert hours <= max(places)


def test_automatic_models_of_shards_merge():
    rng = np.random.default_rng(14)
    x = rng.uniform(0, 1, (4000, 2))
    fast, slow = draw(rng, x, np.array([0.02, 0.4])), draw(rng, x, np.array([0.4, 0.02]))
    a, b = (
        GPRegressor(Matern32(), domain=((0.0, 1.0), (0.0, 1.0))).partial_fit(x[rows], y[rows])
        for rows, y in ((slice(2000), fast), (slice(2000, None), slow))
    )
    shapes = [[grid.cells for grid in gp.stats_.grids] for gp in (a, b)]
    assert shapes[0] != shapes[1]
    merged = a.merge(b)
    assert merged.stats_.count == 4000
    assert [grid.cells for grid in merged.stats_.grids] == np.min(shapes, axis=0).tolist()


def test_nothing_is_learnt_from_noise_few_rows_or_a_constant():
    rng = np.random.default_rng(2)
    x = rng.uniform(0, 1, (5000, 2))
    y = rng.standard_normal(5000)
    assert np.isinf(lengths(list(x.T), y)).all()
    assert np.isinf(lengths(list(x[:20].T), y[:20])).all()
    assert np.isinf(lengths(list(x.T), np.zeros(5000))).all()
    assert np.isinf(lengths([x[:, 0], np.ones(5000)], y)).all()
    assert np.isinf(lengths(list(x.T), np.full(5000, np.nan))).all()
    assert np.isinf(lengths(list(x.T), np.where(x[:, 0] > 0.5, np.inf, y))).all()  # nor a warning
    assert np.isinf(lengths(list(x.T), 1e200 * y)).all()


def test_many_rows_at_one_place_are_no_neighbours_of_themselves():
    rng = np.random.default_rng(3)
    x = np.repeat(rng.uniform(0, 1, (300, 2)), 20, axis=0)
    y = np.repeat(rng.standard_normal(300), 20) + 0.1 * rng.standard_normal(6000)
    boxes = pilot._boxes(*pilot._chosen(list(x.T), y[:, None], []))
    places, values = pilot._neighbourhoods(boxes, pilot._rankings(boxes, np.ones(2)))
    (own, observed), count = boxes[0], len(places)
    np.testing.assert_array_equal(places[:, 0], own[:count])
    np.testing.assert_array_equal(values[:, 0], observed[:count])
    assert not (values[:, 1:] == values[:, :1]).any()


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.floats(1e-3, 1e3), st.floats(1e-6, 1e6)), min_size=2, max_size=4),
    st.integers(1, 10**8),
)
def test_cells_are_shared_out_by_need(pairs, rows):
    widths, along = np.array(pairs).T
    times, few = doublings(len(pairs), rows), FIELD.least_doublings[len(pairs)]
    cells = np.array(shared_out(times, list(widths), along))
    assert 2.0 ** (times - len(pairs)) < cells.prod() <= 2 ** max(times, few * len(pairs))
    assert cells.min() >= 2**few
    # No cell can be taken from one input and given to another that surely needs it more.
    short = np.minimum(along / widths, 2.0) * cells
    spare = short[cells > 2**few]
    assert not len(spare) or spare.max() <= 8.0 * short.min() * (1.0 + 1e-9)
    # Units are of no matter.
    assert shared_out(times, list(widths * 7.0), along * 7.0) == list(cells)


def test_exploring_begins_with_the_shape_of_the_grid():
    def factors(*cells):
        grids = tuple(Grid(0.0, 1.0, n) for n in cells)
        inputs, flat = tuple(range(len(cells))), (0,) * len(cells)
        return first_coarsening(
            Plan(inputs, grids, (2,) * len(cells), (0,), ((2,) * len(cells),), (flat,))
        )

    assert factors(1024, 1024) == (64, 64)
    assert factors(512, 16, 16) == (16, 4, 4)  # no fewer than four along any
    assert factors(16, 16) == (1, 1)


def test_a_fast_and_a_slow_input_in_one_field():
    """Hours with a daily cycle over a map: equal cells along each could not tell day from night."""
    rng = np.random.default_rng(4)
    x = np.stack([rng.integers(0, 720, 6000), *rng.uniform(0, 8, (2, 6000))], axis=1)
    slow = np.sin(x[:, 1] / 3.0) + np.cos(x[:, 2] / 4.0)
    y = np.sin(2 * np.pi * x[:, 0] / 24.0) * slow + 0.1 * rng.standard_normal(6000)
    gp = GPRegressor(Matern32()).fit(x[:5000], y[:5000])
    hours, *places = np.asarray(gp.num_basis_)
    assert hours > 4 * max(places)
    error = y[5000:] - gp.predict(x[5000:])
    assert np.var(error) < 0.05 * np.var(y)


@pytest.mark.parametrize(("waves", "rows"), [(20.0, 8000), (60.0, 12_000), (250.0, 40_000)])
def test_a_field_of_short_lengths_is_no_noise(waves, rows):
    rng = np.random.default_rng(6)
    x = rng.uniform(0, 1, (rows, 2))
    y = np.sin(waves * x[:, 0]) * np.sin(waves * x[:, 1]) + 0.1 * rng.standard_normal(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the shortest, there could be more cells
        gp = GPRegressor(Matern32()).fit(x, y)
    assert np.var(y - gp.predict(x)) < 0.15 * np.var(y)


def test_what_was_asked_for_is_begun_with_where_its_factor_is_on_disk():
    rng = np.random.default_rng(15)
    x = rng.uniform(0, 1, (20_000, 2))
    y = np.sin(200 * x[:, 0]) * np.sin(200 * x[:, 1]) + 0.1 * rng.standard_normal(20_000)
    gp = GPRegressor(Matern32(), num_basis=160, degree=2, memory_limit="160 MiB").fit(x, y)
    assert gp.num_basis_ == (160, 160)
    assert np.var(y - gp.predict(x)) < 0.3 * np.var(y)


def test_cells_are_for_values_not_for_gaps_of_a_grid():
    rng = np.random.default_rng(16)
    axes = np.arange(100.0), np.arange(40.0)
    y = smooth(*np.meshgrid(*axes, indexing="ij")) + 0.1 * rng.standard_normal((100, 40))
    y[rng.uniform(size=y.shape) < 0.9] = np.nan
    kept = np.isfinite(y)
    places = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)[kept]
    domain = (0.0, 99.0), (0.0, 39.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # values are missing
        gridded = GPRegressor(Matern32(), domain=domain).partial_fit(axes, y)
    rows = GPRegressor(Matern32(), domain=domain).partial_fit(places, y[kept])
    assert gridded.stats_.grids == rows.stats_.grids


def test_untrained_kernels_say_themselves_what_they_need():
    rng = np.random.default_rng(5)
    x, y = rng.uniform(0, 1, (2000, 2)), rng.standard_normal(2000)
    kernel = Matern32(0.01, dim=0) * Matern32(0.5, dim=1)
    gp = GPRegressor(kernel, optimizer=None, noise_variance=0.1).fit(x, y)
    fine, coarse = np.asarray(gp.num_basis_)
    assert fine > 4 * coarse
