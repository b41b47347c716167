"""From a Parquet file to a fitted model, beside plain scans of the same columns.

    python benchmarks/sources.py [--rows 1e8] [--basis auto] [--csv] [--keep FOLDER]

Every measurement is a process of its own, for its peak memory. The plain scan reads the same two
columns of the same file with pyarrow and does nothing with them; so does DuckDB, where it is
installed. With --csv a CSV file of the same rows is scanned by both, too.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
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


def as_csv(path):
    """The same rows as text."""
    import pyarrow.csv
    import pyarrow.dataset as ds

    dataset = ds.dataset(path)
    with pyarrow.csv.CSVWriter(path.with_suffix(".csv"), dataset.schema) as writer:
        for batch in dataset.to_batches():
            writer.write_batch(batch)


def plain_scan(path, basis):
    """All batches of two columns."""
    import pyarrow.dataset as ds

    begin, rows = time.perf_counter(), 0
    kind = Path(path).suffix[1:]
    options = {"columns": ["x", "y"]}
    if kind == "parquet":
        options["fragment_scan_options"] = ds.ParquetFragmentScanOptions(pre_buffer=False)
    for batch in ds.dataset(path, format=kind).to_batches(**options):
        rows += batch.num_rows
    return {"rows": rows, "seconds": time.perf_counter() - begin}


def duckdb_scan(path, basis):
    """All batches of two columns, as DuckDB reads them."""
    import duckdb

    begin, rows = time.perf_counter(), 0
    with duckdb.connect() as connection:
        found = connection.sql("SELECT x, y FROM '" + str(path).replace("'", "''") + "'")
        named = "to_arrow_reader" if hasattr(found, "to_arrow_reader") else "fetch_record_batch"
        for batch in getattr(found, named)(1 << 17):
            rows += batch.num_rows
    return {"rows": rows, "seconds": time.perf_counter() - begin}


def fit(path, basis):
    """A model, the passes over the data counted apart from training."""
    from asvgp import GPRegressor, Matern32

    x = np.linspace(0.0, 1.0, 1 << 16)
    y = np.sin(9.0 * x) + 0.1 * np.random.default_rng(0).standard_normal(len(x))
    GPRegressor(Matern32(), num_basis=basis).fit({"x": x, "y": y}, "y")  # compile
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
    parser.add_argument("--csv", action="store_true", help="scan a CSV file of the rows, too")
    parser.add_argument("--keep", help="where the file is, or is to stay")
    parser.add_argument(
        "--work", choices=["plain_scan", "duckdb_scan", "fit"], help=argparse.SUPPRESS
    )
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
        texts = path.with_suffix(".csv")
        if options.csv and not texts.exists():
            as_csv(path)
        scans = ["plain_scan", "duckdb_scan"] if find_spec("duckdb") else ["plain_scan"]
        tasks = [(work, path) for work in (*scans, "fit")]
        tasks += [(work, texts) for work in scans] if options.csv else []
        best = {}
        for _ in range(options.repeats):
            for task in tasks:
                found = measured(*task, basis)
                if task not in best or found["seconds"] < best[task]["seconds"]:
                    best[task] = found
        size = path.stat().st_size / 2**20
    scan, model = best["plain_scan", path], best["fit", path]
    print(f"{rows:,} rows, a file of {size:.0f} MiB, {model['num_basis']:,} basis functions")
    for name, found in (("plain scan", scan), ("pass of the fit", model)):
        rate = found["rows"] / found["seconds"]
        print(f"{name}: {found['seconds']:.2f} s, {rate:.3g} rows/s, peak {found['peak']:.0f} MiB")
    print(f"ratio: {model['seconds'] / scan['seconds']:.2f}; training {model['training']:.2f} s")
    for file in (path, texts):
        if ("duckdb_scan", file) in best:
            ours, theirs = best["plain_scan", file], best["duckdb_scan", file]
            ratio = theirs["seconds"] / ours["seconds"]
            print(f"DuckDB takes {ratio:.2f} times as long as pyarrow to scan {file.suffix[1:]}")
    print(f"noise variance {model['noise']:.5f} (truth 0.01)")


if __name__ == "__main__":
    main()
