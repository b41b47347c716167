"""Random models, each from one integer, written as a few lines of Python that anybody can run."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

FAMILIES = {
    "Poisson()": "rng.poisson(np.exp(f)).astype(float)",
    "NegativeBinomial(2.0)": "rng.negative_binomial(2.0, 2.0 / (2.0 + np.exp(f))).astype(float)",
    "Bernoulli()": "(rng.uniform(size=len(f)) < 1 / (1 + np.exp(-f))).astype(float)",
    "Gamma(2.0)": "rng.gamma(2.0, np.exp(f) / 2.0)",
    "StudentT(4.0, 0.3)": "f + 0.3 * rng.standard_t(4.0, len(f))",
}


@dataclass(frozen=True)
class Model:
    """A model and its data, as expressions of Python."""

    seed: int
    n: int
    places: str  # X, from rng and n
    signal: str  # f at X
    noise: float
    parts: tuple[str, ...]
    effects: tuple[str, ...] = ()
    num_basis: str = "'auto'"
    degree: int | None = None
    domain: str | None = None
    weights: str | None = None
    row_noise: str | None = None
    width: str | None = None
    outputs: int = 1
    transform: str | None = None
    family: str | None = None
    halves: bool = False  # rows come by partial_fit, in two portions

    @property
    def kernel(self) -> str:
        """The kernel as code."""
        return " + ".join(self.parts + self.effects)

    def program(self) -> str:
        """Return the model as a program that ends with a fitted ``gp``."""
        if self.family is not None:
            y = FAMILIES[self.family]
        else:
            shape = "n" if self.outputs == 1 else f"(n, {self.outputs})"
            of = "f" if self.outputs == 1 else "f[:, None]"
            y = f"{of} + {self.noise**0.5:.3g} * rng.standard_normal({shape})"
            y = y if self.transform is None else f"np.exp(0.3 * ({y}))"
        settings = [self.kernel, f"num_basis={self.num_basis}", "optimizer=None"]
        if self.family is not None:
            settings.append(f"likelihood={self.family}")
        elif self.row_noise is None:
            settings.append(f"noise_variance={self.noise:g}")
        for name in ("degree", "domain"):
            if getattr(self, name) is not None:
                settings.append(f"{name}={getattr(self, name)}")
        if self.transform is not None:
            settings.append(f"transform={self.transform!r}")
        beside = {"sample_weight": self.weights, "noise_variance": self.row_noise}
        beside = {name: text for name, text in (beside | {"width": self.width}).items() if text}
        lines = [
            "import numpy as np",
            "from asvgp import *",
            f"rng, n = np.random.default_rng({self.seed}), {self.n}",
            f"X = {self.places}",
            f"f = {self.signal}",
            f"y = {y}",
            f"rows = {{{', '.join(f'{name!r}: {text}' for name, text in beside.items())}}}",
            f"gp = GPRegressor({', '.join(settings)})",
        ]
        if self.halves:
            lines += [
                "first = {name: np.broadcast_to(v, n)[: n // 2] for name, v in rows.items()}",
                "last = {name: np.broadcast_to(v, n)[n // 2 :] for name, v in rows.items()}",
                "gp.partial_fit(X[: n // 2], y[: n // 2], **first)",
                "gp.partial_fit(X[n // 2 :], y[n // 2 :], **last)",
            ]
        else:
            lines.append("gp.fit(X, y, **rows)")
        return "\n".join(lines)

    def run(self) -> dict:
        """Run the program and return its variables; warnings of NumPy are errors."""
        variables: dict = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            warnings.simplefilter("error", RuntimeWarning)
            exec(self.program(), variables)
            variables["gp"].elbo_  # noqa: B018  (what partial_fit puts off happens here)
        return variables

    def simpler(self) -> Iterator[Model]:
        """Yield models with less in them, the greatest steps first."""
        for n in (self.n // 4, self.n // 2, 3 * self.n // 4, self.n - 1):
            if 0 < n < self.n:
                yield replace(self, n=n)
        for name in ("width", "weights", "row_noise", "transform", "domain", "degree"):
            if getattr(self, name) is not None:
                yield replace(self, **{name: None})
        if self.outputs > 1:
            yield replace(self, outputs=1)
        if self.halves:
            yield replace(self, halves=False)
        for kind in ("effects", "parts"):
            listed = getattr(self, kind)
            for i in range(len(listed)):
                if kind == "effects" or len(listed) > 1:
                    yield replace(self, **{kind: listed[:i] + listed[i + 1 :]})


def smallest(model: Model, fails) -> Model:
    """Return the simplest model found for which ``fails`` is still true."""
    found = True
    while found:
        found = False
        for trial in model.simpler():
            if fails(trial):
                model, found = trial, True
                break
    return model


class _Draw:
    """Random choices that read well in code."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng([seed, 17])

    def one(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def often(self, share: float) -> bool:
        return bool(self.rng.uniform() < share)

    def number(self, low: float, high: float) -> float:
        """Return a number with three digits, uniform in its logarithm."""
        return float(f"{np.exp(self.rng.uniform(np.log(low), np.log(high))):.3g}")

    def matern(self, unit: float, dim: str = "", least: int = 0) -> str:
        name = self.one(*("Matern12", "Matern32", "Matern52", "Matern72")[least:])
        length = self.number(0.03 * unit, 3.0 * unit)
        return f"{name}({length:g}, {self.number(0.1, 10.0):g}{dim})"


def make(seed: int) -> Model:
    """Return the model of a seed."""
    draw = _Draw(seed)
    inputs = draw.one(1, 1, 1, 1, 2, 2, 3)
    build = (_one_input, _two_inputs, _three_inputs)[inputs - 1]
    model = build(draw, seed, draw.number(0.3, 300.0))
    if model.row_noise is None and model.family is None and draw.often(0.2):
        model = replace(model, row_noise=f"{model.noise:g} * rng.uniform(0.3, 3.0, n)")
    elif draw.often(0.3):
        zeros = draw.one("", " * (rng.uniform(size=n) < 0.9)")
        model = replace(model, weights=f"rng.uniform(0.3, 3.0, n){zeros}")
    if model.family is None and draw.often(0.1):
        model = replace(model, outputs=2)
    elif model.family is None and model.row_noise is None and draw.often(0.07):
        model = replace(model, transform="log")
    if draw.often(0.15) and model.width is None and model.family is None and model.n > 10:
        model = replace(model, halves=True)
    return model


def _effects(draw: _Draw, inputs: int, unit: float) -> tuple[str, ...]:
    effects = []
    if draw.often(0.4):
        effects.append(f"Constant(variance={draw.number(0.1, 100.0):g})")
    if draw.often(0.2):
        column = "" if inputs == 1 else f"{draw.one(*range(inputs))}, "
        effects.append(f"Linear({column}variance={draw.number(0.1, 10.0) / unit**2:.3g})")
    return tuple(effects)


def _one_input(draw: _Draw, seed: int, unit: float) -> Model:
    n = draw.one(1, 3, 10, 20, 40, 60, 100, 150, 250)
    kind = draw.one("line", "line", "sho", "season", "season")
    num_basis, degree = draw.one("'auto'", "20", "200", "500"), None
    parts = [draw.matern(unit) for _ in range(draw.one(1, 1, 2, 3))]
    if kind == "sho":
        quality = draw.one(0.5, draw.number(0.1, 0.45), draw.number(0.6, 30.0))
        period = draw.number(0.1 * unit, 3.0 * unit)
        parts = [f"SHO({period:g}, {quality:g}, {draw.number(0.1, 10.0):g})", *parts[1:]]
    if kind == "season":
        period = draw.number(0.05 * unit, 0.6 * unit)
        length, nu = draw.number(0.1 * period, 3.0 * period), draw.one(0.5, 1.5, 2.5)
        centred = draw.one("", "", ", centred=True")
        season = f"Periodic({period:g}, {length:g}, {draw.number(0.1, 10.0):g}, nu={nu}{centred})"
        if nu > 0.5:  # rough seasons that drift take many functions
            season += draw.one("", "", f" * {draw.matern(unit, least=1)}")
        parts, num_basis = [season, *parts[1:]], "'auto'"
    elif num_basis != "'auto'" and len(parts) == 1 and draw.often(0.3):
        degree = draw.one(4, 5)
    places = draw.one(
        f"{unit:g} * rng.uniform(size=n)",
        f"{unit:g} * rng.uniform(size=n)",
        f"{unit:g} * np.linspace(0.0, 1.0, n)",
        f"{unit:g} * rng.integers(0, 33, n) / 32",
        f"{unit:g} * (rng.integers(0, 3, n) + 0.05 * rng.uniform(size=n))",
        f"{-unit:g} + {unit:g} * rng.uniform(size=n)",
    )
    width = None
    if draw.often(0.2) and kind != "season":
        places = f"{unit:g} * rng.integers(0, 64, n) / 64"
        width = draw.one(f"{unit:g} / 64", f"{unit:g} / 64 * rng.integers(0, 2, n)")
        num_basis, degree = "'auto'", None
    may = width is None and n >= 20 and kind != "season"  # such take much memory
    family = draw.one(*FAMILIES) if may and draw.often(0.06) else None
    swing = f"np.sin({draw.number(1.0, 20.0) / unit:.3g} * X)"
    beyond = None if width else f"({-1.1 * unit:g}, {3.5 * unit:g})"
    return Model(
        seed,
        n,
        places,
        swing + ("" if family else f" * {draw.number(0.1, 10.0):g} + {draw.one(0, 0, 1, -5)}"),
        1.0 if family else draw.number(1e-4, 3.0),
        tuple(parts),
        _effects(draw, 1, unit),
        num_basis,
        degree,
        beyond if n == 1 or (kind != "season" and draw.often(0.25)) else None,
        width=width,
        family=family,
    )


def _term_of_two(draw: _Draw, unit: float) -> str:
    kind = draw.one("product", "product", "joint", "circle")
    if kind == "product":
        return f"{draw.matern(unit, ', dim=0')} * {draw.matern(2.0 * unit, ', dim=1')}"
    if kind == "circle":
        around = f"Periodic({unit:g}, {draw.number(0.1, 2.0) * unit:.3g}, nu=1.5, dim=0)"
        return f"{around} * {draw.matern(2.0 * unit, ', dim=1', 1)}"
    lengths = [draw.number(0.2 * unit, 3.0 * unit) for _ in range(2)]
    turned = draw.one("", "", f", rotation={draw.number(0.1, 3.0):g}")
    length = draw.one(f"{lengths[0]:g}", f"({lengths[0]:g}, {lengths[1]:g}){turned}")
    tail = f"variance={draw.number(0.1, 10.0):g}, dim=(0, 1)"
    return f"Matern({draw.one('1.0', '2.0')}, {length}, {tail})"


def _two_inputs(draw: _Draw, seed: int, unit: float) -> Model:
    n = draw.one(10, 20, 60, 120, 200)
    parts = [_term_of_two(draw, unit)]
    if "Periodic" not in parts[0] and draw.often(0.25):
        parts.append(f"{draw.matern(unit, ', dim=0')} * {draw.matern(2.0 * unit, ', dim=1')}")
    if draw.often(0.1):
        parts = [draw.matern(unit, ", dim=0"), draw.matern(2.0 * unit, ", dim=1")]
    columns, basis = f"[{unit:g}, {2.0 * unit:g}]", draw.one("10", "(12, 20)", "30", "'auto'")
    places = f"rng.uniform(size=(n, 2)) * {columns}"
    lattice = f"(rng.integers(0, 9, (n, 2)) / 8) * {columns}"
    swing = f"[{draw.number(1.0, 9.0) / unit:.3g}, {draw.number(1.0, 9.0) / unit:.3g}]"
    return Model(
        seed,
        n,
        draw.one(places, places, lattice),
        f"np.sin(X @ {swing}) * {draw.number(0.1, 5.0):g}",
        draw.number(1e-3, 3.0),
        tuple(parts),
        _effects(draw, 2, unit),
        basis,
    )


def _three_inputs(draw: _Draw, seed: int, unit: float) -> Model:
    n = draw.one(20, 60, 120)
    kind = draw.one("smooth", "smooth", "product", "time")
    third = draw.matern(unit, ", dim=2")
    if kind == "smooth":
        parts, basis = [_term_of_two(draw, unit), third], draw.one("8", "12", "'auto'")
    elif kind == "product":
        first = f"{draw.matern(unit, ', dim=0')} * {draw.matern(2.0 * unit, ', dim=1')}"
        parts, basis = [f"{first} * {third}"], draw.one("6", "(8, 7, 8)")
    else:
        joint = f"Matern(1.0, {draw.number(0.3, 2.0) * unit:.3g}, dim=(0, 1))"
        parts, basis = [f"{joint} * {third}"], "6"
    swing = f"{draw.number(1.0, 5.0) / unit:.3g}"
    return Model(
        seed,
        n,
        f"rng.uniform(size=(n, 3)) * [{unit:g}, {2.0 * unit:g}, {unit:g}]",
        f"np.sin({swing} * X.sum(axis=1)) * {draw.number(0.1, 5.0):g}",
        draw.number(1e-2, 3.0),
        tuple(parts),
        _effects(draw, 3, unit),
        basis,
    )
