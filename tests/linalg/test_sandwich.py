"""K^-1 G K^-1 on the leaves against dense matrices, and trees with cells beyond the data."""

import numpy as np
import pytest

from asvgp.linalg.multifrontal import Space, symbolic
from asvgp.linalg.multifrontal.cpu import CpuFactor
from asvgp.linalg.multifrontal.fronts import SMALL
from asvgp.model.devices import device_for
from tests.linalg.test_multifrontal_symbolic import assemble

TREES = {
    "plane": symbolic((11, 9), (Space((2, 3), (0, 0)),), 0, (3, 3)),
    "space": symbolic((5, 4, 6), (Space((2, 1, 2), (0, 0, 0)),), 0, (2, 2, 2)),
    "one leaf": symbolic((3, 3), (Space((2, 2), (0, 0)),), 0, (4, 4)),
    "two components, cells beyond the data": symbolic(
        (16, 15),
        (
            Space((3, 3), (0, 0), (), (3, 2), (3, 2)),
            Space((2, 3), (1, 1), (), (3, 2), (2, 1)),
            Space((2, 1), (1, 0), (), (3, 2), (0, 0)),
        ),
        0,
        (4, 4),
    ),
}


@pytest.mark.parametrize("name", ["cpu", "torch"])
@pytest.mark.parametrize("tree", TREES.values(), ids=TREES.keys())
def test_both_are_those_of_dense_matrices(tree, name):
    elements, stiffness = assemble(tree, 0)
    others, gram = assemble(tree, 1)
    if name == "torch":
        pytest.importorskip("torch")
    device = device_for(name)
    moved = device.move(elements)
    factor = device.factor(tree, lambda start, stop: moved[start:stop], False)
    found = factor.selected_sandwich(device.move(others))
    inverse = np.linalg.inv(stiffness)
    compare(tree, [device.back(part) for part in found], inverse, inverse @ gram @ inverse)
    assert factor.log_det == pytest.approx(np.linalg.slogdet(stiffness)[1])


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_fronts_of_many_rows_and_several_threads(threads):
    """Above 256 rows a front is not mirrored, and more than 32 are changed strip by strip."""
    tree = symbolic((30, 28), (Space((3, 3), (0, 0)),), 0, (15, 14))
    assert max(level.rows.shape[1] for level in tree.levels) > SMALL
    elements, stiffness = assemble(tree, 0)
    others, gram = assemble(tree, 1)
    factor = CpuFactor(tree, lambda start, stop: elements[start:stop], threads)
    inverse = np.linalg.inv(stiffness)
    compare(tree, factor.selected_sandwich(others), inverse, inverse @ gram @ inverse)


def compare(tree, found, *dense):
    """Compare blocks on the leaves with dense matrices."""
    index = tree.leaf_index
    there = (index >= 0)[:, :, None] & (index >= 0)[:, None, :]
    for part, whole in zip(found, dense, strict=True):
        wanted = np.where(there, whole[index[:, :, None], index[:, None, :]], 0.0)
        np.testing.assert_allclose(part, wanted, atol=1e-10 * np.abs(whole).max())
