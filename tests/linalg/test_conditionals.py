"""Predictions of points from their neighbours against dense conditional distributions."""

import numpy as np
import pytest

from asvgp.linalg.conditionals import conditionals


@pytest.mark.parametrize("points", [1, 2, 5])
@pytest.mark.parametrize("inputs", [1, 3])
def test_predictions_of_first_points(points, inputs):
    rng = np.random.default_rng(points)
    places, values = rng.uniform(size=(4, points, inputs)), rng.standard_normal((4, points, 2))
    lengths, ratio = rng.uniform(0.2, 1.0, inputs), 0.1
    logs, squares = [], []
    for group, y in zip(places, values, strict=True):
        scaled = np.sqrt(3.0) * np.abs(group[:, None] - group) / lengths
        cov = np.prod((1.0 + scaled) * np.exp(-scaled), axis=2) + ratio * np.eye(points)
        weights = np.linalg.solve(cov[1:, 1:], cov[1:, 0])
        variance = cov[0, 0] - cov[0, 1:] @ weights
        logs.append(np.log(variance))
        squares.append((y[0] - weights @ y[1:]) ** 2 / variance)
    log, square = conditionals(places, values, lengths, ratio)
    assert log == pytest.approx(np.mean(logs), rel=1e-10, abs=1e-12)
    np.testing.assert_allclose(square, np.mean(squares, axis=0), rtol=1e-10)
