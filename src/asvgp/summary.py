"""What a fitted model is worth: standard errors, is the basis large enough, the summary."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from math import ceil, exp, floor, log10

import numpy as np
from sklearn.utils.validation import check_is_fitted

from asvgp.basis import Array
from asvgp.checking import component_degrees_of_freedom, effective_degrees_of_freedom
from asvgp.inference.bound import Bound, lower_bound
from asvgp.inference.model import Model
from asvgp.inference.prior import data_variance
from asvgp.kernels import Kernel, Sum
from asvgp.parallel import one_blas_thread
from asvgp.posterior import Posterior
from asvgp.stats import Statistics
from asvgp.times import Duration

NOISE = "noise variance"  # as `asvgp.inference.optimise` names it
ENOUGH, NEARLY = 1e-3, 1e-2  # nats per datum
_STEP = 1e-3  # of a log-hyperparameter, in the differences of gradients
_RISING = 0.5  # nats, along what curves upwards, that training has left
_WIDTH = 80


@dataclass(frozen=True, eq=False)
class StandardErrors:
    """Uncertainty of hyperparameters, from the curvature of the objective.

    Attributes
    ----------
    names : tuple of str
        The kernel's hyperparameters and ``"noise variance"``.
    values : ndarray
    log_errors : ndarray
        Standard errors of the logarithms, which to first order are relative errors; NaN
        where there is a reason in ``notes`` not to have one.
    lower, upper : ndarray
        95 % intervals of the hyperparameters.
    notes : tuple of str
        ``"fixed"``, ``"at bound"``, ``"no maximum"`` (the objective does not curve downwards
        there: the data do not determine it, and the others are as if it were known) or
        ``"off maximum"`` (training ended more than half a standard error from it, or where
        the objective still rises).
    covariance : ndarray
        Of the logarithms; NaN in the rows and columns of those without standard error.
    """

    names: tuple[str, ...]
    values: Array
    log_errors: Array
    lower: Array
    upper: Array
    notes: tuple[str, ...]
    covariance: Array


def standard_errors(
    kernel: Kernel,
    noise: float,
    stats: Statistics,
    degree: int | tuple[int, ...],
    objective: str = "elbo",
    free: Sequence[bool] | None = None,
    at_bounds: Collection[str] = (),
    bound: Callable[[Kernel, float], Bound] | None = None,
) -> StandardErrors:
    """Standard errors of log-hyperparameters: the inverse of the objective's negative Hessian.

    The Hessian comes from central differences of the analytic gradient, two bounds for
    every free hyperparameter.

    Parameters
    ----------
    kernel, noise, stats, degree, objective
        As in `asvgp.inference.bound.lower_bound`, at the maximum.
    free : sequence of bool, optional
        Which hyperparameters were estimated, the noise variance last; by default all but
        the kernel's ``fixed`` ones.
    at_bounds : collection of str
        Names of those that training left on a bound. They are taken as known, as are those
        on one of the kernel's ``bounds``.
    bound : callable, optional
        Another bound of kernel and noise than that of one input.

    Returns
    -------
    StandardErrors

    Examples
    --------
    >>> import numpy as np
    >>> from asvgp import GPRegressor, Matern32
    >>> rng = np.random.default_rng(0)
    >>> x = np.linspace(0, 10, 1000)
    >>> y = np.sin(3 * x) + 0.1 * rng.standard_normal(1000)
    >>> gp = GPRegressor(Matern32()).fit(x, y)
    >>> errors = standard_errors(gp.kernel_, gp.noise_variance_, gp.stats_, degree=2)
    >>> errors.names
    ('lengthscale', 'variance', 'noise variance')
    >>> bool(errors.lower[2] < 0.01 < errors.upper[2])
    True
    """
    names = (*kernel.parameters, NOISE)
    values = np.append(kernel.values, noise)
    size = len(names)
    estimated = np.array([name not in kernel.fixed for name in names] if free is None else free)
    if estimated.shape != (size,):
        raise ValueError(f"free must have {size} entries, for {', '.join(names)}.")
    notes = ["" if is_free else "fixed" for is_free in estimated]
    for i, name in enumerate(names):
        ends = kernel.bounds.get(name, (0.0, np.inf))
        stuck = name in at_bounds or any(np.isclose(values[i], end, rtol=1e-6) for end in ends)
        if stuck and estimated[i]:
            notes[i], estimated[i] = "at bound", False
    rows = np.flatnonzero(estimated).tolist()
    theta = np.log(values)

    def gradient(row: int, step: float) -> Array:
        moved = theta.copy()
        moved[row] += step
        changed = _with_values(kernel, np.exp(moved[:-1]))
        if bound is not None:
            return bound(changed, exp(moved[-1])).gradient[rows]
        return lower_bound(changed, exp(moved[-1]), stats, degree, objective).gradient[rows]

    covariance = np.full((size, size), np.nan)
    if len(rows):
        with one_blas_thread:
            here = gradient(rows[0], 0.0)
            hessian = [(gradient(r, _STEP) - gradient(r, -_STEP)) / (2.0 * _STEP) for r in rows]
        curvature = -0.5 * (np.array(hessian) + np.transpose(hessian))
        # Those along which nothing is determined are taken as known by the others.
        kept = np.arange(len(rows))
        while (inverse := _inverse(curvature[np.ix_(kept, kept)])) is None:
            lost, slope = _undetermined(curvature[np.ix_(kept, kept)], here[kept])
            for place, rise in zip(kept[lost], slope[lost], strict=True):
                # Away from a maximum a ridge may curve upwards, whatever the data determine.
                notes[rows[place]] = "off maximum" if abs(rise) > _RISING else "no maximum"
            kept = kept[~lost]
        own = np.array(rows)[kept]
        covariance[np.ix_(own, own)] = inverse
        # What a Newton step would still change, in standard errors.
        left = np.abs(inverse @ here[kept]) / np.sqrt(np.diag(inverse))
        for row, distance in zip(own.tolist(), left, strict=True):
            if distance > 0.5:
                notes[row] = "off maximum"
    errors = np.sqrt(np.diag(covariance))
    with np.errstate(over="ignore"):
        reach = np.exp(1.959963984540054 * errors)
        lower, upper = values / reach, values * reach
    return StandardErrors(names, values, errors, lower, upper, tuple(notes), covariance)


def _with_values(kernel: Kernel, values: Array) -> Kernel:
    """The kernel with other hyperparameters, whatever is fixed or bounded."""
    parts, first = [], 0
    for component in kernel.components:
        last = first + len(component.parameters)
        changes = dict(zip(component.parameters, values[first:last].tolist(), strict=True))
        parts.append(component.replace(fixed=(), bounds={}, **changes))
        first = last
    return kernel.replace_parts(parts) if isinstance(kernel, Sum) else parts[0]


def _inverse(matrix: Array) -> Array | None:
    """Inverse of a positive definite matrix, None where it is not one beyond rounding."""
    diagonal = np.diag(matrix)
    if not np.all(np.isfinite(matrix)) or np.any(diagonal <= 0.0):
        return None
    scale = diagonal**-0.5
    eigenvalues, vectors = np.linalg.eigh(matrix * np.outer(scale, scale))
    if len(eigenvalues) and eigenvalues[0] <= 1e-8:
        return None
    return (vectors / eigenvalues) @ vectors.T * np.outer(scale, scale)


def _undetermined(matrix: Array, gradient: Array) -> tuple[np.ndarray, Array]:
    """Which rows keep a matrix from being positive definite, at least one; slopes along them."""
    diagonal = np.diag(matrix)
    if not np.all(np.isfinite(matrix)):
        return np.ones(len(matrix), dtype=bool), np.zeros(len(matrix))
    if np.any(diagonal <= 0.0):
        return diagonal <= 0.0, gradient
    scale = diagonal**-0.5
    flattest = np.linalg.eigh(matrix * np.outer(scale, scale))[1][:, 0]
    slope = np.full(len(matrix), flattest @ (scale * gradient))
    return np.arange(len(matrix)) == np.argmax(np.abs(flattest)), slope


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
        Number that should bring the penalty below 0.001 nats per datum.
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
        return self.penalty < ENOUGH

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
    >>> from asvgp.stats import Statistics
    >>> x = np.linspace(0, 1, 1000)
    >>> for cells in (20, 100, 500):
    ...     stats = Statistics.from_data(x, np.sin(9 * x), Grid(0.0, 1.0, cells), degree=2)
    ...     print(basis_verdict(Matern32(0.3), 0.01, stats, degree=2))
    no: raise num_basis to about 270
    nearly
    yes
    """
    model = Model(kernel, stats.grid, degree)
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
    if penalty >= ENOUGH:
        low, high = 0.0, 60.0  # log2 of the refinement, by bisection
        while high - low > 1e-3:
            middle = 0.5 * (low + high)
            enough = np.sum(penalties * 2.0 ** (-rates * middle)) < ENOUGH
            low, high = (low, middle) if enough else (middle, high)
        suggested = _round_up(stats.grid.cells * 2.0**high + max(model.degrees))
    words = "yes" if penalty < ENOUGH else "nearly"
    if penalty >= NEARLY:
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


def line_facts(posterior: Posterior) -> Facts:
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
        spans = [f"{_number(lower)} to {_number(upper)}" for lower, upper in domains]
        counts = self.num_basis if isinstance(self.num_basis, tuple) else (self.num_basis,)
        many = "" if len(self.components) == 1 or len(counts) > 1 else " each"
        rows = [
            *_wrapped("Kernel", " + ".join(self.components)),
            _pair("Observations", f"{self.observations:,}{missing}", "Outputs", self.outputs),
            *_pairs(
                "Basis functions",
                " x ".join(f"{count:,}" for count in counts) + many,
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
        layout = f"{{:<{owner + 1}}}{{:<{name + 1}}}{{:>13}}{{:>9}}{{:>25}} {{}}"
        head = ("component", "parameter", "estimate", "s.e. log", "95 % interval", "")
        rows, shown = [layout.format(*head)], None
        for row in self.hyperparameters:
            error = interval = ""
            if np.isfinite(row["log_error"]):
                error = f"{row['log_error']:.3g}"
                interval = f"[{_number(row['lower'], 4)}, {_number(row['upper'], 4)}]"
            label = "" if row["component"] == shown else row["component"]
            shown = row["component"]
            estimate = _number(row["estimate"], 5)
            rows.append(layout.format(label, row["name"], estimate, error, interval, row["note"]))
        return "\n".join(line.rstrip() for line in rows)

    def _effects(self) -> str:
        layout = "{:<23}{:>13}{:>9}{:>25} {}"
        rows = [layout.format("effect", "estimate", "s.e.", "95 % interval", "")]
        for row in self.effects:
            interval = f"[{_number(row['lower'], 4)}, {_number(row['upper'], 4)}]"
            name = row["name"] if len(row["name"]) < 23 else row["name"][:19] + "..."
            estimate, error = _number(row["estimate"], 5), _number(row["std"], 3)
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
        rows = [
            *_wrapped("Effective d.f.", freedom),
            _pair("ELBO", f"{self.elbo:.6g}", "per datum", f"{self.elbo / each:.5f}"),
            _pair(
                "Upper bound",
                f"{self.evidence_upper_bound:.6g}",
                "gap per datum",
                f"{gap / each:.3g}",
            ),
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
    kernel, noise, posterior = gp.kernel_, gp.noise_variance_, gp.posterior_
    stats = posterior.stats  # on the resolution chosen
    structure, report = gp._seen().structure, gp.optimization_
    facts = structure.facts(posterior, gp.objective, gp.stats_)
    given, known = gp.optimizer is None, gp._seen().known_noise
    free = [name not in kernel.fixed and not given for name in kernel.parameters]
    free.append(not given and not known)
    inside = dict(zip(kernel.parameters, posterior.kernel.parameters, strict=True))
    errors = standard_errors(
        posterior.kernel,
        noise,
        stats,
        facts.degrees,
        gp.objective,
        free,
        [inside.get(name, name) for name in report.at_bounds],
        facts.bound,
    )
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


def _number(value, digits: int = 6) -> str:
    """A number with so many digits; anything else (a time, a duration) as it prints."""
    if isinstance(value, Duration):
        number, _, unit = str(value).partition(" ")
        return f"{float(number):.{digits}g} {unit}"
    return f"{value:.{digits}g}" if isinstance(value, float | int | np.number) else str(value)


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
