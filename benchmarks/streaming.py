"""A stream through ``partial_fit``: constant memory, and points per second beside a plain read.

    python benchmarks/streaming.py [--points 1e9] [--chunk 4194304]

Chunks are generated on the fly (that time is not counted) and go through `partial_fit`, and
in the same run through a loop that only reads them.
"""

import argparse
import resource
import time

import numba
import numpy as np

from asvgp import GPRegressor, Matern32

SPAN = 1000.0


@numba.njit(nogil=True, fastmath=True)
def read(x, y):
    total = 0.0
    for n in range(len(x)):
        total += x[n] + y[n]
    return total


def chunk(rng, size):
    """Points anywhere on the span, in random order."""
    x = rng.uniform(0.0, SPAN, size)
    return x, np.sin(x) + 0.3 * np.sin(40.0 * x) + 0.1 * rng.standard_normal(size)


def peak():
    """Peak memory of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=float, default=1e9)
    parser.add_argument("--chunk", type=int, default=1 << 22)
    parser.add_argument("--basis", type=int, default=30_000)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    gp = GPRegressor(Matern32(), num_basis=options.basis, domain=(0.0, SPAN))
    read(*chunk(rng, 1000))
    gp.partial_fit(*chunk(rng, 1000))  # compile
    fitting = reading = 0.0
    done, after_first = 0, None
    while done < options.points:
        x, y = chunk(rng, options.chunk)
        begin = time.perf_counter()
        gp.partial_fit(x, y)
        middle = time.perf_counter()
        read(x, y)
        reading += time.perf_counter() - middle
        fitting += middle - begin
        done += len(x)
        after_first = after_first or peak()
    begin = time.perf_counter()
    gp.predict([0.5 * SPAN])  # trains
    training = time.perf_counter() - begin
    print(f"{done:,} points in chunks of {options.chunk:,}, {gp.num_basis_:,} basis functions")
    print(f"partial_fit: {done / fitting:.3g} points per second ({fitting:.1f} s)")
    print(f"plain read:  {done / reading:.3g} points per second; ratio {fitting / reading:.2f}")
    print(
        f"training once at the end: {training:.2f} s, noise {gp.noise_variance_:.5f} (truth 0.01)"
    )
    print(f"peak memory: {after_first:.0f} MiB after one chunk, {peak():.0f} MiB at the end")


if __name__ == "__main__":
    main()
