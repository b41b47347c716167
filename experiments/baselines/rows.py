"""Rows of data: checked once, then handed on in chunks, to one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from threadpoolctl import threadpool_limits


def checked_inputs(X) -> np.ndarray:
    """``X`` as an (N, D) array of finite float64."""
    X = np.asarray(X, dtype=np.float64)
    if X.ndim == 1:
        X = X[:, None]
    if X.ndim != 2 or X.shape[1] == 0:
        raise ValueError(f"X must have shape (N,) or (N, D), not {X.shape}")
    bad = np.flatnonzero(~np.isfinite(X).all(axis=1))
    if len(bad):
        raise ValueError(f"X has NaN or infinity in {len(bad)} rows, the first is row {bad[0]}")
    return X


def checked(X, y) -> tuple[np.ndarray, np.ndarray]:
    """``X`` as (N, D) and ``y`` as (N,), finite and of one length."""
    X = checked_inputs(X)
    y = np.asarray(y, dtype=np.float64)
    if y.shape != (len(X),):
        raise ValueError(f"y must have shape ({len(X)},) as X has {len(X)} rows, not {y.shape}")
    if len(y) == 0:
        raise ValueError("no rows: at least one is needed")
    bad = np.flatnonzero(~np.isfinite(y))
    if len(bad):
        raise ValueError(f"y has NaN or infinity in {len(bad)} rows, the first is row {bad[0]}")
    return X, y


def chunks(size: int, *arrays: np.ndarray) -> Iterator[tuple[torch.Tensor, ...]]:
    """Consecutive blocks of at most ``size`` rows, as tensors."""
    for first in range(0, len(arrays[0]), size):
        yield tuple(torch.tensor(array[first : first + size]) for array in arrays)


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums in one order, so the digits do not depend on the machine's cores.

    The matrices are small, too: PyTorch's threads and those of NumPy's BLAS mostly wait for
    each other.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)
