"""What a fitted model is worth: is the basis large enough, and the summary."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from math import ceil, floor, log10

import numpy as np
from sklearn.utils.validation import check_is_fitted

from asvgp.diagnostics.curvature import StandardErrors, standard_errors
from asvgp.diagnostics.freedom import component_degrees_of_freedom, effective_degrees_of_freedom
from asvgp.kernels import Kernel
from asvgp.model.bound import Bound
from asvgp.model.prior import ChainPrior, data_variance
from asvgp.policies import VERDICT
from asvgp.posterior.chain import ChainPosterior
from asvgp.statistics import Statistics
from asvgp.times import Duration, in_short

_WIDTH = 80


@dataclass(frozen=True)
class BasisVerdict:
    """Whether more basis functions would help.

    Attributes
    ----------
    missed_share : float
        Share of the prior variance at the data that the splines miss.
    penalty : float
        What the bound pays for that, in nats per datum: all that finer knots can recover.
    gain : float
        The part of it that twice the resolution would recover, by theory: the missed
        variance of a kernel with p derivatives falls like ``h**min(2 (k - p), 2 p + 1)``.
    num_basis : int
        Present number of basis functions (of one component).
    suggested : int
        Number that should bring the penalty below 0.001 nats per datum, or as near as digits go.
    verdict : str
        In words.
    """

    missed_share: float
    penalty: float
    gain: float
    num_basis: int
    suggested: int
    verdict: str

    @property
    def enough(self) -> bool:
        """Whether the answer is yes."""
        return self.penalty < VERDICT.enough

    def __str__(self) -> str:
        return self.verdict


def basis_verdict(
    kernel: Kernel, noise: float, stats: Statistics, degree: int | tuple[int, ...]
) -> BasisVerdict:
    """Is the basis large enough? With a number.

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import Matern32
    >>> from asvgp.basis import Grid
    >>> from asvgp.statistics import Statistics
    >>> x = np.linspace(0, 1, 1000)
    >>> for cells in (20, 100, 500):
    ...     stats = Statistics.from_data(x, np.sin(9 * x), Grid(0.0, 1.0, cells), degree=2)
    ...     print(basis_verdict(Matern32(0.3), 0.01, stats, degree=2))
    no: raise num_basis to about 270
    nearly
    yes
    """
    model = ChainPrior(kernel, stats.grid, degree)
    missed, rates = [], []
    for prior in model.priors:
        missed.append(max(prior.missed(stats)[0], 0.0))
        order = prior.kernel.order
        rates.append(min(2 * (prior.degree - order), 2 * order + 1))
    penalties = np.array(missed) / (2.0 * noise * stats.count)
    rates = np.array(rates)
    penalty = float(penalties.sum())
    num_basis = stats.grid.cells + max(model.degrees)
    suggested = num_basis
    if penalty >= VERDICT.enough:
        low, high = 0.0, 60.0  # log2 of the refinement, by bisection
        while high - low > 1e-3:
            middle = 0.5 * (low + high)
            enough = np.sum(penalties * 2.0 ** (-rates * middle)) < VERDICT.enough
            low, high = (low, middle) if enough else (middle, high)
        suggested = _round_up(stats.grid.cells * 2.0**high + max(model.degrees))
    words = "yes" if penalty < VERDICT.enough else "nearly"
    if penalty >= VERDICT.nearly_enough:
        words = f"no: raise num_basis to about {suggested:,}"
        if stats.averaged:
            words += ", or the degree where knots would cut intervals"
    return BasisVerdict(
        sum(missed) / sum(data_variance(part, stats)[0] for part in kernel.components),
        penalty,
        float(np.sum(penalties * (1.0 - 2.0**-rates))),
        num_basis,
        suggested,
        words,
    )


def _round_up(number: float) -> int:
    """To two digits."""
    unit = 10 ** max(floor(log10(number)) - 1, 0)
    return ceil(number / unit) * unit


@dataclass(frozen=True)
class Facts:
    """What a summary asks of the structure of a model."""

    degrees: tuple[int, ...]
    structure: tuple[str, ...]
    freedom: float
    component_freedom: tuple[float, ...]
    verdict: BasisVerdict
    bound: Callable[[Kernel, float], Bound] | None = None


def line_facts(posterior: ChainPosterior) -> Facts:
    """Of a model of one input."""
    degrees = posterior.model.degrees
    return Facts(
        tuple(degrees),
        (),
        effective_degrees_of_freedom(posterior),
        tuple(component_degrees_of_freedom(posterior).tolist()),
        basis_verdict(posterior.kernel, posterior.noise, posterior.stats, degrees),
    )


@dataclass(frozen=True)
class Summary:
    """A fitted model in numbers; print it, or take `as_dict`."""

    kernel: str
    components: tuple[str, ...]
    objective: str
    observations: int
    missing: int
    outputs: int
    num_basis: int | tuple[int, ...]
    degrees: tuple[int, ...]
    structure: tuple[str, ...]
    domain: tuple
    hyperparameters: tuple[dict, ...]
    effects: tuple[dict, ...]
    noise_variance: float
    degrees_of_freedom: float
    component_degrees_of_freedom: tuple[float, ...]
    elbo: float
    evidence_upper_bound: float
    basis: BasisVerdict
    converged: bool
    convergence: str
    timings: dict[str, float]

    def as_dict(self) -> dict:
        """Everything as plain numbers, strings, tuples and dicts."""
        return asdict(self)

    def __str__(self) -> str:
        rule, thin = "=" * _WIDTH, "-" * _WIDTH
        parts = [self._head(), thin, self._table(), thin, self._fit()]
        if self.effects:
            parts[3:3] = [thin, self._effects()]
        return "\n".join([_NAME.center(_WIDTH).rstrip(), rule, *parts, rule])

    def _head(self) -> str:
        missing = f" ({self.missing:,} missing)" if self.missing else ""
        degrees = self.degrees if len(set(self.degrees)) > 1 else self.degrees[:1]
        domains = self.domain if isinstance(self.domain[0], tuple) else (self.domain,)
        spans = [f"{worded(lower)} to {worded(upper)}" for lower, upper in domains]
        counts = self.num_basis if isinstance(self.num_basis, tuple) else (self.num_basis,)
        grid = not self.structure or any(line.startswith("term ") for line in self.structure)
        numbers = (" x " if grid else ", ").join(f"{count:,}" for count in counts)
        if len(self.components) > 1:  # of which term?
            numbers += (
                " each" if len(counts) == 1 else ", finest term" if grid else " (one input each)"
            )
        rows = [
            *_wrapped("Kernel", " + ".join(self.components)),
            _pair("Observations", f"{self.observations:,}{missing}", "Outputs", self.outputs),
            *_pairs(
                "Basis functions",
                numbers,
                "Spline degree",
                ", ".join(map(str, degrees)),
            ),
            *(
                line
                for number, text in enumerate(self.structure)
                for line in _wrapped("" if number else "Structure", text)
            ),
            *_wrapped("Domain", "; ".join(spans)),
        ]
        return "\n".join(rows)

    def _table(self) -> str:
        owner = max(10, *(len(row["component"]) for row in self.hyperparameters))
        name = max(11, *(len(row["name"]) for row in self.hyperparameters))
        layout = f"{{:<{owner + 1}}}{{:<{name + 1}}}{{:>13}}{{:>10}} {{:>23}} {{}}"
        head = ("component", "parameter", "estimate", "rel. s.e.", "95 % interval", "")
        rows, shown = [layout.format(*head)], None
        for row in self.hyperparameters:
            error = interval = ""
            if np.isfinite(row["log_error"]):
                error = f"{row['log_error']:.3g}"
                interval = f"[{worded(row['lower'], 4)}, {worded(row['upper'], 4)}]"
            label = "" if row["component"] == shown else row["component"]
            shown = row["component"]
            estimate = worded(row["estimate"], 5)
            rows.append(layout.format(label, row["name"], estimate, error, interval, row["note"]))
        return "\n".join(line.rstrip() for line in rows)

    def _effects(self) -> str:
        layout = "{:<23}{:>13}{:>9} {:>24} {}"
        rows = [layout.format("effect", "estimate", "s.e.", "95 % interval", "")]
        for row in self.effects:
            interval = f"[{worded(row['lower'], 4)}, {worded(row['upper'], 4)}]"
            name = row["name"] if len(row["name"]) < 23 else row["name"][:19] + "..."
            estimate, error = worded(row["estimate"], 5), worded(row["std"], 3)
            rows.append(layout.format(name, estimate, error, interval, row["note"]))
        return "\n".join(line.rstrip() for line in rows)

    def _fit(self) -> str:
        each = self.observations * self.outputs
        gap = self.evidence_upper_bound - self.elbo
        freedom = f"{self.degrees_of_freedom:.1f}"
        if len(self.components) > 1 or self.effects:
            parts = [f"{part:.1f}" for part in self.component_degrees_of_freedom]
            if self.effects:
                rest = self.degrees_of_freedom - sum(self.component_degrees_of_freedom)
                parts.append(f"{rest:.1f} (effects)")
            freedom += f" = {' + '.join(parts)}"
        basis = self.basis
        upper = f"{self.evidence_upper_bound:.6g}, {gap / each:.3g} per datum above the ELBO"
        if gap / each >= VERDICT.enough:  # or it reads as what finer splines would gain
            upper += "; a cautious bound: what the splines cost is said next"
        rows = [
            *_wrapped("Effective d.f.", freedom),
            _pair("ELBO", f"{self.elbo:.6g}", "per datum", f"{self.elbo / each:.5f}"),
            *_wrapped("Upper bound", upper),
            *_wrapped("Basis enough?", basis.verdict),
            *_wrapped(
                "",
                f"{basis.missed_share:.2g} of the prior variance missed, {basis.penalty:.2g} "
                f"nats per datum; doubling would regain {basis.gain:.2g}",
            ),
            *_wrapped("Training", f"{self.objective}: {self.convergence}"),
            *_wrapped("Time", ", ".join(f"{k} {v:.2f} s" for k, v in self.timings.items())),
        ]
        return "\n".join(rows)


_NAME = "Gaussian process regression, actually sparse B-splines"


def summary(gp) -> Summary:
    """Summarise a fitted `GPRegressor` as a statistics package would.

    Parameters
    ----------
    gp : GPRegressor
        Fitted.

    Returns
    -------
    Summary

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import GPRegressor, Matern52
    >>> rng = np.random.default_rng(0)
    >>> x = np.linspace(0, 10, 1000)
    >>> y = np.sin(x) + 0.1 * rng.standard_normal(1000)
    >>> report = summary(GPRegressor(Matern52()).fit(x, y))
    >>> report.basis.verdict, report.converged
    ('yes', True)
    >>> print(report)  # doctest: +ELLIPSIS
                 Gaussian process regression, actually sparse B-splines
    ============...
    """
    check_is_fitted(gp)
    kernel, noise, report = gp.kernel_, gp.noise_variance_, gp.optimization_
    stats = gp.posterior_.stats  # on the resolution chosen
    given, known = gp.optimizer is None, gp._seen().known_noise
    facts, errors = _worth(gp, given, known)
    labels = [_kind(component, short=True) for component in kernel.components]
    if len(labels) > 1:
        labels = [f"{i} {label}" for i, label in enumerate(labels, start=1)]
    owners = [
        label
        for label, component in zip(labels, kernel.components, strict=True)
        for _ in component.parameters
    ]
    kinds = [
        Duration if isinstance(value, Duration) else float
        for component in kernel.components
        for value in component.listed
    ]
    names = [name for component in kernel.components for name in component.parameters]
    rows = []
    for i, (name, owner) in enumerate(zip([*names, "variance"], [*owners, "noise"], strict=True)):
        kind = float if owner == "noise" else kinds[i]  # times print as times
        rows.append(
            {
                "component": owner,
                "name": name,
                "estimate": kind(errors.values[i]),
                "log_error": float(errors.log_errors[i]),
                "lower": kind(errors.lower[i]),
                "upper": kind(errors.upper[i]),
                "note": (
                    "known"
                    if owner == "noise" and known
                    else "as given"
                    if given
                    else errors.notes[i]
                ),
            }
        )
    return Summary(
        kernel=repr(kernel),
        components=tuple(_kind(component) for component in kernel.components),
        objective=gp.objective,
        observations=stats.count,
        missing=stats.missing,
        outputs=len(stats.squares),
        num_basis=gp.num_basis_,
        degrees=facts.degrees,
        structure=facts.structure,
        domain=tuple(gp.domain_),
        hyperparameters=tuple(rows),
        effects=tuple(_effect_rows(gp)),
        noise_variance=noise,
        degrees_of_freedom=facts.freedom,
        component_degrees_of_freedom=facts.component_freedom,
        elbo=gp.elbo_,
        evidence_upper_bound=gp.evidence_upper_bound_,
        basis=facts.verdict,
        converged=report.converged,
        convergence=str(report) + _open_ended(rows),
        timings=dict(gp.timings_),
    )


def _worth(gp, given: bool, known: bool) -> tuple[Facts, StandardErrors]:
    """Facts and standard errors: many bounds, so they are kept with the posterior they are of."""
    kernel, posterior, at_bounds = gp.kernel_, gp.posterior_, gp.optimization_.at_bounds
    asked = (gp.objective, given, known)  # what may be set after the fit
    kept = vars(posterior).setdefault("_worth", {})
    if asked not in kept:
        facts = gp._seen().structure.facts(posterior, gp.objective, gp.stats_)
        free = [name not in kernel.fixed and not given for name in kernel.parameters]
        free.append(not given and not known)
        inside = dict(zip(kernel.parameters, posterior.kernel.parameters, strict=True))
        errors = standard_errors(
            posterior.kernel,
            posterior.noise,
            posterior.stats,
            facts.degrees,
            gp.objective,
            free,
            [inside.get(name, name) for name in at_bounds],
            facts.bound,
        )
        kept[asked] = replace(facts, bound=None), errors
    return kept[asked]


def _open_ended(rows: list[dict]) -> str:
    """Words for training that ended where the objective has no maximum."""
    lost = [f"{row['component']} {row['name']}" for row in rows if row["note"] == "no maximum"]
    if not lost:
        return ""
    return f"; ended where the objective does not curve downwards in {', '.join(lost)}"


def _kind(component, short: bool = False) -> str:
    """A component by its kernels' names, and the columns they are over."""
    names = []
    for factor in component.factors:
        bare = factor.dim is None or (short and len(component.factors) > 1)
        over = "" if bare else f"({factor.dim})"
        names.append(type(factor).__name__ + over)
    return " x ".join(names)


def _effect_rows(gp):
    """The fixed effects, one row an output."""
    for effect in gp.effects_:
        for number, estimate in enumerate(np.atleast_1d(effect.estimate).tolist()):
            reach = 1.959963984540054 * effect.std
            yield {
                "name": effect.name,
                "estimate": estimate,
                "std": effect.std,
                "lower": estimate - reach,
                "upper": estimate + reach,
                "note": "" if np.ndim(effect.estimate) == 0 else f"output {number}",
            }


def worded(value, digits: int = 6) -> str:
    """A number with so many digits; anything else (a time, a duration) as it prints."""
    if isinstance(value, Duration):
        number, _, unit = str(value).partition(" ")
        return f"{float(number):.{digits}g} {unit}"
    return f"{value:.{digits}g}" if isinstance(value, float | int | np.number) else in_short(value)


def _wrapped(label: str, text: str) -> list[str]:
    """A labelled line, continued under itself."""
    lines = textwrap.wrap(text, _WIDTH - 18) or [""]
    return [f"{label if i == 0 else '':<18}{line}".rstrip() for i, line in enumerate(lines)]


def _pair(label: str, value, other: str, second) -> str:
    """Two labelled values on a line."""
    return f"{label:<18}{value!s:<26}{other:<18}{second!s}"


def _pairs(label: str, value: str, other: str, second: str) -> list[str]:
    """The same, on lines of their own where the first is long."""
    if len(value) < 26:
        return [_pair(label, value, other, second)]
    return [*_wrapped(label, value), *_wrapped(other, second)]
