"""Two, three and eight inputs: the packages people use today, beside us."""

from __future__ import annotations

from experiments.harness.process import Method
from experiments.harness.results import Results
from experiments.peers import comparison, pictures
from experiments.peers.contest import DEFAULT, TUNED, Case, Entry, contest

TITLE = "Several inputs"

CASES = (
    Case("sea level", [1_000, 10_000, 100_000]),
    Case("heights", [10_000]),
    Case("temperature", [1_000, 10_000]),
    Case("flights", [10_000]),
)
FULL = (
    Case("sea level", [1_000, 10_000, 100_000, None]),
    Case("heights", [1_000, 10_000, 100_000, 1_000_000, None]),
    Case("temperature", [1_000, 10_000, 100_000, None]),
    Case("flights", [1_000, 10_000, 100_000, None]),
)
INPUTS = {"sea level": 2, "heights": 2, "temperature": 3}
TWO_TERMS = "asvgp, two terms"


def product(kind: str, lengths: list[float]) -> str:
    """A product of kernels, one an input, as text."""
    return " * ".join(f"{kind}({length}, dim={i})" for i, length in enumerate(lengths))


# Lengths along each input to begin with, in its units: a wide term and a narrow one.
LENGTHS = {
    "sea level": ([10.0, 10.0], [1.0, 1.0]),
    "heights": ([0.2, 0.2], [0.01, 0.01]),
    "temperature": ([24.0, 3.0, 3.0], [3.0, 0.5, 0.5]),
}


def tuned(name: str, n: int) -> dict:
    """One product of Matérn-3/2 and a constant, with a number of functions chosen by hand."""
    dim = INPUTS[name]
    along = int(min(200 if dim == 2 else 40, max(10, 1.5 * n ** (1 / dim))))
    return {"kernel": product("matern32", LENGTHS[name][0]) + " + constant", "num_basis": along}


def sums() -> list[Entry]:
    """The contestants of the flights: those that sum functions of one input, and Nyström."""
    kernel = " + ".join(f"matern32(dim={i})" for i in range(8))
    ours = {"kernel": kernel, "num_basis": 30}
    smooths = {"k": [20] * 8, "additive": True}
    return [
        Entry(Method(DEFAULT, "asvgp_models.py", settings={"kernel": None})),
        Entry(Method(TUNED, "asvgp_models.py", "asvgp", ours)),
        Entry(Method("mgcv bam", "mgcv_models.py", "r", smooths)),
        Entry(Method("pyGAM", "pygam_models.py", "small", {"splines": 20}), most=10_000),
        Entry(
            Method("scikit-learn Nyström", "sklearn_models.py", settings={"components": 500}),
            most=10_000,
        ),
    ]


def entries(name: str, n: int) -> list[Entry]:
    """The contestants; each script says which page of its documentation it follows."""
    if name == "flights":
        return sums()
    dim = INPUTS[name]
    wide, narrow = LENGTHS[name]
    two = f"{product('matern52', wide)} + {product('matern32', narrow)} + constant"
    ours = tuned(name, n)
    along = [25, 25] if dim == 2 else [12, 9, 9]
    modes = [20, 20] if dim == 2 else [8, 7, 7]  # dense, at every step: fewer than mgcv's
    return [
        Entry(Method(DEFAULT, "asvgp_models.py", settings={"kernel": None})),
        Entry(Method(TUNED, "asvgp_models.py", "asvgp", ours)),
        Entry(
            Method(TWO_TERMS, "asvgp_models.py", "asvgp", ours | {"kernel": two}),
            most=None if dim == 2 else 1_000,
        ),
        Entry(Method("GPyTorch KISS-GP", "gpytorch_models.py", "torch"), most=1_000),
        Entry(Method("GPBoost Vecchia", "gpboost_models.py", "small"), most=100_000, limit=1800.0),
        Entry(Method("mgcv bam", "mgcv_models.py", "r", {"k": along})),
        Entry(Method("PyMC HSGP", "pymc_models.py", "pymc", {"m": modes}), most=10_000),
        Entry(
            Method("libKriging", "libkriging_models.py", "small"),
            most=1_000,
            why="it is exact, its memory grows like N²",
            always=True,
            power=3.0,
        ),
    ]


def run(found: Results) -> None:
    """Every method on every data set and size."""
    contest(found, FULL if found.full else CASES, entries)


def table(found: Results) -> str:
    """The pictures, the values, the ratios and the reasons."""
    return _INTRODUCTION + comparison.kept(found) + comparison.page(found)


def figure(found: Results) -> None:
    """Accuracy against time, and growth."""
    pictures.draw(found)


_INTRODUCTION = """The data are two maps (sea level, heights), a block of hours and places
(temperature), and the delays of flights with eight inputs (a stand-in for the paper's data). Rows
were drawn at random, and a tenth of them was held out at random; 2,000 of these are predicted. y is
scaled to variance 1. Values held out at random have close neighbours. Large gaps are in
[Maps](fields.md#filling-large-gaps) (`benchmarks/gaps.py`).

- *asvgp, defaults* is `GPRegressor()`, which chooses its kernel. *asvgp, tuned* is a product of
  Matérn-3/2 kernels and a constant, with a number of basis functions chosen by hand. *Two terms*
  adds a second product with shorter lengthscales.
- mgcv and PyMC are limited to some 400 basis functions, so that a row takes less than a minute.
  With more they would be more accurate.
- For the flights, all methods except Nyström fit a sum of eight functions of one input each:
  *asvgp, tuned* with 30 splines per input, mgcv and pyGAM with 20.
- Sea level with 9,000 rows shows why one split is not enough: the NLPD of every method differs by
  0.2 to 0.3 between splits. On each of the three, our default is ahead of GPBoost.
- GPBoost was given more than a minute for 90,000 rows. LatticeKrig and R-INLA were not available.

"""
