"""Statistics of many inputs against their definition, and their algebra."""

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
from tests.dense import design

SUMS = ("moments", "targets", "cross", "column_gram", "column_targets", "squares")
# Few pairs of last degrees: every pair is compiled by itself.
DEGREES = [(), (2,), (2, 2), (1, 2), (1, 2, 2), (3, 1, 2), (2, 1, 1, 2)]


def assert_same(a: Statistics, b: Statistics, rtol=1e-12):
    """Equal up to rounding of the sums, whose size that of |y|, |c| and w tells."""
    assert (a.grids, a.degrees, a.smooths, a.linear) == (b.grids, b.degrees, b.smooths, b.linear)
    for name in SUMS:
        mine, theirs = getattr(a, name), getattr(b, name)
        assert mine.shape == theirs.shape
        assert mine.flags.c_contiguous
        size = np.abs(theirs).max(initial=0.0) + (b.weight + b.squares.sum()) * 1e-2
        np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=rtol * size, err_msg=name)
    assert (a.count, a.missing) == (b.count, b.missing)
    assert a.log_weights == pytest.approx(b.log_weights, rel=1e-10, abs=1e-9)


def direct(x, y, grids, degrees, w, smooths, z, linear):
    """The definition, in NumPy."""
    y = y[:, None] if y.ndim == 1 else y
    keep = ~np.isnan(y).any(axis=1)
    total = len(y)
    x, y, w = x[keep], y[keep], w[keep]
    blocks = [design(z[keep, j], grid, k) for j, (grid, k) in enumerate(smooths)]
    columns = np.hstack([np.zeros((len(y), 0)), *blocks, linear[keep]])
    stats = Statistics.empty(grids, degrees, y.shape[1], smooths=smooths, linear=linear.shape[1])
    located = [grid.locate(x[:, d]) for d, grid in enumerate(grids)]
    cell = (np.zeros(len(y), int), *(c for c, _ in located))  # one axis more: D may be zero
    moments, targets, cross = stats.moments[None], stats.targets[:, None], stats.cross[None]

    def powers(j):
        return prod((s**i for i, (_, s) in zip(j, located, strict=True)), start=np.ones(len(y)))

    for j in product(*(range(2 * k + 1) for k in degrees)):
        np.add.at(moments, (*cell, *j), w * powers(j))
    for j in product(*(range(k + 1) for k in degrees)):
        for o in range(y.shape[1]):
            np.add.at(targets[o], (*cell, *j), w * y[:, o] * powers(j))
        for i in range(columns.shape[1]):
            np.add.at(cross, (*cell, *j, i), w * columns[:, i] * powers(j))
    weighted = w[:, None] * columns
    return replace(
        stats,
        column_gram=weighted.T @ columns,
        column_targets=y.T @ weighted,
        squares=(w[:, None] * y**2).sum(axis=0),
        count=len(y),
        missing=total - len(y),
        log_weights=np.log(w).sum(),
    )


def sample(rng, n, degrees, smooths=(), outputs=1, linear=0, cells=4, on_knots=0):
    """Inputs, the first of them on knots and ends, and everything else that goes with them."""
    grids = tuple(Grid(-1.0 - d, 2.0, cells + d) for d in range(len(degrees)))
    x = np.stack([rng.uniform(g.lower, g.upper, n) for g in grids] or [np.zeros(n)], axis=1)
    for d, grid in enumerate(grids):
        x[:on_knots, d] = rng.choice(grid.knots, on_knots)
    x = x[:, : len(grids)]
    z = np.stack([rng.uniform(g.lower, g.upper, n) for g, _ in smooths] or [np.zeros(n)], axis=1)
    return (
        grids,
        x,
        z[:, : len(smooths)],
        rng.standard_normal((n, outputs)),
        rng.random((n, linear)),
    )


def accumulated(x, y, grids, degrees, w=None, smooths=(), z=None, linear=None, **more):
    return Statistics.from_data(
        x, y, grids, degrees, w, smooths=smooths, smooth_inputs=z, covariates=linear, **more
    )


SMOOTHS = (Grid(0.0, 1.0, 5), 2), (Grid(-3.0, 1.0, 3), 1)


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


def test_one_input_agrees_with_the_chain():
    rng = np.random.default_rng(3)
    x, y, w = rng.uniform(0, 1, 500), rng.standard_normal((500, 2)), rng.uniform(1, 2, 500)
    y[7, 1] = np.nan
    one = Statistics.from_data(x, y, Grid(0.0, 1.0, 9), 2, w)
    field = Statistics.from_data(x, y, [Grid(0.0, 1.0, 9)], [2], w)
    np.testing.assert_allclose(field.moments, one.moments, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(field.targets, one.targets, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(field.squares, one.squares)
    assert (field.count, field.missing) == (one.count, one.missing)
    assert field.weight == pytest.approx(one.weight)
    assert field.densest == pytest.approx(one.densest)
    assert field.log_weights == pytest.approx(one.log_weights)


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


@pytest.mark.parametrize("degrees", [(2,), (1, 2), (1, 2, 2)])
@pytest.mark.parametrize("cells", [8, 5])
def test_coarsened_equals_directly_accumulated(degrees, cells):
    rng = np.random.default_rng(5)
    grids, x, z, y, columns = sample(rng, 400, degrees, SMOOTHS, 2, 1, cells)
    rest = degrees, rng.uniform(0.5, 2.0, 400), SMOOTHS, z, columns
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


def test_what_was_added_can_be_forgotten_and_nothing_else():
    data = large(n=3000, cells=5)
    early, late = accumulated(*rows(data, slice(1000))), accumulated(*rows(data, slice(1000, None)))
    assert_same(early + late - early, late, rtol=1e-11)
    nothing = early - early
    for name in SUMS[:5]:
        assert not getattr(nothing, name).any(), name
    with pytest.raises(ValueError, match=r"never added: .* cell \(\d+, \d+\) the first of"):
        early - late
    x, y, grids, degrees, w, smooths, z, columns = rows(data, slice(1000))
    with pytest.raises(ValueError, match="never added"):
        early - accumulated(x, 2.0 * y, grids, degrees, w, smooths, z, columns)
    with pytest.raises(ValueError, match="never added"):
        early - accumulated(x, y, grids, degrees, w, smooths, z, 2.0 * columns)


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
