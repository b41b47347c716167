"""K^-1 G K^-1 on the leaves against dense matrices, and trees with cells beyond the data."""

import numpy as np
import pytest

from asvgp.linalg.multifrontal import Space, symbolic
from asvgp.linalg.multifrontal.cpu import CpuFactor
from asvgp.linalg.multifrontal.errors import NotPositiveDefinite
from asvgp.linalg.multifrontal.sandwich import selected_sandwich
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
    found = selected_sandwich(tree, device.move(elements), device.move(others), device.move)
    inverse = np.linalg.inv(stiffness)
    for part, whole in zip(found, (inverse, inverse @ gram @ inverse), strict=True):
        index = tree.leaf_index
        there = (index >= 0)[:, :, None] & (index >= 0)[:, None, :]
        wanted = np.where(there, whole[index[:, :, None], index[:, None, :]], 0.0)
        np.testing.assert_allclose(device.back(part), wanted, atol=1e-10 * np.abs(whole).max())
    factor = CpuFactor(tree, lambda start, stop: elements[start:stop])
    assert factor.log_det == pytest.approx(np.linalg.slogdet(stiffness)[1])


def test_a_matrix_that_is_not_positive_definite_is_an_error():
    tree = TREES["plane"]
    elements, _ = assemble(tree, 0)
    elements[3] -= 100.0 * np.eye(elements.shape[1])
    with pytest.raises(NotPositiveDefinite):
        selected_sandwich(tree, elements, elements, np.asarray)
