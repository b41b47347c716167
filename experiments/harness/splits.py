"""Training and test rows, standardised."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.harness.datasets import Dataset
from experiments.harness.scores import Array


@dataclass(frozen=True)
class Split:
    """Rows to train on and rows held out; y has mean 0 and variance 1 over the training rows."""

    dataset: str
    seed: int
    x: Array
    y: Array
    x_test: Array
    y_test: Array

    @property
    def size(self) -> int:
        """Number of training rows."""
        return len(self.y)


def split(data: Dataset, seed: int, train: float = 0.9, rows: int | None = None) -> Split:
    """A random part of the rows to train on, the rest to test.

    Parameters
    ----------
    data : Dataset
    seed : int
    train : float
        Share of the rows.
    rows : int, optional
        So many rows, drawn at random, instead of all.
    """
    order = np.random.default_rng(seed).permutation(len(data.y))[:rows]
    cut = round(train * len(order))
    a, b = np.sort(order[:cut]), np.sort(order[cut:])
    shift, scale = float(np.mean(data.y[a])), float(np.std(data.y[a]))
    y = (data.y - shift) / (scale or 1.0)
    return Split(data.name, seed, data.x[a], y[a], data.x[b], y[b])
