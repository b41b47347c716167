"""Statistics of any number of inputs against their definition, and their algebra."""

import pickle
from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asvgp.basis import Grid, bspline_coefficients
from asvgp.runtime import parallel
from asvgp.statistics import Statistics
from asvgp.statistics import pass_many as field_pass
from asvgp.statistics.nesting import refinement
from asvgp.statistics.pass_many import ManyInputs
from tests.dense import design
from tests.statistics.definition import (
    DEGREES,
    SMOOTHS,
    SUMS,
    accumulated,
    assert_same,
    direct,
    sample,
)


@settings(max_examples=60, deadline=None)
@given(
    degrees=st.sampled_from(DEGREES),
    n=st.integers(0, 120),
    cells=st.integers(1, 3),
    outputs=st.integers(1, 2),
    smooths=st.integers(0, 2),
    linear=st.integers(0, 2),
    weighted=st.booleans(),
    missing=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_the_pass_is_its_definition(
    degrees, n, cells, outputs, smooths, linear, weighted, missing, seed
):
    rng = np.random.default_rng(seed)
    smooths = SMOOTHS[:smooths]
    grids, x, z, y, columns = sample(
        rng, n, degrees, smooths, outputs, linear, cells, on_knots=n // 5
    )
    y[rng.random(y.shape) < 0.2 * missing] = np.nan
    w = rng.uniform(0.1, 5.0, n)
    mine = accumulated(x, y, grids, degrees, w if weighted else None, smooths, z, columns)
    w = w if weighted else np.ones(n)
    assert_same(mine, direct(x, y, grids, degrees, w, smooths, z, columns))


def large(seed=0, n=70_001, cells=40, degrees=(1, 2)):
    rng = np.random.default_rng(seed)
    grids, x, z, y, columns = sample(rng, n, degrees, SMOOTHS, 2, 1, cells)
    y[rng.integers(0, n, 100), 0] = np.nan
    return x, y, grids, degrees, rng.uniform(0.5, 2.0, n), SMOOTHS, z, columns


def rows(data, which):
    """The same data, some rows of it."""
    x, y, grids, degrees, w, smooths, z, columns = data
    return x[which], y[which], grids, degrees, w[which], smooths, z[which], columns[which]


def test_order_parts_and_threads_do_not_matter(monkeypatch):
    data = large()
    whole = accumulated(*data)
    order = np.random.default_rng(1).permutation(len(data[0]))
    assert_same(accumulated(*rows(data, order)), whole)
    parts = [accumulated(*rows(data, s)) for s in (slice(9), slice(9, 50_000), slice(50_000, None))]
    assert_same(parts[0] + parts[1] + parts[2], whole)
    assert_same(whole - parts[1] - parts[0], parts[2], rtol=1e-11)
    for cores in (1, 2):
        monkeypatch.setattr(parallel, "cores", lambda cores=cores: cores)
        again = accumulated(*data)
        assert_same(again, whole)
        np.testing.assert_array_equal(again.moments, whole.moments)  # not even rounding
    monkeypatch.setattr(parallel, "_SERIAL", 700)
    monkeypatch.setattr(field_pass, "BATCH", 5000)
    monkeypatch.setattr(parallel, "cores", lambda: 5)
    seen = []
    assert_same(accumulated(*data, progress=seen.append), whole)
    assert sum(seen) == len(data[0])
    assert len(seen) == 15


def test_layouts_and_number_types():
    rng = np.random.default_rng(2)
    x, y = rng.integers(0, 100, (3000, 2)), rng.integers(0, 9, 3000)
    grids = Grid(0.0, 100.0, 7), Grid(0.0, 100.0, 5)
    expected = accumulated(x.astype(float), y.astype(float), grids, (2, 2))
    read_only = x.astype(">f4")
    read_only.flags.writeable = False
    table = np.zeros((6000, 5))
    table[::2, ::3] = x
    for layout in (
        np.asfortranarray(x),
        read_only,
        table[::2, ::3],
        (x[:, 0], x[:, 1].astype("f2")),
    ):
        assert_same(accumulated(layout, y.astype("i2"), grids, (2, 2)), expected)


def test_both_passes_agree_on_one_input():
    rng = np.random.default_rng(3)
    grids, x, _, y, columns = sample(rng, 500, (2,), outputs=2, linear=2, cells=9)
    y[7, 1] = np.nan
    w = rng.uniform(1, 2, 500)
    like = Statistics.empty(grids, (2,), 2, linear=2)
    several = ManyInputs(like)
    several.add([x[:, 0]], y, w, covariates=list(columns.T))
    assert_same(accumulated(x, y, grids, (2,), w, linear=columns), several.statistics())


def test_the_moments_are_the_inner_products_of_splines():
    rng = np.random.default_rng(4)
    degrees = (1, 2)
    grids, x, z, y, columns = sample(rng, 300, degrees, SMOOTHS, 1, 1)
    w = rng.uniform(0.5, 2.0, 300)
    stats = accumulated(x, y, grids, degrees, w, SMOOTHS, z, columns)
    basis = [design(x[:, d], grids[d], k) for d, k in enumerate(degrees)]
    sizes = [b.shape[1] for b in basis]
    phi = np.einsum("ni,nj->nij", *basis).reshape(len(x), -1)
    size = prod(sizes)
    gram, targets, cross = (
        np.zeros((size, size)),
        np.zeros(size),
        np.zeros((size, len(stats.column_gram))),
    )
    p, q = (bspline_coefficients(k) for k in degrees)
    i, j = np.indices((2, 2)).sum(axis=0), np.indices((3, 3)).sum(axis=0)
    for c, e in product(range(grids[0].cells), range(grids[1].cells)):
        alive = np.ravel_multi_index(np.ix_(c + np.arange(2), e + np.arange(3)), sizes).ravel()
        hankel = stats.moments[c, e][i[:, :, None, None], j]
        block = np.einsum("ai,bj,ijkl,ck,dl->acbd", p, p, hankel, q, q).reshape(6, 6)
        gram[np.ix_(alive, alive)] += block
        targets[alive] += np.einsum("ai,bj,ij->ab", p, q, stats.targets[0, c, e]).ravel()
        cross[alive] += np.einsum("ai,bj,ijk->abk", p, q, stats.cross[c, e]).reshape(6, -1)
    full = np.hstack([*(design(z[:, k], *smooth) for k, smooth in enumerate(SMOOTHS)), columns])
    np.testing.assert_allclose(gram, phi.T @ (w[:, None] * phi), atol=1e-11)
    np.testing.assert_allclose(targets, phi.T @ (w * y[:, 0]), atol=1e-11)
    np.testing.assert_allclose(cross, phi.T @ (w[:, None] * full), atol=1e-11)


# ---------------------------------------------------------------- other grids


@pytest.mark.parametrize("smooths", [(), SMOOTHS], ids=["", "smooths"])
@pytest.mark.parametrize("degrees", [(1,), (2,), (4,), (1, 2), (1, 2, 2)])
@pytest.mark.parametrize("cells", [8, 5])
def test_coarsened_equals_directly_accumulated(degrees, cells, smooths):
    rng = np.random.default_rng(5)
    grids, x, z, y, columns = sample(rng, 400, degrees, smooths, 2, 1, cells)
    rest = degrees, rng.uniform(0.5, 2.0, 400), smooths, z, columns
    fine = accumulated(x, y, grids, *rest)
    for factors in (2, (4, 2, 1)[: len(degrees)], (1, 8, 3)[: len(degrees)]):
        coarse = fine.coarsen(factors)
        assert_same(coarse, accumulated(x, y, coarse.grids, *rest))
    with pytest.raises(ValueError, match=f"{len(degrees)} of them"):
        fine.coarsen((2,) * 5)


@pytest.mark.parametrize("degrees", [(), (2,)])
@pytest.mark.parametrize("cells", [8, 11])
def test_coarsened_columns_equal_directly_accumulated(degrees, cells):
    rng = np.random.default_rng(6)
    smooths = tuple((Grid(-1.0, 4.0, cells), degree) for degree in (2, 2, 1))
    grids, x, z, y, columns = sample(rng, 400, degrees, smooths, 2, 2)
    z[:9] = -1.0, 4.0, 1.5  # ends
    w = rng.uniform(0.5, 2.0, 400)
    fine = accumulated(x, y, grids, degrees, w, smooths, z, columns)
    for factors in (2, (4, 1, 8), (3, 2, 5)):
        coarse = fine.coarsen_columns(factors)
        assert_same(coarse, accumulated(x, y, grids, degrees, w, coarse.smooths, z, columns))


@pytest.mark.parametrize("degree", [1, 2, 3, 5])
@pytest.mark.parametrize("cells, factor", [(8, 2), (8, 8), (9, 2), (10, 3), (3, 8)])
def test_wide_splines_are_sums_of_narrow_ones(cells, factor, degree):
    grid = Grid(-1.0, 1.0, cells)
    x = np.linspace(-1.0, 1.0, 200)[:-1]
    narrow, wide = design(x, grid, degree), design(x, grid.coarsen(factor), degree)
    np.testing.assert_allclose(
        narrow @ refinement(cells, degree, factor).T, wide, rtol=1e-12, atol=1e-13
    )


def test_extended_equals_directly_accumulated():
    data = large(n=2000, cells=6)
    stats = accumulated(*data)
    grid, other = stats.grids
    longer = stats.extend(
        (grid.lower - 0.1, other.lower),
        (grid.upper + 1.0, other.upper),
        smooth_lower=(-0.5, -3.0),
        smooth_upper=(0.2, 9.0),
    )
    assert [g.cells for g in longer.grids] == [6 + 1 + 2, 7]
    assert [g.cells for g, _ in longer.smooths] == [5 + 3, 3 + 6]
    x, y, _, degrees, w, _, z, columns = data
    expected = accumulated(x, y, longer.grids, degrees, w, longer.smooths, z, columns)
    assert_same(longer, expected, rtol=1e-11)
    assert stats.extend() is stats
    assert stats.extend((0.0, 0.0), (1.0, 1.0)) is stats
    even = stats.extend((grid.lower - 0.1, 0.0), (1.0, 2.1), multiple=(4, 2))
    assert [g.cells for g in even.grids] == [10, 9]
    with pytest.raises(ValueError, match="2 grids to extend, but 1 lower and 1 upper"):
        stats.extend((0.0,), (1.0,))


def test_columns_alone_extend_and_coarsen():
    _, y, _, _, w, _, z, columns = large(n=1000)
    stats = accumulated(None, y, (), (), w, SMOOTHS, z, columns)
    assert stats.moments.shape == ()
    assert stats.weight == pytest.approx(w[~np.isnan(y).any(axis=1)].sum())
    assert stats.densest == stats.weight
    longer = stats.extend(smooth_lower=(-1.0, -3.0), smooth_upper=(1.0, 1.0))
    assert_same(longer, accumulated(None, y, (), (), w, longer.smooths, z, columns), rtol=1e-11)
    assert stats.coarsen(2).moments.shape == ()
    assert_same(stats + stats - stats, stats)


# ---------------------------------------------------------------- adding and forgetting


@pytest.mark.parametrize("smooths", [(), SMOOTHS], ids=["", "smooths"])
@pytest.mark.parametrize("degrees", [(), (2,), (1, 2), (1, 2, 2)], ids=len)
class TestAnyInputs:
    """Sums of data with two outputs, weights, covariates and missing values."""

    def data(self, degrees, smooths, n=900, linear=2):
        rng = np.random.default_rng(7)
        grids, x, z, y, columns = sample(rng, n, degrees, smooths, 2, linear, cells=3)
        y[rng.integers(0, n, n // 40), 0] = np.nan
        return x, y, grids, degrees, rng.uniform(0.5, 2.0, n), smooths, z, columns

    def test_added_data_can_be_forgotten_and_no_others(self, degrees, smooths):
        data = self.data(degrees, smooths)
        early, late = (accumulated(*rows(data, p)) for p in (slice(300), slice(300, None)))
        assert_same(early + late, accumulated(*data))
        assert_same(early + late - early, late, rtol=1e-11)
        nothing = early - early
        for name in SUMS[:5]:
            assert not getattr(nothing, name).any(), name
        cell = (r" .* cell \d+", r" .* cell \(\d+, \d+")[len(degrees) > 1] if degrees else ""
        with pytest.raises(ValueError, match=f"never added:{cell}"):
            early - late
        x, y, grids, _, w, _, z, columns = rows(data, slice(300))
        for other in (
            accumulated(x, 2.0 * y, grids, degrees, w, smooths, z, columns),
            accumulated(x, y, grids, degrees, w, smooths, z, 2.0 * columns),
            accumulated(x, y, grids, degrees, 2.0 * w, smooths, z, columns),
        ):
            with pytest.raises(ValueError, match="never added"):
                early - other

    @pytest.mark.parametrize("linear", [0, 2])
    def test_other_centres_give_the_same_statistics(self, degrees, smooths, linear):
        data = self.data(degrees, smooths, linear=linear)
        plain = accumulated(*data)
        centre, beside = np.array([0.3, -1.0]), np.array([0.5, 2.0])[:linear]
        like = replace(plain, centre=centre, column_centre=beside)
        moved = accumulated(*data, like=like)
        assert_same(plain.recentred(centre, beside), moved, rtol=1e-11)
        assert_same(plain + moved, plain + plain, rtol=1e-11)
        assert_same(moved + plain - moved, moved, rtol=1e-10)
        np.testing.assert_allclose(moved.sums, plain.sums, rtol=1e-9)

    def test_another_process_gets_the_same(self, degrees, smooths):
        whole = accumulated(*self.data(degrees, smooths, 3))
        assert whole.densest > 0.0  # cached, and not sent
        again = pickle.loads(pickle.dumps(whole))
        assert "densest" not in vars(again)
        assert_same(again, whole, rtol=0.0)

    def test_conventions_do_not_mix(self, degrees, smooths):
        first, second = (
            replace(accumulated(*self.data(degrees, smooths, 9)), convention=words)
            for words in ("known noise variances", "relative weights")
        )
        for combine in (lambda: first + second, lambda: first - second):
            with pytest.raises(ValueError, match="'known noise variances' against 'relative"):
                combine()
        like = accumulated(*self.data(degrees, smooths, 9), like=second)
        assert like.convention == "relative weights"
        assert (second + like).emptied().convention == "relative weights"


def test_different_statistics_do_not_add():
    grid, other = Grid(0.0, 1.0, 4), Grid(0.0, 1.0, 5)
    base = Statistics.empty([grid] * 2, [2, 2])
    for changed, name in [
        (Statistics.empty([grid, other], [2, 2]), "grids"),
        (Statistics.empty([grid] * 2, [2, 1]), "degrees"),
        (Statistics.empty([grid] * 2, [2, 2], smooths=[(grid, 2)]), "smooths"),
        (Statistics.empty([grid] * 2, [2, 2], linear=1), "linear"),
        (Statistics.empty([grid] * 2, [2, 2], 2), "outputs"),
    ]:
        with pytest.raises(ValueError, match=f"the {name} differ"):
            base + changed
    for combine in (lambda: base + 1, lambda: base - 1):
        with pytest.raises(TypeError):
            combine()
    assert_same(base + base, base)


def test_memory_is_known_beforehand():
    grids, degrees = [Grid(0.0, 1.0, 6), Grid(0.0, 1.0, 7)], [1, 2]
    stats = Statistics.empty(grids, degrees, 3, smooths=SMOOTHS, linear=2)
    needed = Statistics.bytes_needed(grids, degrees, len(stats.column_gram), 3)
    assert stats.nbytes == needed
    assert Statistics.empty([], [], linear=4).nbytes == Statistics.bytes_needed([], [], 4)


def test_shapes_that_do_not_fit_are_named():
    grids, y = [Grid(0.0, 1.0, 4)] * 2, np.zeros(10)
    with pytest.raises(ValueError, match="2 grids but 1 degrees"):
        Statistics.from_data(np.zeros((10, 2)), y, grids, [2])
    with pytest.raises(ValueError, match="x must have 2 columns of 10 rows"):
        Statistics.from_data(np.zeros((9, 2)), y, grids, [2, 2])
    with pytest.raises(ValueError, match="x must have 2 columns of 10 rows"):
        Statistics.from_data(np.zeros((10, 3)), y, grids, [2, 2])
    with pytest.raises(ValueError, match="smooth_inputs must have 1 columns"):
        Statistics.from_data(None, y, smooths=[(grids[0], 2)])
    with pytest.raises(ValueError, match="sample_weight must have 1 columns of 10 rows"):
        Statistics.from_data(np.zeros((10, 2)), y, grids, [2, 2], np.ones(9))


# ---------------------------------------------------------------- gridded data


@settings(max_examples=40, deadline=None)
@given(
    degrees=st.sampled_from([d for d in DEGREES if d]),
    outputs=st.integers(0, 2),
    weighted=st.booleans(),
    missing=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_gridded_data_are_data(degrees, outputs, weighted, missing, seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 8, len(degrees)))
    grids = tuple(Grid(-1.0, 2.0, rng.integers(1, 4)) for _ in degrees)
    axes = [rng.choice([-1.0, 0.5, *rng.uniform(-1.0, 2.0, 8), 2.0], n) for n in shape]
    values = rng.standard_normal((outputs, *shape) if outputs else shape)
    values[rng.random(values.shape) < 0.3 * missing] = np.nan
    w = rng.uniform(0.5, 2.0, shape) if weighted else None
    mine = Statistics.from_grid(values, axes, grids, degrees, w)
    x = np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")], axis=1)
    y = values.reshape(max(outputs, 1), -1).T
    assert_same(mine, accumulated(x, y, grids, degrees, None if w is None else w.ravel()))


def test_gridded_shapes_that_do_not_fit_are_named():
    grids, axes = [Grid(0.0, 1.0, 4)] * 2, [np.linspace(0, 1, 5), np.linspace(0, 1, 6)]
    with pytest.raises(ValueError, match="1 axes, 2 grids and 2 degrees"):
        Statistics.from_grid(np.zeros((5, 6)), axes[:1], grids, [2, 2])
    with pytest.raises(
        ValueError, match=r"lengths \(5, 6\), but the values have shape \(1, 6, 5\)"
    ):
        Statistics.from_grid(np.zeros((6, 5)), axes, grids, [2, 2])
    with pytest.raises(ValueError, match="sample_weight has shape"):
        Statistics.from_grid(np.zeros((5, 6)), axes, grids, [2, 2], np.ones(5))


def test_circles_take_inputs_modulo_their_period():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-5.0, 9.0, (2, 200)), rng.standard_normal(200)
    x, z = x
    grids = Grid(0.5, 2.5, 16, cyclic=True), Grid(-5.0, 9.0, 6)
    smooths = ((Grid(0.0, 3.0, 24, cyclic=True), 3),)
    options = {"smooths": smooths, "smooth_inputs": (z,)}
    stats = Statistics.from_data((x, z), y, grids, (2, 1), **options)
    turned = Statistics.from_data((x + 4.0, z), y, grids, (2, 1), **options)
    np.testing.assert_allclose(turned.moments, stats.moments, atol=1e-9)
    functions = design(z, *smooths[0])
    np.testing.assert_allclose(stats.column_gram, functions.T @ functions, atol=1e-11)
    np.testing.assert_allclose(stats.column_targets[0], functions.T @ y, atol=1e-11)
    np.testing.assert_allclose(stats.cross[..., 0, 0, :].sum(axis=(0, 1)), functions.sum(axis=0))
    coarse = stats.coarsen((4, 1)).coarsen_columns(2)
    wide = {"smooths": ((Grid(0.0, 3.0, 12, cyclic=True), 3),), "smooth_inputs": (z,)}
    direct = Statistics.from_data((x, z), y, coarse.grids, (2, 1), **wide)
    for name in ("moments", "targets", "cross", "column_gram", "column_targets"):
        np.testing.assert_allclose(getattr(coarse, name), getattr(direct, name), atol=1e-10)
    longer = stats.extend([-9.0, -6.0], [9.0, 9.0], smooth_lower=[-9.0], smooth_upper=[9.0])
    assert (longer.grids[0], longer.smooths) == (grids[0], smooths)
    with pytest.raises(ValueError, match="16 cells around a circle"):
        stats.coarsen((3, 1))


@pytest.mark.parametrize("linear", [-1, 1, 2**31])
def test_more_linear_columns_than_there_are_take_no_memory(linear):
    stats = Statistics.from_data(np.linspace(0.0, 1.0, 9), np.zeros(9), Grid(0.0, 1.0, 4), 2)
    with pytest.raises(ValueError, match=f"linear is {linear}, of 0 columns"):
        replace(stats, linear=linear)
