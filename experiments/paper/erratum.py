"""The paper's Matérn-3/2 inner product beside the exact one, and its other slips, in numbers.

Everything is dense and small here, by textbook formulas: docs/erratum.md has the derivation.
"""

from __future__ import annotations

import numpy as np

from asvgp import Matern32
from asvgp.basis import Grid, bspline_coefficients
from asvgp.runtime.parallel import one_blas_thread
from experiments.harness import results
from experiments.harness.results import Results
from experiments.harness.scores import Array

TITLE = "Erratum: the boundary terms of Matérn-3/2"

DEGREE = 2
NOISE = 0.01
# Factors of l^2 [f'g'(a) + f'g'(b)] / s^2 and of l [(f'g + fg')(b) - (f'g + fg')(a)] / s^2
FORMS = {
    "exact": (1.0 / 6.0, 1.0 / (4.0 * np.sqrt(3.0))),
    "printed": (1.0 / 2.0, 0.0),
    "printed, with ℓ²/6": (1.0 / 6.0, 0.0),
}
LENGTHSCALES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
PADDINGS = (0.0, 1.0, 3.0)  # lengthscales by which the domain goes on beyond the data
PADDED = (0.05, 0.2, 1.0)  # lengthscales for which it does
PER_UNIT = 100  # cells
BEGIN, END = "<!-- padding: begin -->\n", "<!-- padding: end -->"  # of the table in docs/erratum.md


def design(x: Array, cells: int, derivative: int = 0, degree: int = DEGREE) -> Array:
    """B-splines on [0, 1], or derivatives of them, one column each."""
    cell, s = Grid(0.0, 1.0, cells).locate(x)
    columns = np.zeros((len(x), cells + degree))
    for j, row in enumerate(bspline_coefficients(degree)):
        piece = np.polynomial.Polynomial(row).deriv(derivative)
        columns[np.arange(len(x)), cell + j] = piece(s) * float(cells) ** derivative
    return columns


def gram(form: str, lengthscale: float, cells: int) -> Array:
    """Kuu on [0, 1] for a unit variance, by one of `FORMS`."""
    nodes, weights = np.polynomial.legendre.leggauss(DEGREE + 1)
    points = ((np.arange(cells)[:, None] + (nodes + 1) / 2) / cells).ravel()
    weights = np.tile(weights / 2 / cells, cells)
    root, slope = np.sqrt(3.0), FORMS[form][0] * lengthscale**2
    factors = root / (4 * lengthscale), lengthscale / (2 * root), lengthscale**3 / (12 * root)
    total = np.zeros((cells + DEGREE, cells + DEGREE))
    for i, factor in enumerate(factors):
        columns = design(points, cells, i)
        total += factor * (columns.T * weights) @ columns
    values, slopes = (design(np.array([0.0, 1.0]), cells, i) for i in range(2))
    mixed = FORMS[form][1] * lengthscale * slopes.T @ (np.array([[-1.0], [1.0]]) * values)
    return total + values.T @ values / 2 + slope * slopes.T @ slopes + mixed + mixed.T


def captured(form: str, lengthscale: float, cells: int, x: Array) -> Array:
    """Q(x, x) = phi' Kuu^-1 phi at unit variance: the share of the variance the splines have."""
    phi = design(x, cells)
    return np.einsum("ij,ji->i", phi, np.linalg.solve(gram(form, lengthscale, cells), phi.T))


def log_density(y: Array, covariance: Array) -> float:
    """Of a centred normal distribution."""
    root = np.linalg.cholesky(covariance)
    white = np.linalg.solve(root, y)
    return float(-white @ white / 2 - np.log(np.diag(root)).sum() - len(y) / 2 * np.log(2 * np.pi))


def bound(form: str, lengthscale: float, cells: int, x: Array, y: Array) -> float:
    """The collapsed bound as the paper has it, whatever Kuu is."""
    phi = design(x, cells)
    q = phi @ np.linalg.solve(gram(form, lengthscale, cells), phi.T)
    missed = len(x) - np.trace(q)
    return log_density(y, q + NOISE * np.eye(len(x))) - float(missed) / (2 * NOISE)


def padded(form: str, lengthscale: float, padding: float, x: Array, y: Array) -> float:
    """The bound where the domain goes on by ``padding`` lengthscales beyond [0, 1].

    The kernel is stationary, so that the wider domain may be scaled to [0, 1] with everything else.
    """
    width = 1.0 + 2.0 * padding * lengthscale
    places = (x + padding * lengthscale) / width
    return bound(form, lengthscale / width, round(PER_UNIT * width), places, y)


def data(lengthscale: float, n: int, seed: int = 0, ends: bool = False) -> tuple[Array, Array]:
    """Observations drawn from the model itself; with ``ends`` only near the ends."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0.0, 1.0, n))
    if ends:
        x = np.where(x < 0.5, 0.12 * lengthscale * x, 1.0 - 0.12 * lengthscale * (1.0 - x))
    x[0], x[-1] = 0.0, 1.0
    covariance = Matern32(lengthscale)(x) + NOISE * np.eye(n)
    return x, np.linalg.cholesky(covariance) @ rng.standard_normal(n)


def posterior_means(x: Array, y: Array, at: Array, lengthscale: float, cells: int) -> dict:
    """Means at new places by the paper's formulas and by the right ones, exact Kuu in all."""
    k, phi, new = gram("exact", lengthscale, cells), design(x, cells), design(at, cells)

    def mean(noise: float, missing: bool) -> Array:
        covariance = k @ np.linalg.solve(k + phi.T @ phi / noise, k)
        b = phi.T @ y / NOISE
        optimal = covariance @ (b if missing else np.linalg.solve(k, b))
        return new @ np.linalg.solve(k, optimal)

    return {
        "right": mean(NOISE, missing=False),
        "the optimal mean as printed, without Kuu⁻¹": mean(NOISE, missing=True),
        "σ⁻¹ for σ⁻², as in section 3.3": mean(np.sqrt(NOISE), missing=False),
    }


def run(found: Results) -> None:
    """Variance near the ends, bounds beside evidences, means beside the exact ones."""
    with one_blas_thread:  # for matrices as small as these several are slower
        _run(found)


def _run(found: Results) -> None:
    cells, n = PER_UNIT, 400 if found.full else 200
    distance = np.linspace(0.0, 3.0, 151)
    for form in FORMS:
        share = captured(form, 0.2, cells, 0.2 * distance)
        row = {"method": form, "what": "share", "lengthscale": 0.2, "at_the_end": share[0]}
        row |= {"least": share.min(), "most": share.max()}
        found.add(row | {"distance": distance.tolist(), "share": share.tolist()})
    for ends in (False, True):
        for lengthscale in LENGTHSCALES:
            x, y = data(lengthscale, n, ends=ends)
            exact = Matern32(lengthscale)(x) + NOISE * np.eye(n)
            row = {"what": "bound", "ends": ends, "lengthscale": lengthscale, "n": n}
            row |= {"evidence": log_density(y, exact)}
            for form in FORMS:
                value = bound(form, lengthscale, cells, x, y)
                found.add({"method": form} | row | {"bound": float(value)})
    for lengthscale in PADDED:
        x, y = data(lengthscale, 300)
        evidence = log_density(y, Matern32(lengthscale)(x) + NOISE * np.eye(len(x)))
        for padding in PADDINGS:
            for form in ("exact", "printed"):
                short = float(padded(form, lengthscale, padding, x, y) - evidence)
                row = {"what": "padding", "lengthscale": lengthscale, "padding": padding}
                found.add({"method": form} | row | {"n": len(x), "above_evidence": short})
    lengthscale, at = 0.2, np.linspace(0.0, 1.0, 301)
    x, y = data(lengthscale, n)
    kernel = Matern32(lengthscale)
    weights = np.linalg.solve(kernel(x) + NOISE * np.eye(n), y)
    exact = kernel(at, x) @ weights
    for label, mean in posterior_means(x, y, at, lengthscale, cells).items():
        off = float(np.sqrt(np.mean((mean - exact) ** 2)))
        found.add({"method": label, "what": "mean", "lengthscale": lengthscale, "rmse": off})
    places = np.random.default_rng(0).uniform(0.0, 1.0, n)
    count = int(np.count_nonzero(design(places, cells)))
    found.add({"method": "Kuf", "what": "count", "n": n, "m": cells + DEGREE, "nonzeros": count})


def table(found: Results) -> str:
    """Bounds beside evidences, then the other slips."""
    parts = [_ABOUT]
    for ends, words in (
        (False, "Data over all of [0, 1], both ends among them"),
        (True, "Data within 0.06 ℓ of the ends"),
    ):
        lines = []
        for lengthscale in LENGTHSCALES:
            rows = found.where(what="bound", ends=ends, lengthscale=lengthscale)
            by_form = {r["method"]: f"{r['bound']:.1f}" for r in rows}
            if rows:
                cells = [by_form[form] for form in FORMS]
                lines.append([f"{lengthscale:g}", f"{rows[0]['evidence']:.1f}", *cells])
        head = ["ℓ", "log evidence", *(f"bound, {form}" for form in FORMS)]
        parts += [f"{words}:\n", results.table(head, lines)]
    parts += [_PADDING, paddings(found)]
    shares = found.where(what="share")
    lines = [
        [r["method"], f"{r['at_the_end']:.3f}", f"{r['least']:.3f}", f"{r['most']:.3f}"]
        for r in shares
    ]
    head = ["form", "Q/σ² at the end", "least", "most"]
    parts += ["Share of the variance within 3 ℓ of the end, ℓ = 0.2:\n", results.table(head, lines)]
    parts.append("![Variance and bounds, printed and exact](images/experiments/erratum.png)\n")
    lines = [[r["method"], f"{r['rmse']:.2g}"] for r in found.where(what="mean")]
    parts += [_SLIPS, results.table(["mean of the posterior by", "off by (RMS)"], lines)]
    for r in found.where(what="count"):
        parts.append(
            f"Kuf has N(k + 1) non-zeros, not M(k + 1): {r['nonzeros']:,} counted with "
            f"N = {r['n']:,}, M = {r['m']:,} and k = {DEGREE}.\n"
        )
    return "\n".join(parts)


def paddings(found: Results) -> str:
    """Bounds less the evidence on wider and wider domains: a table, for two pages."""
    lines = []
    for lengthscale in PADDED:
        for padding in PADDINGS:
            rows = found.where(what="padding", lengthscale=lengthscale, padding=padding)
            cells = [f"{r['above_evidence']:.1f}" for r in rows]
            if cells:
                lines.append([f"{lengthscale:g}", f"{padding:g} ℓ", *cells])
    return results.table(["ℓ", "padding", "exact form", "printed form"], lines)


def on_the_page(text: str, found: Results) -> str:
    """The page of the erratum with its table anew."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{paddings(found).strip()}\n\n{END}{after}"


_ABOUT = f"""The derivation has a page of its own in the documentation, *Erratum of the paper*
(`docs/erratum.md`). The appendix of the paper prints ℓ²/2σ² where ℓ²/6σ² is right, and lacks the
cross terms. With quadratic splines on 100 cells,
noise variance {NOISE} and data drawn from the model itself, the exact form gives a bound below
the evidence, within a few nats of it unless ℓ is so short that 100 cells are too few. The
printed one loses hundreds of nats where data lie within a few lengthscales of
the ends, and where they lie at the ends and ℓ is shorter than the domain it is above the evidence:
no bound at all. That holds for a domain that ends where the data end, as this library's does.
"""
_PADDING = """**With a wider domain** the printed form recovers, and the authors' scripts have one.
Bound minus log evidence in nats, 300 points on [0, 1], 100 cells per unit, the domain longer than
the data by so many lengthscales at each end:
"""
_SLIPS = """Two formulas of the text, beside the exact Gaussian process at 301 places, ℓ = 0.2, the
exact Kuu in all:
"""


def figure(found: Results) -> None:
    """Q(x, x) near the end; bounds minus evidence against the lengthscale."""
    from matplotlib.figure import Figure

    picture = Figure(figsize=(10.0, 3.6), layout="constrained")
    left, middle, right = picture.subplots(1, 3)
    colours = "#0072B2", "#D55E00", "#CC79A7"  # which everyone can tell apart
    dashes, markers = ("-", "-", "--"), ("o", "s", "^")
    styles = {
        form: {"color": colour, "linestyle": dash, "marker": marker, "markersize": 4}
        for form, colour, dash, marker in zip(FORMS, colours, dashes, markers, strict=True)
    }
    for row in found.where(what="share"):
        style = styles[row["method"]] | {"markevery": 25}
        left.plot(row["distance"], row["share"], label=row["method"], **style)
    left.axhline(1.0, color="0.6", lw=0.8, zorder=0)
    left.set(
        xlabel="distance from the end / ℓ", ylabel="Q(x, x) / σ²", title="share of the variance"
    )
    left.legend(frameon=False, fontsize="small")
    for axis, ends, words in ((middle, False, "data all over"), (right, True, "data at the ends")):
        for form, style in styles.items():
            rows = found.where(what="bound", ends=ends, method=form)
            above = [r["bound"] - r["evidence"] for r in rows]
            axis.plot([r["lengthscale"] for r in rows], above, **style)
        axis.axhline(0.0, color="0.6", lw=0.8, zorder=0)
        axis.set(xscale="log", xlabel="ℓ", title=words)
        axis.set_ylabel("bound − log evidence, nats")
        axis.set_yscale("symlog", linthresh=1.0)
        axis.grid(alpha=0.3)
    picture.savefig(results.FIGURES / "erratum.png", dpi=120)
