"""The pass over Parquet files on Dask, by 1 and 2 worker processes, beside one plain process.

    python benchmarks/dask_pass.py [--rows 2e7] [--parts 16] [--repeats 3]

Every worker has one core to itself, as on a cluster; the plain process is measured on one core
and on all of them. The domain is given, so that all make one pass. Times are minima over repeats
that alternate between the contestants, so that a busy machine disturbs all alike.
"""

import argparse
import json
import logging
import os
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

SPAN = 1000.0


def generate(folder, rows, parts):
    """Files of as many rows each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    for number in range(parts):
        size = rows // parts
        x = rng.uniform(0.0, SPAN, size)
        y = np.sin(x) + 0.3 * np.sin(40.0 * x) + 0.1 * rng.standard_normal(size)
        path = Path(folder) / f"{number:03d}.parquet"
        pq.write_table(pa.table({"x": x, "y": y, "station": rng.integers(0, 99, size)}), path)


def model(basis):
    """A model that is not trained, of which the pass is all that takes long."""
    from asvgp import GPRegressor, Matern32

    kernel, settings = Matern32(dim="x"), {"optimizer": None, "noise_variance": 0.01}
    return GPRegressor(kernel, num_basis=basis, domain=(0.0, SPAN), progress=False, **settings)


def plain(folder, basis, cores):
    """One process, on some of the cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(before)[:cores]))
    try:
        return model(basis).fit(folder, "y")
    finally:
        os.sched_setaffinity(0, before)


def on_dask(folder, basis):
    """On the workers of the client that is current."""
    import dask.dataframe as dd

    return model(basis).fit(dd.read_parquet(folder), "y")


def pin(dask_worker, cores):
    """Give a worker a core of its own."""
    os.sched_setaffinity(0, {cores[dask_worker.name]})


def clusters(counts):
    """Clusters of so many single-threaded workers, each on its core."""
    from distributed import Client, LocalCluster

    cores, found = sorted(os.sched_getaffinity(0)), {}
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    for count in counts:
        cluster = LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
        )
        client = Client(cluster, set_as_default=False)
        own = {
            worker.name: cores[i % len(cores)] for i, worker in enumerate(cluster.workers.values())
        }
        client.run(pin, cores=own)
        found[count] = client
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=2e7)
    parser.add_argument("--parts", type=int, default=16)
    parser.add_argument("--basis", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", help="write the results to this file")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", message="The inplace keyword")  # Dask's own use of pandas
    rows, basis = int(arguments.rows) // arguments.parts * arguments.parts, arguments.basis
    machine = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        generate(folder, rows, arguments.parts)
        clients = clusters([1, 2])
        work = {
            "plain, 1 core": lambda: plain(folder, basis, 1),
            f"plain, {machine} cores": lambda: plain(folder, basis, machine),
        }
        for count, client in clients.items():
            work[f"Dask, {count} worker{'s' * (count > 1)}"] = lambda c=client: with_client(
                c, lambda: on_dask(folder, basis)
            )
        best, fits = dict.fromkeys(work, np.inf), {}
        for name, run in work.items():  # compiled, and files in the page cache
            fits[name] = run()
        for _ in range(arguments.repeats):
            for name, run in work.items():
                begin = time.perf_counter()
                run()
                best[name] = min(best[name], time.perf_counter() - begin)
        for client in clients.values():
            cluster = client.cluster
            client.close()
            cluster.close()
    reference = fits["plain, 1 core"].stats_.moments
    scale = np.abs(reference).max()
    results = {}
    print(f"{rows:,} rows in {arguments.parts} files, {basis} basis functions")
    for name, seconds in best.items():
        difference = float(np.abs(fits[name].stats_.moments - reference).max() / scale)
        ratio = best["plain, 1 core"] / seconds
        results[name] = {
            "seconds": seconds,
            "rows_per_second": rows / seconds,
            "ratio_to_plain_on_one_core": ratio,
            "difference": difference,
        }
        print(
            f"{name:>16}: {seconds:6.2f} s, {rows / seconds / 1e6:6.1f} million rows a second, "
            f"{ratio:4.2f} times plain on one core; sums differ by {difference:.0e}"
        )
    print(
        f"2 workers beside 1: {best['Dask, 1 worker'] / best['Dask, 2 workers']:.2f} times as fast"
    )
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=1))


def with_client(client, work):
    """Work on a client's cluster."""
    with client.as_current():
        return work()


if __name__ == "__main__":
    main()
