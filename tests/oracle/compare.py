"""The comparison of a fitted model with the dense Gaussian process that it stands for.

The approximate posterior q of the process and the exact one p differ by ``KL(q || p) = evidence -
elbo``, and no linear functional of the process, be it a mean, a derivative, an integral or that of
one component, can differ by more. So a tolerance needs no guess: the distance of the bound from
the dense evidence is the tolerance of everything else.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np

from asvgp.kernels import SHO, Periodic
from asvgp.kernels.joint import JointMatern
from tests.oracle.dense import DenseGP, dense_posterior
from tests.oracle.models import Model, make, smallest
from tests.oracle.processes import Atoms

ROUNDING = 1e-9  # nats per row and per unit of the exponent: dense matrices are not exact either
# Nats per unit of y² / noise, of which the bound is a difference; the splines of a season that is
# much smoother than its period leave fewer digits.
CANCELLED, SMOOTH_SEASON = 1e-12, 3e-8
COVARIANCE = 1e-12  # of the variance: how well both know covariances of a season that is smooth
UNNOTICED = 1e-7  # nats that rounding may add to the divergence of one functional


@dataclass
class Outcome:
    """Disagreements of one model, or the reason why the library refused it."""

    model: Model
    wrong: list[str] = field(default_factory=list)
    refused: str = ""
    gap: float = np.nan
    checked: int = 0
    told: int = 0  # derivatives whose variances have no digits, as a warning says

    def report(self) -> str:
        """Return what is wrong, with a program that shows it."""
        return "\n".join([f"# seed {self.model.seed}: " + "; ".join(self.wrong[:4]), self.program])

    @property
    def program(self) -> str:
        """The program of the model."""
        return self.model.program()


def check(model: Model | int) -> Outcome:
    """Compare a model, or that of a seed, with its dense twin."""
    model = make(model) if isinstance(model, int) else model
    out = Outcome(model)
    made = None
    try:
        made = model.run()
        with warnings.catch_warnings():
            # where the noise leaves no digits, rows that are left out are NaN
            warnings.filterwarnings("ignore", ".*leave-one-out predictions are NaN")
            (_compare if model.family is None else _compare_family)(out, made)
    except Exception as error:  # whatever it is, users should not see it
        clear = isinstance(error, ValueError) and not isinstance(error, np.linalg.LinAlgError)
        clear |= type(error) is MemoryError  # NumPy's own is of a subclass
        if clear and made is None:
            out.refused = str(error)
        else:
            out.wrong.append(f"{type(error).__name__}: {error}")
    return out


def reproducer(outcome: Outcome) -> str:
    """Return the report of the simplest model that disagrees in the same way."""
    kind = outcome.wrong[0].split()[0]

    def fails(model: Model) -> bool:
        wrong = check(model).wrong
        return any(line.split()[0] == kind for line in wrong)

    return check(smallest(outcome.model, fails)).report()


class _Twin:
    """A dense process beside the fitted model, and the divergence that is allowed."""

    def __init__(self, out: Outcome, made: dict):
        self.out, self.gp, model = out, made["gp"], out.model
        X, y, rows = np.asarray(made["X"], float), np.asarray(made["y"], float), made["rows"]
        weights = rows.get("sample_weight")
        keep = np.ones(len(X), bool) if weights is None else np.asarray(weights) > 0.0
        self.X, self.width = X[keep], np.broadcast_to(rows.get("width", 0.0), len(X))[keep]
        self.scaled = np.log(y) if model.transform else y
        noise = np.broadcast_to(rows.get("noise_variance", model.noise), len(X))[keep]
        weights = None if weights is None else np.asarray(weights)[keep]
        self.kernel = made["gp"].kernel_
        wide = bool(np.any(self.width > 0.0))
        atoms = Atoms.averages(self.X, self.width) if wide else Atoms.at(self.X)
        self.dense = DenseGP(self.kernel, atoms, self.scaled[keep], noise, weights)
        self.evidence = self.dense.evidence()
        if model.transform:
            slopes = np.log(y[keep])
            self.evidence -= np.sum(slopes if weights is None else slopes * weights)
        self.rounding = ROUNDING * (self.dense.y.size + self.dense.quadratic + abs(self.evidence))
        raw = np.sum(self.dense.y**2 / self.dense.noise[:, None])
        self.rounding += raw * (SMOOTH_SEASON if _smooth_season(self.kernel) else CANCELLED)
        if _smooth_season(self.kernel):  # its values are small differences of sums over periods
            error = COVARIANCE * float(np.diag(self.dense.prior).max())
            self.rounding += 0.5 * error * float(np.sum(np.abs(self.dense.alpha))) ** 2
        self.loss = 1e-9 + _loss(self.gp, self.X)  # of variances, beside the prior's
        # of fields, bounds may lose so much per row before anything is said
        self.rounding += min(1e-4, self.loss - 1e-9) * len(self.X)
        self.gap = max(0.0, self.evidence - self.gp.elbo_) * (1.0 + 1e-9) + self.rounding

    def functional(self, name: str, mean, std, new: Atoms, part: int | None = None, mix=None):
        """Check means and standard deviations of functionals, or of mixtures of them."""
        m, cov = self.dense.predict(new, part)
        prior = self.dense.covariance(new, new, part)
        if mix is not None:
            m, cov, prior = mix @ m, mix @ cov @ mix.T, mix @ prior @ mix.T
        # beyond this share of the prior, differences of variances have no digits
        floor = self.loss * np.diag(prior) + 1e-300
        p = np.maximum(np.diag(cov), 0.0)[:, None] + floor[:, None]
        q = np.asarray(std).reshape(len(m), -1) ** 2 + floor[:, None]
        difference = np.asarray(mean).reshape(m.shape) - m
        divergence = 0.5 * (np.square(difference) / p + q / p - 1.0 - np.log(q / p))
        # outputs add their divergences up; each of them alone has less
        excess = divergence - self.gap - UNNOTICED
        self.out.checked += divergence.size
        if not np.all(excess <= 0.0):
            i = np.unravel_index(np.argmax(np.nan_to_num(excess, nan=np.inf)), excess.shape)
            self.out.wrong.append(
                f"{name} at {new.points[i[0]] if mix is None else 'a mixture'}: off by "
                f"{difference[i]:.3g} of {m[i]:.6g}, std² {q[i[0], 0]:.6g} beside {p[i[0], 0]:.6g}:"
                f" {divergence[i]:.3g} nats, allowed {self.gap:.3g}"
            )


def _compare(out: Outcome, made: dict) -> None:
    twin = _Twin(out, made)
    gp, evidence = twin.gp, twin.evidence
    out.gap = evidence - gp.elbo_
    if not gp.elbo_ <= evidence + twin.rounding:
        out.wrong.append(f"elbo {gp.elbo_:.9g} above the evidence {evidence:.9g}")
    if not gp.evidence_upper_bound_ >= evidence - twin.rounding:
        out.wrong.append(f"upper {gp.evidence_upper_bound_:.9g} below {evidence:.9g}")
    rng = np.random.default_rng([out.model.seed, 23])
    inputs = 1 if twin.X.ndim == 1 else twin.X.shape[1]
    X = twin.X.reshape(len(twin.X), -1)
    low, high = X.min(axis=0), X.max(axis=0)
    room = np.where(high > low, high - low, 1.0)
    new = low + room * rng.uniform(0.0, 1.0, (9, inputs))
    new[:3] = low + room * rng.uniform(-0.5, 1.5, (3, inputs))
    new = np.concatenate([new, X[:2]])
    given = new[:, 0] if inputs == 1 else new
    atoms = Atoms.at(new)
    if out.model.transform:
        _compare_log(twin, given, atoms)
    else:
        mean, std = gp.predict(given, return_std=True)
        twin.functional("mean", mean, std, atoms)
        mean, cov = gp.predict(given, return_cov=True)
        cov = cov if cov.ndim == 2 else cov[..., 0]
        mix = rng.standard_normal((4, len(new)))
        std = np.sqrt(np.maximum(np.diag(mix @ cov @ mix.T), 0.0))
        twin.functional("covariance", mix @ mean, std, atoms, mix=mix)
        _compare_derivatives(twin, given, new)
        _compare_integrals(twin, rng, low, room)
    *_, parts = gp.predict(given, return_std=True, components=True)
    if len(parts) == len(twin.dense.parts):
        for i, part in enumerate(parts):
            twin.functional(f"component {part.kernel!r}", part.mean, part.std, atoms, i)
    else:
        out.wrong.append(f"components {len(parts)} of {len(twin.dense.parts)}")
    if not out.model.transform:
        _compare_left_out(twin, made)


def _compare_log(twin: _Twin, given, atoms: Atoms) -> None:
    """Check the median of exp(f), from which the mean on the scale of the logarithm follows."""
    quantiles = twin.gp.predict_quantiles(given, [0.1, 0.5, 0.9], include_noise=False)
    low, median, high = np.moveaxis(quantiles, -1, 0)
    std = (np.log(high) - np.log(low)) / (2.0 * 1.2815515655446004)
    twin.functional("quantiles", np.log(median), std, atoms)


def _loss(gp, X) -> float:
    """Return the share of a variance that splines over several inputs lose to rounding.

    Their matrix is as badly conditioned as ``(lengthscale / cell)**(2 order + 2)``, along the worst
    input.
    """
    if X.ndim == 1:
        return 0.0
    worst = 1.0
    for part in gp.kernel_.components:
        for factor in part.along:
            axis = int(factor.dim or 0)
            cell = np.ptp(X[:, axis]) / np.atleast_1d(gp.num_basis_)[axis]
            ratio = factor.resolved_length / max(cell, 1e-300)
            worst = max(worst, ratio ** (2.0 * factor.order + 2.0))
    return min(1e-13 * worst, 0.3)


def _smooth_season(kernel) -> bool:
    """Return whether a season has a lengthscale of more than half of its period."""
    factors = [factor for part in kernel.components for factor in part.factors]
    return any(isinstance(f, Periodic) and f.lengthscale > 0.5 * f.period for f in factors)


def _smoothness(kernel, axis: int) -> int:
    """Return how often all components are differentiable along an input."""
    orders = []
    for part in kernel.components:
        for factor in part.factors:
            if isinstance(factor, JointMatern):
                if axis in factor.dim:
                    orders.append(1 if factor.nu > 1.0 else 0)
            elif (factor.dim or 0) == axis:
                orders.append(1 if isinstance(factor, SHO) else factor.order)
    return min(orders, default=0)


def _compare_derivatives(twin: _Twin, given, new) -> None:
    inputs = new.shape[1]
    for axis in range(inputs):
        most = _smoothness(twin.kernel, axis)
        for order in range(1, min(most, 2) + 1):
            derivative = order if inputs == 1 else {axis: order}
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always", RuntimeWarning)
                mean, std = twin.gp.predict(given, return_std=True, derivative=derivative)
            if any("Rounding errors exceed" in str(each.message) for each in told):
                twin.out.told += 1
                continue
            orders = np.eye(inputs, dtype=int)[axis] * order
            name = f"derivative {order} along {axis}"
            twin.functional(name, mean, std, Atoms.at(new, orders))


def _compare_integrals(twin: _Twin, rng, low, room) -> None:
    inputs, kernel = len(low), twin.kernel
    joint = any(isinstance(f, JointMatern) for part in kernel.components for f in part.factors)
    whole = all(len({f.dim for f in part.factors}) == inputs for part in kernel.components)
    if inputs > 1 and (joint or not whole):
        return
    a = low + room * rng.uniform(-0.2, 0.9, (4, inputs))
    b = a + room * rng.uniform(0.01, 0.5, (4, inputs))
    ends = (a[:, 0], b[:, 0]) if inputs == 1 else (a, b)
    for average in (False, True):
        mean, std = twin.gp.integrate(*ends, return_std=True, average=average)
        twin.functional("integral", mean, std, Atoms.integrals(a, b, average))


def _compare_left_out(twin: _Twin, made: dict) -> None:
    """Check predictions of rows from all others, as far as the divergence lets them differ."""
    gp, dense = twin.gp, twin.dense
    found = gp.leave_one_out(made["X"], made["y"], **made["rows"])
    weights = made["rows"].get("sample_weight")
    keep = np.ones(len(made["X"]), bool) if weights is None else np.asarray(weights) > 0.0
    mean, variance = dense.leave_one_out()
    one = 0.0 if weights is None else dense.noise * (dense.weights - 1.0)  # of one observation
    # from a row's own posterior to that without it: precisions and their means subtract
    q, gap = variance[:, None] - dense.noise[:, None], twin.gap + UNNOTICED
    posterior = 1.0 / (1.0 / q + 1.0 / dense.noise[:, None])
    share = (posterior / dense.noise[:, None]).clip(max=1.0 - 1e-9)
    off = np.sqrt(2.0 * gap) * np.sqrt(posterior) / (1.0 - share)
    spread = 2.0 * np.sqrt(gap) / (1.0 - share)  # relative error of the variance without the row
    tight = (spread < 0.1)[:, 0]
    left = np.reshape(found.mean, (dense.y.shape[1], -1)).T[keep]
    residual = np.abs(dense.y - mean)
    allowed = 2.0 * off + 3.0 * spread * (residual + np.sqrt(variance)[:, None])
    allowed = allowed + 1e-7 * np.abs(dense.y).max()
    twin.out.checked += int(tight.sum())
    wrong = tight & np.any(np.abs(left - mean) > allowed, axis=1)
    if wrong.any():
        i = np.flatnonzero(wrong)[0]
        twin.out.wrong.append(f"left out row {i}: {left[i]} beside {mean[i]}, allowed {allowed[i]}")
    std = np.reshape(found.std, (dense.y.shape[1], -1))[0][keep]
    reference = np.sqrt(variance + one)
    wrong = tight & (np.abs(std / reference - 1.0) > 1.5 * spread[:, 0] + 1e-7)
    if wrong.any():
        i = np.flatnonzero(wrong)[0]
        twin.out.wrong.append(f"left out std of row {i}: {std[i]} beside {reference[i]}")


def _compare_family(out: Outcome, made: dict) -> None:
    """Check a likelihood that is not Gaussian against the best dense Gaussian posterior."""
    gp, rows = made["gp"], made["rows"]
    X, y = np.asarray(made["X"], float), made["y"]
    weights = rows.get("sample_weight")
    noise = np.ones(len(X))
    prior = DenseGP(gp.kernel_, Atoms.at(X), np.zeros(len(X)), noise).prior
    bound, m, v = dense_posterior(prior, gp.likelihood_, y, weight=weights)
    out.gap = bound - gp.elbo_
    if not gp.elbo_ <= bound + 1e-4:
        out.wrong.append(f"elbo {gp.elbo_:.9g} above the best Gaussian's {bound:.9g}")
    mean, std = gp.predict(X, return_std=True, type="link")
    q = std**2
    divergence = 0.5 * ((mean - m) ** 2 / v + q / v - 1.0 - np.log(q / v))
    out.checked += len(divergence)
    # to second order the distance of the bounds is the divergence, up to how bent the site is
    if divergence.max() > 4.0 * max(0.0, out.gap) + 1e-4:
        i = int(np.argmax(divergence))
        out.wrong.append(
            f"family at {X[i]:.6g}: {mean[i]:.6g} ± {std[i]:.6g} beside {m[i]:.6g} ± "
            f"{v[i] ** 0.5:.6g}, bounds apart {out.gap:.3g}"
        )
