"""From a Parquet file to a fitted model, beside a plain scan of the same columns.

    python benchmarks/sources.py [--rows 1e8] [--basis auto] [--keep FOLDER]

Every measurement is a process of its own, for its peak memory. The plain scan reads the same two
columns of the same file with pyarrow and does nothing with them.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

GROUP = 1 << 20
SPAN = 1000.0


def generate(path, rows):
    """A file of four columns, of which two are read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    kinds = {"x": pa.float64(), "y": pa.float64(), "station": pa.int32(), "quality": pa.float64()}
    with pq.ParquetWriter(path, pa.schema(list(kinds.items()))) as writer:
        for begin in range(0, rows, GROUP):
            size = min(GROUP, rows - begin)
            x = rng.uniform(0.0, SPAN, size)
            y = np.sin(x) + 0.3 * np.sin(40.0 * x) + 0.1 * rng.standard_normal(size)
            station = rng.integers(0, 100, size, dtype=np.int32)
            columns = [x, y, station, rng.uniform(size=size)]
            writer.write_batch(pa.record_batch([pa.array(c) for c in columns], names=list(kinds)))


def plain_scan(path, basis):
    """All batches of two columns."""
    import pyarrow.dataset as ds

    begin, rows = time.perf_counter(), 0
    options = ds.ParquetFragmentScanOptions(pre_buffer=False)
    dataset = ds.dataset(path)
    for batch in dataset.to_batches(columns=["x", "y"], fragment_scan_options=options):
        rows += batch.num_rows
    return {"rows": rows, "seconds": time.perf_counter() - begin}


def fit(path, basis):
    """A model, the passes over the data counted apart from training."""
    from asvgp import GPRegressor, Matern32

    x = np.linspace(0.0, 1.0, 1 << 16)
    GPRegressor(Matern32(), num_basis=basis).fit({"x": x, "y": np.sin(9.0 * x)}, "y")  # compile
    gp = GPRegressor(Matern32(dim="x"), num_basis=basis).fit(path, "y")
    timings = gp.timings_
    seconds = timings.pop("pass")
    return {
        "rows": gp.stats_.count,
        "seconds": seconds,
        "training": sum(timings.values()),
        "num_basis": gp.num_basis_,
        "noise": gp.noise_variance_,
    }


def measured(work, path, basis):
    """A measurement in a process of its own."""
    command = [sys.executable, __file__, "--work", work, "--keep", str(path), "--basis", str(basis)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--basis", default="auto")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--keep", help="where the file is, or is to stay")
    parser.add_argument("--work", choices=["plain_scan", "fit"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    basis = options.basis if options.basis == "auto" else int(options.basis)
    if options.work:
        found = globals()[options.work](options.keep, basis)
        found["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(found))
        return
    rows = int(options.rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(options.keep or folder) / f"rows_{rows}.parquet"
        if not path.exists():
            generate(path, rows)
        best = {}
        for _ in range(options.repeats):
            for work in ("plain_scan", "fit"):
                found = measured(work, path, basis)
                if work not in best or found["seconds"] < best[work]["seconds"]:
                    best[work] = found
        size = path.stat().st_size / 2**20
    scan, model = best["plain_scan"], best["fit"]
    print(f"{rows:,} rows, a file of {size:.0f} MiB, {model['num_basis']:,} basis functions")
    for name, found in (("plain scan", scan), ("pass of the fit", model)):
        rate = found["rows"] / found["seconds"]
        print(f"{name}: {found['seconds']:.2f} s, {rate:.3g} rows/s, peak {found['peak']:.0f} MiB")
    print(f"ratio: {model['seconds'] / scan['seconds']:.2f}; training {model['training']:.2f} s")
    print(f"noise variance {model['noise']:.5f} (truth 0.01)")


if __name__ == "__main__":
    main()
