"""Ticks of maps of small places."""

from itertools import pairwise

import numpy as np

from asvgp import Constant, GPRegressor, Matern, plot


def test_ticks_of_a_small_place_are_whole_and_do_not_overlap():
    rng = np.random.default_rng(0)
    X = np.stack([rng.uniform(-123.80, -123.73, 200), rng.uniform(49.10, 49.15, 200)], axis=1)
    gp = GPRegressor(Matern(1, 0.02, dim=(0, 1)) + Constant(), num_basis=8, optimizer=None)
    axes = plot.map(gp.fit(X, np.sin(200.0 * X[:, 0])), X, np.sin(200.0 * X[:, 0]))
    for ax in axes:
        ax.figure.canvas.draw()
        for side in (ax.xaxis, ax.yaxis):
            assert side.get_offset_text().get_text() == ""
        low, high = ax.get_xlim()
        labels = [label for label in ax.get_xticklabels() if low <= label.get_position()[0] <= high]
        boxes = [label.get_window_extent() for label in labels]
        assert len(boxes) >= 2
        assert all(a.x1 < b.x0 for a, b in pairwise(boxes))
