"""Figure 4: rough fields of two inputs, NLPD against the number of functions.

Samples of a Gaussian process with a product of Matérn-3/2 kernels, and models that know its
hyperparameters. The inputs are a grid of irregular coordinates, so the covariance is a
Kronecker product: samples are exact, and so is the posterior that the models approximate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.harness import results
from experiments.harness.process import Method
from experiments.harness.process import run as run_apart
from experiments.harness.results import Results, Row, reasons, summarise
from experiments.harness.results import table as markdown
from experiments.harness.scores import Array, scores
from experiments.harness.splits import Split

TITLE = "Figure 4: rough fields of two inputs"

LENGTHSCALES = 0.1, 0.05, 0.03
SAMPLES = {False: 3, True: 5}
LIMITS = {False: 60.0, True: 3600.0}  # seconds, for the defaults, which train
SIDES = {False: (80, 32), True: (200, 50)}  # coordinates an input, to train and held out
NOISE = 0.01  # variance; that of the field is 1
FREQUENCIES = 5, 10, 15, 20, 25  # 2 m + 1 functions an input, for all methods
EXACT, SPLINES, DEFAULTS = "exact GP", "AS-VGP", "AS-VGP, defaults"
NEAR, WIDE = "VFF", "VFF, wide domain"


@dataclass(frozen=True)
class Sample:
    """A noisy field on a grid of training coordinates, and on one of held-out coordinates."""

    lengthscale: float
    train: tuple[Array, Array]
    test: tuple[Array, Array]
    y: Array
    y_test: Array

    @property
    def x(self) -> Array:
        """Training rows."""
        return _rows(self.train)

    @property
    def x_test(self) -> Array:
        """Held-out rows."""
        return _rows(self.test)


def draw(lengthscale: float, seed: int, side: int, side_test: int) -> Sample:
    """An exact sample: of ``K1 x K2`` by the roots of both, and noise."""
    rng = np.random.default_rng(seed)
    train = tuple((np.arange(side) + rng.uniform(size=side)) / side for _ in range(2))
    test = tuple(np.sort(rng.uniform(size=side_test)) for _ in range(2))
    roots = [
        np.linalg.cholesky(matern32(both, both, lengthscale) + 1e-12 * np.eye(len(both)))
        for both in (np.concatenate(pair) for pair in zip(train, test, strict=True))
    ]
    size = side + side_test
    field = roots[0] @ rng.standard_normal((size, size)) @ roots[1].T
    seen = field + np.sqrt(NOISE) * rng.standard_normal((size, size))
    return Sample(
        lengthscale,
        (train[0], train[1]),
        (test[0], test[1]),
        seen[:side, :side].ravel(),
        seen[side:, side:].ravel(),
    )


def matern32(a: Array, b: Array, lengthscale: float) -> Array:
    """The kernel of one input, of unit variance."""
    z = np.sqrt(3.0) * np.abs(a[:, None] - b) / lengthscale
    return (1.0 + z) * np.exp(-z)


def exact(sample: Sample) -> tuple[Array, Array]:
    """Mean and standard deviation of held-out observations, by eigenvalues of both factors."""
    values, rotated = [], []
    for seen, asked in zip(sample.train, sample.test, strict=True):
        value, vectors = np.linalg.eigh(matern32(seen, seen, sample.lengthscale))
        values.append(value)
        rotated.append((vectors, vectors.T @ matern32(seen, asked, sample.lengthscale)))
    (left, to_left), (right, to_right) = rotated
    precision = 1.0 / (np.multiply.outer(*values) + NOISE)
    y = sample.y.reshape(len(left), len(right))
    mean = to_left.T @ (precision * (left.T @ y @ right)) @ to_right
    variance = 1.0 - (to_left**2).T @ precision @ to_right**2
    return mean.ravel(), np.sqrt(variance + NOISE).ravel()


def splines(sample: Sample, per_input: int) -> tuple[Array, Array]:
    """AS-VGP with the hyperparameters of the sample."""
    from asvgp import GPRegressor, Matern32

    scale = sample.lengthscale
    settings: dict[str, Any] = {
        "num_basis": per_input,
        "degree": 2,  # the paper's
        "noise_variance": NOISE,
        "domain": ((0.0, 1.0), (0.0, 1.0)),
        "optimizer": None,
    }
    model = GPRegressor(Matern32(scale, dim=0) * Matern32(scale, dim=1), **settings)
    model.fit(sample.x, sample.y)
    mean, std = model.predict(sample.x_test, return_std=True, include_noise=True)
    return mean, std


def edge_of(method: str, lengthscale: float) -> float:
    """How far VFF's domain goes beyond the data, at either end.

    Its features are periodic, which does harm within a few lengthscales of the ends. Two
    lengthscales are enough, where the lengthscale is known; half the range is what one takes
    without knowing it.
    """
    return 2.0 * lengthscale if method == NEAR else 0.5


def fourier(sample: Sample, per_input: int, edge: float) -> tuple[Array, Array]:
    """VFF with the hyperparameters of the sample."""
    from experiments.baselines import VFF

    model = VFF(
        per_input // 2,
        1.5,
        structure="kronecker",
        domain=[[-edge, 1.0 + edge]] * 2,
        lengthscale=sample.lengthscale,
        variance=1.0,
        noise_variance=NOISE,
        train=False,
    )
    mean, variance = model.fit(sample.x, sample.y).predict(sample.x_test)
    return mean, np.sqrt(variance + NOISE)


def run(found: Results) -> None:
    """All lengthscales, samples and sizes."""
    side, side_test = SIDES[found.full]
    per_input = [2 * m + 1 for m in (*FREQUENCIES, *((35,) if found.full else ()))]
    for scale in LENGTHSCALES:
        for seed in range(SAMPLES[found.full]):
            sample = draw(scale, seed, side, side_test)
            _add(found, sample, seed, EXACT, len(sample.y), *exact(sample))
            for count in per_input:
                _add(found, sample, seed, SPLINES, count**2, *splines(sample, count))
                for method in (NEAR, WIDE):
                    try:
                        answer = fourier(sample, count, edge_of(method, scale))
                    except ImportError:
                        missing = {"reason": "PyTorch is not installed: pip install 'asvgp[gpu]'"}
                        found.add(_row(sample, seed, method, count**2) | missing)
                    else:
                        _add(found, sample, seed, method, count**2, *answer)
            _defaults(found, sample, seed)


def _defaults(found: Results, sample: Sample, seed: int) -> None:
    """The library without any number given: it trains, and chooses its splines."""
    name = f"lengthscale {sample.lengthscale}"
    parts = Split(name, seed, sample.x, sample.y, sample.x_test, sample.y_test)
    row = run_apart(Method(DEFAULTS, "asvgp_models.py"), parts, LIMITS[found.full])
    functions = int(np.prod(row.get("info", {}).get("num_basis", 0)))
    found.add(_row(sample, seed, DEFAULTS, functions) | row)


def _row(sample: Sample, seed: int, method: str, functions: int) -> Row:
    return {
        "method": method,
        "dataset": f"lengthscale {sample.lengthscale}",
        "n": len(sample.y),
        "seed": seed,
        "lengthscale": sample.lengthscale,
        "functions": functions,
    }


def _add(
    found: Results, sample: Sample, seed: int, method: str, functions: int, mean: Array, std: Array
) -> None:
    found.add(_row(sample, seed, method, functions) | scores(sample.y_test, mean, std))


def table(found: Results) -> str:
    """NLPD, one line a lengthscale and method, one column a size."""
    n = max((r["n"] for r in found.rows), default=0)
    sizes = sorted({r["functions"] for r in found.where(method=SPLINES)})
    samples = len({r["seed"] for r in found.rows})
    lines = []
    for scale in LENGTHSCALES:
        for method in (WIDE, NEAR, SPLINES):
            cells = [
                summarise(found.where(method=method, lengthscale=scale, functions=size), "nlpd", 2)
                for size in sizes
            ]
            lines.append([f"{scale}, {method}", *cells])
    head = ["NLPD", *(f"{round(size**0.5)}²" for size in sizes)]
    known = [
        [
            str(scale),
            *(
                summarise(found.where(method=method, lengthscale=scale), "nlpd", 2)
                for method in (EXACT, DEFAULTS)
            ),
            f"{np.mean(own):,.0f}" if own else "/",
        ]
        for scale in LENGTHSCALES
        for own in [_functions(found, scale)]
    ]
    parts = [
        f"Samples of a product of two Matérn-3/2 kernels, of unit variance and noise of variance "
        f"{NOISE}, {n:,} observations on the unit square, {samples} samples for each lengthscale "
        "(± is their standard deviation). The observations are on a grid of irregular "
        "coordinates, so samples and the exact posterior are exact. All methods know the "
        f"hyperparameters and have the same number of functions, {head[1]} to {head[-1]}. VFF "
        "needs a domain wider than the data: by two lengthscales at either end, or, in the lines "
        "*wide domain*, by half the range, which is what one takes without knowing the "
        "lengthscale.\n",
        markdown(head, lines),
        "Beside them the exact posterior, and the library's default settings, which know nothing "
        "and train:\n",
        markdown(["lengthscale", EXACT, DEFAULTS, "its functions"], known),
        "![NLPD against the number of functions for three lengthscales]"
        "(images/experiments/figure4.png)\n",
        f"The paper shows a picture without numbers, and does not say how many observations, how "
        f"much noise or which domain it took. {_gaps(found, sizes)}The wider the domain, the "
        "fewer of its frequencies serve the data; splines need no domain beyond them.\n",
        *(f"- / {reason}" for reason in reasons(found.rows)),
    ]
    return "\n".join(parts) + "\n"


def _gaps(found: Results, sizes: list[int]) -> str:
    """How far VFF is from the splines, with the most functions."""
    gaps = {
        method: [
            _mean(found, method, scale, sizes[-1]) - _mean(found, SPLINES, scale, sizes[-1])
            for scale in LENGTHSCALES
        ]
        for method in (NEAR, WIDE)
    }
    if not np.isfinite([*gaps[NEAR], *gaps[WIDE]]).all():
        return ""
    near, wide = (", ".join(f"{gap:+.2f}" for gap in gaps[method]) for method in (NEAR, WIDE))
    words = (
        f"With the most functions, VFF's NLPD less that of AS-VGP is {near} at lengthscales "
        f"{', '.join(str(scale) for scale in LENGTHSCALES)}, and {wide} on the wide domain. "
    )
    if np.abs(gaps[NEAR]).max() < 0.1 < max(gaps[WIDE]):
        words += (
            "So splines and VFF are alike, unless VFF's domain is wide: the lead that splines "
            "have in the paper is here a matter of the domain. "
        )
    return words


def _functions(found: Results, scale: float) -> list[int]:
    """How many the defaults chose, for every sample."""
    rows = found.where(method=DEFAULTS, lengthscale=scale)
    return [r["functions"] for r in rows if "nlpd" in r]


def _mean(found: Results, method: str, scale: float, functions: int) -> float:
    rows = found.where(method=method, lengthscale=scale, functions=functions)
    known = [r["nlpd"] for r in rows if "nlpd" in r]
    return float(np.mean(known)) if known else float("nan")


def figure(found: Results) -> None:
    """One panel a lengthscale, as in the paper."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    drawn, grid = plt.subplots(
        1, len(LENGTHSCALES), figsize=(10, 3.2), squeeze=False, layout="constrained"
    )
    panels = grid[0]
    for panel, scale in zip(panels, LENGTHSCALES, strict=True):
        for method, mark in ((WIDE, "C0s--"), (NEAR, "C1s-"), (SPLINES, "C2o-")):
            rows = [r for r in found.where(method=method, lengthscale=scale) if "nlpd" in r]
            sizes = sorted({r["functions"] for r in rows})
            nlpd = [[r["nlpd"] for r in rows if r["functions"] == size] for size in sizes]
            panel.errorbar(
                np.sqrt(sizes),
                [np.mean(v) for v in nlpd],
                [np.std(v, ddof=1) if len(v) > 1 else 0.0 for v in nlpd],
                fmt=mark,
                capsize=3,
                label=method,
            )
        for method, style in ((EXACT, "k--"), (DEFAULTS, "C3-.")):
            own = [r["nlpd"] for r in found.where(method=method, lengthscale=scale) if "nlpd" in r]
            if own:
                ends = np.sqrt([min(sizes), max(sizes)])
                panel.plot(ends, [np.mean(own)] * 2, style, label=method)
        panel.set(title=f"lengthscale {scale}", xlabel="functions along each input")
        panel.grid(alpha=0.25)
    panels[0].set_ylabel("NLPD of held-out observations")
    panels[0].legend(fontsize="small")
    drawn.savefig(results.FIGURES / "figure4.png", dpi=150)
    plt.close(drawn)


def _rows(axes: tuple[Array, Array]) -> Array:
    return np.stack([m.ravel() for m in np.meshgrid(*axes, indexing="ij")], axis=1)
