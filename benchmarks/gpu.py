"""The batched multifrontal elimination on a GPU: times, rates and memory by size.

Every size is a random positive definite matrix on a square or cubic grid of functions.
*Symbolic* and *transfer* happen once for a grid; *factor*, *inverse* (on all pairs of
functions that share a leaf) and *solve* are medians of repeated runs, which wait for the
device. The factor includes making the elements, whose time is also given by itself. Rates
count the operations of the bare fronts (`Tree.cost`), not those spent on padding or on both
halves of symmetric results. *Residual* is |Px - b| / |b|, *trace* is tr(P P^-1) / size - 1
from the selected inverse.

    python benchmarks/gpu.py [--device cuda] [--only 1000x1000] [--repeats 5]

``--device cpu`` runs small sizes anywhere, as a smoke test.
"""

import argparse
import platform
import statistics
import time

import torch

from asvgp.linalg.multifrontal import Space, symbolic
from asvgp.linalg.multifrontal.batched import BatchedFactor
from asvgp.linalg.multifrontal.chunks import chunks

# functions in each input, inputs, degree, limit in seconds on factor + inverse
SIZES = [
    (300, 2, 2, None),
    (1000, 2, 2, 0.10),
    (50, 3, 1, None),
    (50, 3, 2, None),
    (100, 3, 1, None),
    (100, 3, 2, None),
]
SMALL_SIZES = [(30, 2, 2, None), (60, 2, 2, None), (10, 3, 1, None), (10, 3, 2, None)]
COLUMNS = (
    "size", "k", "symbolic", "transfer", "elements", "factor", "inverse", "solve",
    "factor", "inverse", "memory", "peak", "residual", "trace",
)  # fmt: skip
UNITS = ("", "", "s", "s", "ms", "ms", "ms", "ms", "TFLOP/s", "TFLOP/s", "GB", "GB", "", "")


class Elements:
    """A random positive definite element, scaled differently on every leaf."""

    def __init__(self, tree, device):
        num_leaves, s = tree.leaf_index.shape
        options = {"dtype": torch.float64, "device": device}
        torch.manual_seed(0)
        half = torch.randn(s, s, **options)
        self.element = half @ half.mT / s + torch.eye(s, **options)
        self.scale = 0.5 + torch.rand(num_leaves, 1, 1, **options)

    def __call__(self, start, stop):
        return self.scale[start:stop] * self.element

    def product(self, tree, x):
        """P x, leaf by leaf."""
        index = torch.tensor(tree.leaf_index, device=x.device)
        padded = torch.cat([x, x.new_zeros(1)])
        parts = (padded[index] @ self.element) * self.scale[:, :, 0]
        index = torch.where(index < 0, tree.size, index)
        return torch.zeros_like(padded).index_add_(0, index.flatten(), parts.flatten())[:-1]


class Clock:
    """Seconds on the host, once the device is done."""

    def __init__(self, device):
        self.device = device

    def now(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def once(self, work):
        start = self.now()
        result = work()
        return self.now() - start, result

    def median(self, work, repeats):
        """After one run to warm up; the results are dropped before the next run."""
        work()
        return statistics.median(self.once(work)[0] for _ in range(repeats))


def measure(per_input, num_inputs, degree, device, repeats):
    """One row of the table, and the seconds that are judged."""
    clock = Clock(device)
    cells = (per_input - degree,) * num_inputs
    space = Space((degree,) * num_inputs, (0,) * num_inputs)
    symbolic_time, tree = clock.once(lambda: symbolic(cells, (space,)))
    transfer_time, root = clock.once(lambda: chunks(tree, device))
    elements = Elements(tree, device)
    leaves = [chunk for chunk in root if chunk.level == 0]
    elements_time = clock.median(
        lambda: [elements(chunk.start, chunk.stop).shape for chunk in leaves], repeats
    )
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    factor_time = clock.median(lambda: BatchedFactor(tree, elements, device).log_det, repeats)
    factor = BatchedFactor(tree, elements, device)
    inverse_time = clock.median(
        lambda: factor.selected_inverse(lambda start, stop, z: None), repeats
    )
    b = torch.randn(tree.size, dtype=torch.float64, device=device)
    solve_time = clock.median(lambda: factor.solve(b), repeats)
    peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else float("nan")

    residual = torch.linalg.norm(elements.product(tree, factor.solve(b)) - b)
    traces = []
    factor.selected_inverse(
        lambda start, stop, z: traces.append((z * elements(start, stop)).sum().item())
    )
    cost = tree.cost()
    row = (
        "x".join([str(per_input)] * num_inputs), str(degree),
        f"{symbolic_time:.2f}", f"{transfer_time:.2f}", f"{1e3 * elements_time:.2f}",
        f"{1e3 * factor_time:.1f}", f"{1e3 * inverse_time:.1f}", f"{1e3 * solve_time:.1f}",
        f"{1e-12 * cost.factor_flops / factor_time:.2f}",
        f"{1e-12 * cost.inverse_flops / inverse_time:.2f}",
        f"{1e-9 * factor.nbytes:.2f}", f"{1e-9 * peak:.2f}",
        f"{float(residual / torch.linalg.norm(b)):.0e}", f"{sum(traces) / tree.size - 1.0:.0e}",
    )  # fmt: skip
    return row, factor_time + inverse_time


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", help="one size, such as 1000x1000")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    device = torch.device(options.device)
    on_gpu = device.type == "cuda"
    name = torch.cuda.get_device_name(device) if on_gpu else platform.machine()
    print(f"{name}, torch {torch.__version__}, CUDA {torch.version.cuda}, float64")
    for line in (COLUMNS, UNITS):
        print(" ".join(f"{text:>11}" for text in line))
    verdicts = []
    for per_input, num_inputs, degree, limit in SIZES if on_gpu else SMALL_SIZES:
        label = "x".join([str(per_input)] * num_inputs)
        if options.only not in (None, label):
            continue
        row, seconds = measure(per_input, num_inputs, degree, device, options.repeats)
        print(" ".join(f"{text:>11}" for text in row), flush=True)
        if limit is not None:
            verdict = "ok" if seconds <= limit else "MISSED"
            verdicts.append(
                f"{label}, k = {degree}: factor + inverse {seconds:.3f} s, "
                f"limit {limit:.2f} s: {verdict}"
            )
    print("\n".join(verdicts))


if __name__ == "__main__":
    main()
