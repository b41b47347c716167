"""How long does compiling take where nothing has been compiled before?

    python benchmarks/compile.py             # two minutes; --json results.json to keep them

Every sequence runs in a process of its own with an empty cache of numba. Seconds are CPU
seconds of the process, LLVM's included: from the import to predictions with standard
deviations for the first fit, and what each further fit takes beyond the same fit repeated.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings

SEQUENCES = {
    "one input": [
        "Matern52",
        "Matern32",
        "Matern12",
        "Matern72",
        "SHO",
        "sum",
        "effects",
        "outputs",
    ],
    "two inputs": ["Matern32", "two inputs"],
}
LIMITS = {"first": 8.0, "two inputs": 12.0, "further": 2.0}  # CPU seconds


def fits():
    """Every fit of the sequences, by name."""
    import numpy as np

    from asvgp import SHO, Constant, GPRegressor, Linear, Matern12, Matern32, Matern52, Matern72

    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 10.0, 1_000))
    y = np.sin(x) + 0.1 * rng.standard_normal(1_000)
    places = rng.uniform(size=(2_000, 2))
    values = np.sin(5.0 * places[:, 0]) + places[:, 1] + 0.1 * rng.standard_normal(2_000)

    def line(kernel, targets=y):
        GPRegressor(kernel, num_basis=100).fit(x, targets).predict(x[:100], return_std=True)

    def field():
        GPRegressor(Matern32(), num_basis=16).fit(places, values).predict(
            places[:100], return_std=True
        )

    return {
        "Matern12": lambda: line(Matern12()),
        "Matern32": lambda: line(Matern32()),
        "Matern52": lambda: line(Matern52()),
        "Matern72": lambda: line(Matern72()),
        "SHO": lambda: line(SHO()),
        "sum": lambda: line(Matern52(2.0) + Matern12(0.1)),
        "effects": lambda: line(Matern32() + Constant() + Linear()),
        "outputs": lambda: line(Matern32(), np.stack([y, 2.0 * y], axis=1)),
        "two inputs": field,
    }


def run(names: list[str]) -> None:
    """Fit in this process, and print the seconds of each as JSON."""
    warnings.simplefilter("ignore")
    by_name, seconds = fits(), []
    for name in names:
        begin = time.process_time() if seconds else 0.0
        by_name[name]()
        middle = time.process_time()
        by_name[name]()
        again = time.process_time() - middle
        seconds.append(middle - begin - (again if seconds else 0.0))
    print(json.dumps(seconds))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="file for the results")
    parser.add_argument("--run", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run(options.run)
        return
    results = {}
    print(f"{'fit':<40}{'CPU s':>8}{'limit':>8}")
    for title, names in SEQUENCES.items():
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, "--run", *names]
            environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
            done = subprocess.run(
                command, env=environment, check=True, capture_output=True, text=True
            )
        for number, (name, seconds) in enumerate(zip(names, json.loads(done.stdout), strict=True)):
            limit = LIMITS.get(name, LIMITS["further"]) if number else LIMITS["first"]
            label = f"{title}: {name}" + ("" if number else ", with the import")
            verdict = "ok" if seconds <= limit else "MISSED"
            print(f"{label:<40}{seconds:>8.2f}{limit:>8.0f}  {verdict}")
            results[label] = seconds
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=2)


if __name__ == "__main__":
    main()
