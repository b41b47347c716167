"""The summary of a fitted model, as a statistics package would print it."""

from __future__ import annotations

import re
import textwrap
from dataclasses import asdict, dataclass, replace
from math import nan
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.utils.validation import check_is_fitted

from asvgp.diagnostics.below_zero import found_below_zero
from asvgp.diagnostics.curvature import StandardErrors, standard_errors
from asvgp.diagnostics.facts import Facts
from asvgp.diagnostics.verdict import BasisVerdict
from asvgp.kernels import SHO, Effect, Linear, Matern12, Periodic, period_in_words, season_names
from asvgp.likelihoods import Family
from asvgp.policies import VERDICT
from asvgp.times import Duration, in_short

_WIDTH = 80
_PER_SECOND = " per second"  # as slopes along times are given
_UNDETERMINED = 7.0  # [log] a standard error of a factor of a thousand either way


@dataclass(frozen=True)
class Summary:
    """A fitted model in numbers; print it, or take `as_dict`."""

    kernel: str
    components: tuple[str, ...]
    seasons: tuple[str, ...]  # that the components are parts of, "" for none
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
    noise_variance: float  # NaN where the likelihood is not Gaussian
    degrees_of_freedom: float
    component_degrees_of_freedom: tuple[float, ...]
    elbo: float
    evidence_upper_bound: float  # NaN where none is known
    basis: BasisVerdict
    converged: bool
    convergence: str
    timings: dict[str, float]
    transform: str = "y"  # what the model is of, and why where it was chosen
    effect_kinds: tuple[str, ...] = ()
    kernel_choice: str = ""  # how the kernel was chosen, where the user gave none
    likelihood: str = "Gaussian"  # with its trained parameters, where it is another
    steps: int = 0  # to the sites of a likelihood that is not Gaussian, and
    reads: int = 1  # how often its rows were read
    # Share of the deviance that is explained, and multiple of the scatter that the likelihood says,
    # of so many rows; NaN where no rows were at hand
    deviance_explained: float = nan
    scatter: float = nan
    looked_at: int = 0
    findings: tuple[str, ...] = ()  # about the likelihood, and bands that reach below zero
    # Smallest, middle and largest standard deviation of noise that varies along the inputs
    noise: tuple[float, ...] = ()
    missing_code: str = ""  # what looks like one among the targets

    def as_dict(self) -> dict:
        """Return everything as plain numbers, strings, tuples and dicts."""
        return asdict(self)

    def __str__(self) -> str:
        rule, thin = "=" * _WIDTH, "-" * _WIDTH
        parts = [self._head(), thin, self._table(), thin, self._fit()]
        if self.effects:
            parts[3:3] = [thin, self._effects()]
        kind = "classification" if self.likelihood.startswith("Bernoulli") else "regression"
        return "\n".join([_NAME.format(kind).center(_WIDTH).rstrip(), rule, *parts, rule])

    def _head(self) -> str:
        missing = f" ({self.missing:,} missing)" if self.missing else ""
        degrees = self.degrees if len(set(self.degrees)) > 1 else self.degrees[:1]
        domains = self.domain if isinstance(self.domain[0], tuple) else (self.domain,)
        spans = [f"{worded(lower)} to {worded(upper)}" for lower, upper in domains]
        counts = self.num_basis if isinstance(self.num_basis, tuple) else (self.num_basis,)
        grid = not self.structure or any(line.startswith("term ") for line in self.structure)
        numbers = (" x " if grid else ", ").join(f"{count:,}" for count in counts)
        if len(self.components) > 1:  # of which term?
            each = " in all" if self.structure else " each"
            several = ", finest term" if grid else " (one input each)"
            numbers += each if len(counts) == 1 else several
        rows = [
            *_wrapped("Kernel", " + ".join(self.components + self.effect_kinds)),
            *(_wrapped("", self.kernel_choice) if self.kernel_choice else []),
            _pair("Observations", f"{self.observations:,}{missing}", "Outputs", self.outputs),
            *_pairs(
                "Basis functions",
                numbers,
                "Spline degree",
                ", ".join(map(str, degrees)) or "none",
            ),
            *(
                line
                for number, text in enumerate(self.structure)
                for line in _wrapped("" if number else "Structure", text)
            ),
            *_wrapped("Domain", "; ".join(spans)),
            *([] if self.transform == "y" else _wrapped("Model of", self.transform)),
            *([] if self.likelihood == "Gaussian" else _wrapped("Likelihood", self.likelihood)),
        ]
        return "\n".join(rows)

    def _table(self) -> str:
        """Return the hyperparameters; components of one season stand together."""
        rows = []
        for season, group in self.by_season():
            rows += [(season, "", "", "", "", "")] * bool(season)
            shown = None
            for row in group:
                error = interval = ""
                if np.isfinite(row["log_error"]):
                    error = f"{row['log_error']:.3g}"
                    interval = _interval(row["lower"], row["upper"])
                    interval = interval if row["log_error"] < _UNDETERMINED else "undetermined"
                label = "" if row["component"] == shown else row["component"]
                label = " " * (2 * bool(season)) + label
                shown = row["component"]
                estimate = worded(row["estimate"], 5)
                rows.append((label, row["name"], estimate, error, interval, row["note"]))
        widths = [  # a season's name may reach into the other columns
            max(least, *(len(row[i]) for row in rows if row[1]))
            for i, least in enumerate((10, 11, 13, 9, 23))
        ]
        columns = [f"{{:{side}{width}}}" for side, width in zip("<<>>>", widths, strict=True)]
        layout = " ".join([*columns, "{}"])
        head = ("component", "parameter", "estimate", "rel. s.e.", "95 % interval", "")
        return "\n".join(layout.format(*row).rstrip() for row in [head, *rows])

    def by_season(self) -> list[tuple[str, list[dict]]]:
        """Return the hyperparameters by season, each where its first component is."""
        owners = list(dict.fromkeys(row["component"] for row in self.hyperparameters))
        seasons = dict(zip(owners, self.seasons, strict=False))  # the noise has none
        groups: dict[str, list[dict]] = {}
        for row in self.hyperparameters:
            season = seasons.get(row["component"], "")
            groups.setdefault(season or row["component"], []).append(row)
        return [(key if key in self.seasons else "", rows) for key, rows in groups.items()]

    def _effects(self) -> str:
        layout = "{:<23}{:>13}{:>9} {:>24} {}"
        rows = [layout.format("effect", "estimate", "s.e.", "95 % interval", "")]
        for row in self.effects:
            interval = _interval(row["lower"], row["upper"])
            name = row["name"] if len(row["name"]) < 23 else row["name"][:19] + "..."
            estimate, error = worded(row["estimate"], 5), worded(row["std"], 3)
            rows.append(layout.format(name, estimate, error, interval, row["note"]))
        return "\n".join(line.rstrip() for line in rows)

    def _freedoms(self) -> list[str]:
        """Return the degrees of freedom of components, those of a season added and named."""
        sums: dict[str | int, float] = {}
        for number, part in enumerate(self.component_degrees_of_freedom):
            key = self.seasons[number] or number
            sums[key] = sums.get(key, 0.0) + part
        return [
            f"{part:.1f} ({key})" if isinstance(key, str) else f"{part:.1f}"
            for key, part in sums.items()
        ]

    def _fit(self) -> str:
        each = self.observations * self.outputs
        gap = self.evidence_upper_bound - self.elbo
        freedom = f"{self.degrees_of_freedom:.1f}"
        if len(self.components) > 1 or self.effects:
            parts = self._freedoms()
            if self.effects:
                rest = self.degrees_of_freedom - sum(self.component_degrees_of_freedom)
                parts.append(f"{rest:.1f} (effects)")
            freedom += f" = {' + '.join(parts)}"
        basis = self.basis
        upper = f"{self.evidence_upper_bound:.6g}, {gap / each:.3g} per datum above the ELBO"
        if np.isnan(gap):
            upper = "none is known for this likelihood"
        elif gap / each >= VERDICT.enough:  # or it reads as what finer splines would gain
            upper += "; a cautious bound: the next lines say what the splines cost"
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
            *self._deviance(),
            *(line for text in self._notes() for line in _wrapped("Please check", text)),
            *_wrapped("Training", f"{self.objective}: {self.convergence}"),
            *_wrapped("Time", ", ".join(f"{k} {v:.2f} s" for k, v in self.timings.items())),
        ]
        return "\n".join(rows)

    def _notes(self) -> list[str]:
        """Return what a reader should know of the data and the likelihood."""
        return [self.missing_code] * bool(self.missing_code) + list(self.findings)

    def _deviance(self) -> list[str]:
        """Return lines on how the likelihood suits the data; none for Gaussian noise."""
        if self.likelihood == "Gaussian":
            return []
        read = "once" if self.reads == 1 else f"{self.reads:,} times"
        rows = _wrapped("Sites", f"{self.steps:,} steps, the data read {read}")
        if self.looked_at:
            of = "" if self.looked_at >= self.observations else f" (of {self.looked_at:,} rows)"
            text = f"{100.0 * self.deviance_explained:.1f} % of the deviance explained{of}"
            if np.isfinite(self.scatter):
                text += f"; the variance of y is {self.scatter:.2f} times that of the likelihood"
            rows += _wrapped("Fit", text)
        if self.noise:
            low, middle, high = self.noise
            text = (
                f"standard deviation {low:.4g} to {high:.4g} at the rows, half below {middle:.4g}"
            )
            rows += _wrapped("Noise", text)
        return rows


_NAME = "Gaussian process {}, actually sparse B-splines"


def summary(gp) -> Summary:
    """Summarise a fitted `GPRegressor` as a statistics package would.

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
    kernel, likelihood, report = gp.kernel_, gp.likelihood_, gp.optimization_
    family = likelihood if isinstance(likelihood, Family) else None
    below = "" if family else found_below_zero(gp._fit_data(), gp._fitted())
    stats = gp.posterior_.stats  # on the resolution chosen
    given, known = gp.optimizer is None, gp._fit_data().known_noise
    facts, errors = _diagnosis(gp, given, known)
    labels = [_kind(component, short=True) for component in kernel.components]
    if len(labels) > 1:
        labels = [f"{i} {label}" for i, label in enumerate(labels, start=1)]
    named = [
        (label, name, Duration if isinstance(value, Duration) else float)  # times print as times
        for label, part in zip(labels, kernel.components, strict=True)
        for name, value in zip(part.parameters, part.listed, strict=True)
    ]
    rows, count = [], len(named)
    for parameter in () if family else gp.posterior_.likelihood.parameters:  # noise variance
        owner, _, name = parameter.partition(" ")
        named.append((owner, name, float))
    for i, (owner, name, kind) in enumerate(named):
        rows.append(
            {
                "component": owner,
                "name": name,
                "estimate": kind(errors.values[i]),
                "log_error": float(errors.log_errors[i]),
                "lower": kind(errors.lower[i]),
                "upper": kind(errors.upper[i]),
                "note": (
                    "known" if i >= count and known else "as given" if given else errors.notes[i]
                ),
            }
        )
    rows += [] if family is None else _parameter_rows(family, given, report.at_bounds)
    convergence = str(report)
    if lost := [f"{r['component']} {r['name']}" for r in rows if r["note"] == "no maximum"]:
        convergence += f"; the objective has no maximum with respect to {', '.join(lost)}"
    if short := [f"{r['component']} {r['name']}" for r in rows if r["note"] == "off maximum"]:
        convergence += (
            "; it stopped when a step gained too little per row to matter, more than half a "
            f"standard error from the best value of {', '.join(short)}"
        )
    return Summary(
        kernel=repr(kernel),
        components=tuple(_kind(component) for component in kernel.components),
        seasons=tuple(season_names(kernel)),
        objective=gp.objective_,
        observations=stats.count,
        missing=gp.stats_.missing,
        outputs=len(stats.squares),
        num_basis=gp.num_basis_,
        degrees=facts.degrees,
        structure=facts.structure,
        domain=tuple(gp.domain_),
        hyperparameters=tuple(rows),
        effects=tuple(_effect_rows(gp)),
        noise_variance=nan if family else gp.noise_variance_,
        degrees_of_freedom=facts.freedom,
        component_degrees_of_freedom=facts.component_freedom,
        elbo=gp.elbo_,
        evidence_upper_bound=gp.evidence_upper_bound_,
        basis=facts.verdict,
        converged=report.converged,
        convergence=convergence,
        timings=dict(gp.timings_),
        transform="y" if family else gp._fit_data().choice or str(gp.transform_),
        effect_kinds=tuple(_effect_kind(effect) for effect in kernel.effects),
        kernel_choice=_kernel_choice(gp),
        findings=(*report.findings, *([below] if below else [])),
        missing_code=report.missing_code,
        **({} if family is None else _of_family(family, report)),
    )


def _of_family(family: Family, report) -> dict:
    """Return what a summary says of a likelihood that is not Gaussian."""
    known = {name: getattr(report, name, None) for name in ("steps", "reads", "looked_at")}
    found = {
        "likelihood": in_few_digits(family),
        "deviance_explained": getattr(report, "explained", nan),
        "scatter": getattr(report, "scatter", nan),
        "noise": tuple(getattr(report, "noise", ())),
    }
    return found | {name: value for name, value in known.items() if value is not None}


def in_few_digits(family: Family) -> str:
    """Return a likelihood as it prints, its numbers in few digits.

    Examples
    --------
    >>> from asvgp.likelihoods import NegativeBinomial
    >>> in_few_digits(NegativeBinomial(dispersion=8.123456789))
    'NegativeBinomial(dispersion=8.12346)'
    """
    return re.sub(r"\d+\.\d+(e[+-]?\d+)?", lambda found: f"{float(found[0]):.6g}", repr(family))


def _parameter_rows(family: Family, given: bool, at_bounds):
    """Yield the parameters of a likelihood, trained or given; their errors are not computed."""
    pairs = zip(family.parameters, family.values, strict=True)
    every = {name: family.number(name) for name in family.starts} or dict(pairs)
    for name, value in every.items():
        note = "at bound" if name in at_bounds else ""
        yield {
            "component": type(family).__name__,
            "name": name,
            "estimate": float(value),
            "log_error": nan,
            "lower": nan,
            "upper": nan,
            "note": note if name in family.parameters and not given else "as given",
        }


def _kernel_choice(gp) -> str:
    """Return how the kernel was chosen from the data; empty where the user gave it."""
    if gp.kernel is not None:
        return ""
    if gp.n_features_in_ > 1:
        note = "the default without seasons, because there are several inputs"
        return gp._fit_data().kernel_choice or note
    if gp.num_basis != "auto" or gp.degree is not None or gp.stats_.averaged:
        return "the default without seasons, because num_basis, degree or width is given"
    first = gp._fit_data().kernel_choice  # where not all rows were at hand
    first = f" ({first})" if first else ""
    seasons = [part.period for part in gp.kernel_.components if isinstance(part, Periodic)]
    if seasons:
        periods = ", ".join(map(period_in_words, seasons))
        found = f"chosen from the data: period{'s' * (len(seasons) > 1)} {periods}"
        waves = [p for p in gp.kernel_.components if isinstance(p, SHO) and not p.fixed]
        found += "".join(f", and a wave of period {worded(wave.period)}" for wave in waves)
        return found + _others(gp) + first
    return "chosen from the data: no period found" + _others(gp) + first


def _others(gp) -> str:
    """Return what the default kernel has beside seasons, in words."""
    rough = any(isinstance(part, Matern12) for part in gp.kernel_.components)
    return "; a rough process and a smooth one" * rough + _trend(gp)


def _trend(gp) -> str:
    """Return the trend of the default kernel in words; empty where it has none."""
    if not any(isinstance(effect, Linear) for effect in gp.kernel_.effects):
        return ""
    bends = [
        f"that bends steadily (component {number}, a wave far longer than the data)"
        if isinstance(part, SHO)
        else f"whose slope wanders (component {number})"
        for number, part in enumerate(gp.kernel_.components, 1)
        if part.fixed
    ]
    return "; a line " + bends[0] if bends else "; a line"


# Facts and standard errors take two bounds per hyperparameter, so they are kept as long as the
# posterior that they belong to.
_Diagnosis = tuple[Facts, StandardErrors]
_DIAGNOSES: WeakKeyDictionary[object, dict[tuple, _Diagnosis]] = WeakKeyDictionary()


def _diagnosis(gp, given: bool, known: bool) -> _Diagnosis:
    """Return facts and standard errors of a fitted model."""
    kernel, posterior, at_bounds = gp.kernel_, gp.posterior_, gp.optimization_.at_bounds
    settings = (gp.objective_, given, known)  # these may be set after the fit
    diagnoses = _DIAGNOSES.setdefault(posterior, {})
    if settings not in diagnoses:
        facts = gp._fit_data().structure.facts(posterior, gp.objective_, gp.stats_)
        free = [name not in kernel.fixed and not given for name in kernel.parameters]
        # The noise of sites is one. The errors of a kernel are those with the sites held.
        trained = not given and not known and not isinstance(gp.likelihood_, Family)
        free += [trained] * len(posterior.likelihood.parameters)
        inside = dict(zip(kernel.parameters, posterior.kernel.parameters, strict=True))
        errors = standard_errors(
            posterior.kernel,
            posterior.likelihood,
            posterior.stats,
            facts.degrees,
            gp.objective_,
            free,
            [inside.get(name, name) for name in at_bounds],
            facts.bound,
        )
        diagnoses[settings] = replace(facts, bound=None), errors
    return diagnoses[settings]


def _kind(component, short: bool = False) -> str:
    """Return a component by its kernels' names, and the columns they are over."""
    names = []
    for factor in component.factors:
        bare = factor.dim is None or (short and len(component.factors) > 1)
        columns = factor.dim if isinstance(factor.dim, tuple) else (factor.dim,)
        over = "" if bare else f"({', '.join(map(str, columns))})"
        names.append(factor.written_name + over)
    return " x ".join(names)


def _effect_kind(effect: Effect) -> str:
    """Return an effect by its name, and the column it is over."""
    over = getattr(effect, "dim", None)
    return type(effect).__name__ + ("" if over is None else f"({over})")


def _effect_rows(gp):
    """Yield the fixed effects, one row per output."""
    for effect in gp.effects_:
        name, unit = effect.name, 1.0
        if name.endswith(_PER_SECOND):
            name, unit = name.removesuffix(_PER_SECOND) + " per day", 86_400.0
        for number, estimate in enumerate(np.atleast_1d(effect.estimate).tolist()):
            reach = 1.959963984540054 * effect.std
            yield {
                "name": name,
                "estimate": estimate * unit,
                "std": effect.std * unit,
                "lower": (estimate - reach) * unit,
                "upper": (estimate + reach) * unit,
                "note": "" if np.ndim(effect.estimate) == 0 else f"output {number}",
            }


def worded(value, digits: int = 6) -> str:
    """Return a number with so many digits, anything else (a time, a duration) as it prints."""
    if isinstance(value, Duration):
        number, _, unit = str(value).partition(" ")
        return f"{float(number):.{digits}g} {unit}"
    return f"{value:.{digits}g}" if isinstance(value, float | int | np.number) else in_short(value)


def _interval(lower, upper) -> str:
    """Return an interval, with a unit that both ends have written once."""
    ends = worded(lower, 4), worded(upper, 4)
    (first, _, unit), (last, _, other) = (end.partition(" ") for end in ends)
    if isinstance(lower, Duration) and unit == other:
        return f"[{first}, {last}] {unit}"
    return f"[{ends[0]}, {ends[1]}]"


def _wrapped(label: str, text: str) -> list[str]:
    """Return a labelled line, continued under itself."""
    lines = textwrap.wrap(text, _WIDTH - 18) or [""]
    return [f"{label if i == 0 else '':<18}{line}".rstrip() for i, line in enumerate(lines)]


def _pair(label: str, value, other: str, second) -> str:
    """Return two labelled values on one line."""
    return f"{label:<18}{value!s:<26}{other:<18}{second!s}"


def _pairs(label: str, value: str, other: str, second: str) -> list[str]:
    """Return two labelled values, on lines of their own where the first is long."""
    if len(value) < 26:
        return [_pair(label, value, other, second)]
    return [*_wrapped(label, value), *_wrapped(other, second)]
