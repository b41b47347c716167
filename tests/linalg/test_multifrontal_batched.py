"""The batched elimination against dense matrices: on a GPU if there is one, else on the CPU."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asvgp.linalg.multifrontal import Space, symbolic
from asvgp.linalg.multifrontal.errors import NotPositiveDefinite
from tests.linalg.test_multifrontal_symbolic import (
    COARSE,
    EXAMPLES,
    FLAT,
    assemble,
    each_example,
    trees,
)

torch = pytest.importorskip("torch")

from asvgp.linalg.multifrontal import batched, chunks  # noqa: E402
from asvgp.linalg.multifrontal.batched import BatchedFactor, factor_panel, invert_lower  # noqa: E402
from asvgp.linalg.multifrontal.gather import gather, plain_gather  # noqa: E402

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def tensor(array):
    return torch.from_numpy(array).to(DEVICE)


@pytest.fixture(autouse=True)
def one_thread():
    """Of no use for tiny matrices, and slow where other processes keep the cores busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def factorise(tree, elements, calls=None):
    elements = tensor(elements)

    def some(start, stop):
        if calls is not None:
            calls.append((start, stop))
        return elements[start:stop]

    return BatchedFactor(tree, some, DEVICE)


def selected_inverse(tree, factor):
    """All leaves' blocks in one array, and the ranges they came in."""
    blocks, ranges = np.full((*tree.leaf_index.shape, tree.leaf_index.shape[1]), np.nan), []

    def consume(start, stop, z):
        blocks[start:stop] = z.cpu().numpy()
        ranges.append((start, stop))

    factor.selected_inverse(consume)
    return blocks, ranges


def expected_blocks(tree, inverse):
    padded = np.pad(inverse, (0, 1))  # number -1 is the row of zeros
    return np.stack([padded[np.ix_(numbers, numbers)] for numbers in tree.leaf_index])


def check(tree, seed=0):
    elements, total = assemble(tree, seed)
    rng = np.random.default_rng(seed)
    factor = factorise(tree, elements)
    inverse = np.linalg.inv(total)
    assert factor.log_det == pytest.approx(np.linalg.slogdet(total)[1], rel=1e-12)
    for shape in [(tree.size,), (tree.size, 3)]:
        rhs = rng.standard_normal(shape)
        x = factor.solve(tensor(rhs))
        assert x.shape == rhs.shape
        np.testing.assert_allclose(x.cpu().numpy(), np.linalg.solve(total, rhs), atol=1e-11)
    z, _ = selected_inverse(tree, factor)
    np.testing.assert_allclose(z, expected_blocks(tree, inverse), atol=1e-11)
    assert np.all(z[expected_blocks(tree, np.ones_like(inverse)) == 0.0] == 0.0)
    root = factor.sample(tensor(np.eye(tree.size))).cpu().numpy()
    np.testing.assert_allclose(root @ root.T, inverse, atol=1e-11)


@settings(deadline=None, max_examples=15)
@given(tree=trees() | st.sampled_from(EXAMPLES), seed=st.integers(0, 1000))
def test_against_dense(tree, seed):
    check(tree, seed)


@pytest.mark.parametrize(
    "cells, spaces",
    [
        ((1, 41), (Space((3, 2), (0, 0)),)),
        ((37,), (Space((2,), (0,)), Space((0,), (2,)))),
        ((2, 3, 19), (Space((2, 1, 1), (0, 0, 0)), Space((None, None, 2), (0, 0, 1)))),
        ((8, 8), (Space((0, 0), (0, 0)),)),  # nothing is ever passed on
    ],
    ids=["row", "chain", "bar", "diagonal"],
)
@pytest.mark.parametrize("columns", [0, 2])
def test_odd_grids(cells, spaces, columns):
    check(symbolic(cells, spaces, columns))


@each_example
@pytest.mark.parametrize("limit", [1, 3000])
def test_in_small_chunks(tree, limit, monkeypatch):
    def small(tree, device):
        return chunks.chunks(tree, device, limit)

    elements, _ = assemble(tree)
    whole = factorise(tree, elements)
    monkeypatch.setattr(batched, "chunks", small)
    calls = []
    factor = factorise(tree, elements, calls)
    assert len(calls) > 1 or len(tree.leaves) == 1
    assert [start for start, _ in calls] == [0, *[stop for _, stop in calls[:-1]]]
    assert factor.log_det == pytest.approx(whole.log_det, rel=1e-13)
    assert factor.nbytes <= whole.nbytes
    rhs = tensor(np.ones(tree.size))
    torch.testing.assert_close(factor.solve(rhs), whole.solve(rhs), atol=1e-12, rtol=0)
    z, ranges = selected_inverse(tree, factor)
    assert ranges == calls
    np.testing.assert_allclose(z, selected_inverse(tree, whole)[0], atol=1e-12)


@pytest.mark.parametrize("base, strip", [(1, 2), (3, 5)])
def test_blocked_recursions(base, strip, monkeypatch):
    monkeypatch.setattr(batched, "FACTOR_BASE", base)
    monkeypatch.setattr(batched, "INVERSE_BASE", base + 1)
    monkeypatch.setattr(batched, "STRIP", strip)
    check(COARSE)
    half = torch.randn(4, 11, 11, dtype=torch.float64, device=DEVICE)
    front = half @ half.mT + torch.eye(11, device=DEVICE)
    panel = front[:, :, :7].clone()
    panel[:, :7].tril_()
    assert not factor_panel(panel).any()
    torch.testing.assert_close(panel[:, :7], torch.linalg.cholesky(front[:, :7, :7]))
    torch.testing.assert_close(panel @ panel[:, :7].mT, front[:, :, :7])
    product = invert_lower(panel[:, :7]) @ panel[:, :7]
    torch.testing.assert_close(product, tensor(np.eye(7)).expand(4, 7, 7))


def test_reuse_and_memory():
    elements, total = assemble(FLAT)
    first, second = factorise(FLAT, elements), factorise(FLAT, 2.0 * elements)
    assert second.log_det == pytest.approx(first.log_det + FLAT.size * np.log(2.0))
    rhs = tensor(np.ones(FLAT.size))
    x = first.solve(rhs)
    assert torch.equal(rhs, torch.ones_like(rhs))
    torch.testing.assert_close(x, 2.0 * second.solve(rhs))
    np.testing.assert_allclose(total @ x.cpu().numpy(), 1.0)
    torch.testing.assert_close(first.solve(rhs), x)
    np.testing.assert_array_equal(*(selected_inverse(FLAT, first)[0] for _ in range(2)))
    assert first._root is second._root
    assert 8 * FLAT.cost().factor_nonzeros < first.nbytes < 5 * 8 * FLAT.cost().factor_nonzeros


def test_elements_of_the_wrong_shape_or_type():
    elements, _ = assemble(FLAT)
    with pytest.raises(ValueError, match="should be"):
        factorise(FLAT, elements[:, 1:])
    with pytest.raises(ValueError, match="float32"):
        factorise(FLAT, elements.astype(np.float32))


@pytest.mark.parametrize("level", range(len(FLAT.levels)))
@pytest.mark.parametrize("value", [-1e3, np.nan])
def test_not_positive_definite(level, value):
    elements, _ = assemble(FLAT)
    fronts = FLAT.levels[level]
    boxes = np.flatnonzero(fronts.num_pivots)
    box = boxes[len(boxes) // 2]
    number = fronts.pivots[box][fronts.num_pivots[box] // 2]
    leaf, position = np.argwhere(FLAT.leaf_index == number)[0]
    elements[leaf, position, position] = value
    with pytest.raises(NotPositiveDefinite, match=f"level {level}, box {box}, ") as caught:
        factorise(FLAT, elements)
    error = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(error, np.linalg.LinAlgError)
    assert (error.level, error.box) == (level, box)
    np.testing.assert_array_equal(error.pivots, fronts.pivots[box][: fronts.num_pivots[box]])
    assert error.failed == number


def test_gather():
    parts = np.arange(24.0).reshape(2, 3, 4)
    parts[:, 2, 3] = np.nan
    parts = tensor(parts)
    rows = tensor(np.array([[[0, -1], [1, 0]]], dtype=np.int32))
    columns = tensor(np.array([[[2, -1, 1], [-1, -1, 0]]], dtype=np.int32))
    out = tensor(np.full((1, 3, 4), np.nan))
    gather(parts, rows, columns, out[:, 1:, :3])
    assert out[0, 1:, :3].tolist() == [[2.0, 0.0, 1.0 + 16.0], [0.0, 0.0, 12.0]]
    assert torch.isnan(out[:, 0]).all()
    places = rows.view(2, 1, 2)
    shared = gather(parts, places, places, tensor(np.empty((2, 2, 2))), share=2)
    assert shared.tolist() == [[[0.0, 0.0], [0.0, 0.0]], [[5.0, 4.0], [1.0, 0.0]]]


def test_gather_of_nothing():
    none, places = tensor(np.empty((1, 0, 0))), tensor(np.full((1, 1, 2), -1, dtype=np.int32))
    out = tensor(np.full((1, 2, 2), np.nan))
    assert gather(none, places, places, out) is out
    assert out.tolist() == [[[0.0, 0.0], [0.0, 0.0]]]
    assert gather(out, places[:, :, :0], places, out[:, :0]).shape == (1, 0, 2)


@pytest.mark.skipif(DEVICE.type == "cpu", reason="the kernel needs a GPU")
def test_the_kernel_agrees_with_plain_torch():
    torch.manual_seed(0)
    for n, c, share in [(3, 2, 1), (4, 1, 2), (5, 1, 1)]:
        parts = torch.randn(n * c // share, 50, 60, dtype=torch.float64, device=DEVICE)
        rows = torch.randint(-1, 50, (n, c, 43), dtype=torch.int32, device=DEVICE)[:, :, 3:]
        columns = torch.randint(-1, 60, (n, c, 70), dtype=torch.int32, device=DEVICE)
        expected = torch.zeros(n, 42, 71, dtype=torch.float64, device=DEVICE)
        result = expected.clone()
        plain_gather(parts, rows, columns, expected[:, 2:, 1:], share)
        gather(parts, rows, columns, result[:, 2:, 1:], share)
        assert torch.equal(result, expected)
