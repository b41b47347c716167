"""Multifrontal elimination on the CPU: beside the machine's matrix product, and CHOLMOD.

    python benchmarks/multifrontal.py                     # all grids: some minutes, 8 GB
    python benchmarks/multifrontal.py --only 100x100x2 300x300x2 --repeats 9

A grid is named by its cells and the degree. The matrix is T x T (x T), a Kronecker product
of banded matrices, so its determinant is known; it is the sum of Kronecker products of the
leaves' blocks. The share is that of the matrix product (both on all cores), operations
counted by the symbolic phase. Times are the least of some repeats, contestants by turns;
our memory is used again, as in a fit.

CHOLMOD is optional: ``apt-get install libsuitesparse-dev libopenblas-dev``, then
``pip install scikit-sparse``. It gets the same matrix and the fastest of its orderings (AMD,
METIS, nested dissection); its symbolic phase is not counted.
"""

import argparse
import time
from functools import reduce

import numpy as np
import scipy.sparse as sparse

from asvgp.linalg.multifrontal import Space, symbolic
from asvgp.linalg.multifrontal.cpu import CpuFactor, Workspace
from asvgp.linalg.multifrontal.plan import plan
from asvgp.runtime.parallel import cores

try:
    from sksparse import cholmod
except ImportError:
    cholmod = None

GRIDS = ["100x100x2", "300x300x2", "1000x1000x2", "30x30x30x1", "30x30x30x2"]
SHARE = {"300x300x2": 0.4, "1000x1000x2": 0.6}  # of the matrix product's rate, at least
INVERSE = 2.5  # times the factor's time, at most
LEAF = {1: 16, 2: 8, 3: 4}  # cells of a leaf in each input, by the number of inputs: suits the CPU


def least(repeats, *works):
    """Seconds of each, taking turns."""
    times = [[] for _ in works]
    for _ in range(repeats):
        for work, each in zip(works, times, strict=True):
            begin = time.perf_counter()
            work()
            each.append(time.perf_counter() - begin)
    return [min(each) for each in times]


def cell_matrix(degree):
    """What every cell adds, in each input: differences of neighbours, and a little mass.

    Long-ranged on purpose: a factor whose entries fall off below 1e-308 takes others much
    longer (`asvgp.linalg.denormals`), which is not what is measured here. Without zeros,
    like products of splines: differences alone leave a tridiagonal matrix of any degree,
    and CHOLMOD, which looks, a seventh of the operations at degree 2.
    """
    differences = np.diff(np.eye(degree + 1), axis=0)
    return differences.T @ differences + 1e-3 * (1.0 + np.eye(degree + 1))


def chain(num_cells, cell):
    """The sum of the cells' matrices along a line."""
    n = len(cell)
    total = np.zeros((num_cells + n - 1, num_cells + n - 1))
    for c in range(num_cells):
        total[c : c + n, c : c + n] += cell
    return total


def leaf_elements(tree, cell):
    """All elements; their blocks along an input depend on the interval's length alone."""
    elements = np.ones((len(tree.leaves), 1, 1))
    for d, edges in enumerate(tree.leaf_intervals):
        lengths = np.diff(edges)
        size = lengths.max() + len(cell) - 1
        blocks = np.zeros((lengths.max() + 1, size, size))
        for length in np.unique(lengths):
            block = chain(length, cell)
            blocks[length, : len(block), : len(block)] = block
        block = blocks[lengths[tree.leaves[:, d]]]
        product = elements[:, :, None, :, None] * block[:, None, :, None, :]
        elements = product.reshape(len(elements), product.shape[1] * size, -1)
    return elements


def known_log_det(cells, cell):
    """log|A x B| = dim(B) log|A| + dim(A) log|B|."""
    sizes = [n + len(cell) - 1 for n in cells]
    each = []
    for n, size in zip(cells, sizes, strict=True):
        band = chain(n, cell)
        each.append(np.linalg.slogdet(band)[1] * np.prod(sizes) / size)
    return sum(each)


def cholmod_factor(cells, cell):
    """A function that factors the same matrix, and the ordering it uses."""
    bands = [sparse.csc_matrix(chain(n, cell)) for n in cells]
    matrix = reduce(lambda a, b: sparse.kron(a, b, format="csc"), bands)
    best = None
    for ordering in ("amd", "metis", "nesdis"):
        try:
            factor = cholmod.analyze(matrix, mode="supernodal", ordering_method=ordering)
        except cholmod.CholmodError:
            continue
        begin = time.perf_counter()
        factor.cholesky_inplace(matrix)
        seconds = time.perf_counter() - begin
        if best is None or seconds < best[0]:
            best = seconds, ordering, factor
    _, ordering, factor = best
    return lambda: factor.cholesky_inplace(matrix), ordering


def verdict(ok):
    return "ok" if ok else "MISSED"


def measure(name, repeats):
    *cells, degree = map(int, name.split("x"))
    cells, spaces = tuple(cells), (Space((degree,) * len(cells), (0,) * len(cells)),)
    leaf, cell = (max(LEAF[len(cells)], degree),) * len(cells), cell_matrix(degree)

    def dissect():
        symbolic.cache_clear()
        plan(symbolic(cells, spaces, 0, leaf))

    tree = symbolic(cells, spaces, 0, leaf)
    elements = leaf_elements(tree, cell)
    space = Workspace()

    def refactor():
        return CpuFactor(tree, lambda start, stop: elements[start:stop], workspace=space)

    factor = refactor()
    error = abs(factor.log_det / known_log_det(cells, cell) - 1)
    b = np.ones(tree.size)
    product = np.random.default_rng(0).standard_normal((2000, 2000))
    works = [
        lambda: product @ product,
        dissect,
        refactor,
        lambda: factor.selected_inverse(lambda start, stop, z: None),
        lambda: factor.solve(b),
    ]
    if cholmod is not None:
        peer, ordering = cholmod_factor(cells, cell)
        works.append(peer)
    gemm, analysis, factoring, inverting, solving, *others = least(repeats, *works)
    rate, possible = tree.factor_flops / factoring, 2 * len(product) ** 3 / gemm
    share, target = rate / possible, SHARE.get(name)
    print(f"{name}: {tree.size:,} functions, {tree.factor_flops / 1e9:.2f} Gflop to factor")
    limit = f"  at least {target:.0%}: {verdict(share >= target)}" if target else ""
    print(f"  matrix product   {possible / 1e9:8.1f} GF/s")
    print(f"  factor           {factoring:8.4f} s  {rate / 1e9:.1f} GF/s, {share:.0%}{limit}")
    print(f"  symbolic         {analysis:8.4f} s  {verdict(analysis < factoring)}")
    ratio = inverting / factoring
    inverse_rate = tree.cost().inverse_flops / inverting
    print(
        f"  selected inverse {inverting:8.4f} s  {inverse_rate / 1e9:.1f} GF/s, "
        f"x{ratio:.2f} the factor's time, at most {INVERSE}: {verdict(ratio <= INVERSE)}"
    )
    print(f"  solve            {solving:8.4f} s  {2 * factor.nbytes / solving / 1e9:.1f} GB/s")
    memory, nonzeros = factor.nbytes / 1e6, 8e-6 * tree.cost().factor_nonzeros
    print(f"  memory           {memory:8.1f} MB of factor, {nonzeros:.1f} MB of non-zeros")
    print(f"  log determinant  {error:8.1e} off")
    for other in others:
        print(
            f"  CHOLMOD          {other:8.4f} s  ordering {ordering}, "
            f"x{other / factoring:.2f} our time: {verdict(other >= factoring)}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=GRIDS, help="grids, as CELLSxCELLSxDEGREE")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    print(f"{cores()} cores")
    if cholmod is None:
        print("no CHOLMOD: apt-get install libsuitesparse-dev; pip install scikit-sparse")
    for name in arguments.only:
        measure(name, arguments.repeats)


if __name__ == "__main__":
    main()
