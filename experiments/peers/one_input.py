"""One input: the packages people use today, beside us."""

from __future__ import annotations

from experiments.harness.process import Method
from experiments.harness.results import Results
from experiments.peers import comparison, pictures
from experiments.peers.contest import DEFAULT, TUNED, Case, Entry, contest

TITLE = "One input"

CASES = (
    Case("synthetic", [None]),
    Case("air quality", [None]),
    Case("pressure", [None]),
    Case("household", [10_000, 100_000, None]),
    Case("seismogram", [100_000]),
)
FULL = (
    Case("synthetic", [1_000, None]),
    Case("air quality", [1_000, None]),
    Case("pressure", [1_000, 10_000, None]),
    Case("household", [1_000, 10_000, 100_000, None]),
    Case("seismogram", [1_000, 10_000, 100_000, 1_000_000, None]),
)
# What we chose by hand: of the few kernels and numbers tried on another split, those of the highest
# bound (pressure's number was not tried).
TUNING = {
    "synthetic": {"kernel": "matern52", "num_basis": 100},
    "air quality": {"kernel": "matern32 + sho(period=24)", "num_basis": 40_000},
    "pressure": {"kernel": "matern32 + sho(period=12)", "num_basis": 80_000},
    "household": {"kernel": "matern12", "num_basis": 300_000},
    "seismogram": {"kernel": "matern32 + sho(period=5)", "num_basis": 400_000},
}
SLOW = "estimated, not measured, to take more than a minute on two cores; FULL=1 runs it"


def entries(name: str, n: int) -> list[Entry]:
    """The contestants; each script says which page of its documentation it follows."""
    inducing = 50 if name == "synthetic" else 200
    sgpr = {"model": "sgpr", "num_inducing": inducing, "kernel": "matern32", "iterations": 50}
    svgp = {"model": "svgp", "num_inducing": inducing, "kernel": "matern32", "iterations": 1000}
    functions = 100 if name == "synthetic" else 1000
    return [
        Entry(Method(DEFAULT, "asvgp_models.py")),
        Entry(Method(TUNED, "asvgp_models.py", "asvgp", TUNING[name])),
        Entry(
            Method("celerite2", "celerite_models.py", "small"),
            most=100_000,
            why="variances of new points take N for each; " + SLOW,
        ),
        Entry(Method("tinygp", "tinygp_models.py", "jax"), most=100_000, why=SLOW),
        Entry(Method("GPflow SGPR", "gpflow_models.py", "gpflow", sgpr), most=40_000, why=SLOW),
        Entry(Method("GPflow SVGP", "gpflow_models.py", "gpflow", svgp | {"batch": 256})),
        Entry(Method("mgcv bam", "mgcv_models.py", "r", {"k": [functions]})),
        Entry(
            Method("pyGAM", "pygam_models.py", "small", {"splines": min(functions, 200)}),
            most=100_000,
            why="its basis is a dense matrix; " + SLOW,
        ),
        Entry(Method("scikit-learn Nyström", "sklearn_models.py", settings={"components": 500})),
        Entry(
            Method("gamfit", "gamfit_models.py", "small", {"k": min(functions, 200)}),
            most=40_000,
            why=SLOW,
        ),
    ]


def run(found: Results) -> None:
    """Every method on every data set and size."""
    contest(found, FULL if found.full else CASES, entries)


def table(found: Results) -> str:
    """The pictures, the values, the ratios and the reasons."""
    return _INTRODUCTION + comparison.page(found)


def figure(found: Results) -> None:
    """Accuracy against time, and growth."""
    pictures.draw(found)


_INTRODUCTION = """Observations along one input, a tenth of the rows held out at random (2,000 of
them are predicted), y scaled to variance 1. *asvgp, defaults* is `GPRegressor()`; *tuned* has
a kernel and a number of functions chosen by hand, after a few tries on another split of the
same data. celerite2 and tinygp have the same Matérn-3/2 as our defaults and no approximation to
speak of, so with as many rows as matter ours should agree with them; on few rows the likelihood
has several maxima, and each method finds its own. To keep a row within a minute, SGPR is
held to 50 steps, SVGP to 1,000, both to 200 inducing points; pyGAM and gamfit to 200 functions,
mgcv to 1,000. With more time they would be more accurate.

"""
