"""Work over long arrays in chunks, on all cores, without copies of size N.

The kernels release the interpreter lock, so plain threads are enough. A chunk that is not
float64 and contiguous already is converted by itself.
"""

import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from asvgp.basis import Array

CHUNK = 1 << 16
_SERIAL = 1 << 15  # shorter arrays are not worth a thread


def cores() -> int:
    """Return the number of cores that this process may use, at most eight."""
    affinity = getattr(os, "sched_getaffinity", None)
    available = len(affinity(0)) if affinity else os.cpu_count() or 1
    return min(available, 8)


@lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:
    """Return the pool of this process: a forked child must not inherit its parent's threads."""
    return ThreadPoolExecutor(max_workers=cores(), thread_name_prefix="asvgp")


class _OneBlasThread:
    """A context in which BLAS does not start threads: our matrices are 3 x 3.

    OpenBLAS wakes its threads for the tiny systems inside L-BFGS, which takes longer than
    everything else in a small fit. The setting is the process's, so of several fits at
    once the first changes it and the last restores it.
    """

    def __init__(self) -> None:
        self.lock, self.inside = threading.Lock(), 0
        self.controller: ThreadpoolController | None = None  # takes a while to look up
        self.limiter: Any = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        """Forget the fits of the parent's threads, one of which may have held the lock."""
        self.lock, self.inside = threading.Lock(), 0

    def __enter__(self) -> None:
        with self.lock:
            if self.controller is None:
                self.controller = ThreadpoolController()
            if self.inside == 0 and self.limiter is None:
                self.limiter = self.controller.limit(limits=1, user_api="blas")
            self.inside += 1

    def __exit__(self, *exception) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0:
                self.limiter.restore_original_limits()
                self.limiter = None


one_blas_thread = _OneBlasThread()


def split(length: int, least: int = _SERIAL) -> list[tuple[int, int]]:
    """Split ``range(length)`` into contiguous shares, one per core, of ``least`` or more."""
    shares = max(1, min(cores(), length // max(least, _SERIAL)))
    edges = [length * i // shares for i in range(shares + 1)]
    return list(itertools.pairwise(edges))


def each_share(length: int, work: Callable[[int, int], object], least: int = _SERIAL) -> list:
    """Call ``work(start, stop)`` on every share and return the results in order."""
    shares = split(length, least)
    if len(shares) == 1:
        return [work(*shares[0])]
    return list(_pool(os.getpid()).map(lambda share: work(*share), shares))


def each_chunk(start: int, stop: int):
    """Yield ranges of at most ``CHUNK`` rows."""
    for begin in range(start, stop, CHUNK):
        yield begin, min(begin + CHUNK, stop)


def as_doubles(values) -> Array:
    """Return a chunk as contiguous float64, without a copy where it already is that."""
    return np.ascontiguousarray(values, dtype=np.float64)
