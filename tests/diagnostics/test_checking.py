"""Model checking against refits, dense smoothers and numeric Hessians."""

import json

import numpy as np
import pytest

from asvgp import SHO, GPRegressor, Matern12, Matern32, Matern52, Matern72
from asvgp.basis import Grid
from asvgp.diagnostics.calibration import calibration
from asvgp.diagnostics.curvature import standard_errors
from asvgp.diagnostics.summary import summary
from asvgp.diagnostics.verdict import line_verdict
from asvgp.model.prior import Prior
from asvgp.posterior.chain import ChainPosterior
from asvgp.posterior.leave_one_out import leave_one_out
from asvgp.statistics import Statistics
from tests.dense import KERNELS, ExactGP, design, gram, kernel_id, sample
from tests.engines import lower_bound

SUM = Matern52(1.0, 2.0) + SHO(0.4, 5.0, 0.7)
SUMS = [SUM, Matern12(0.2) + Matern72(2.0) + SHO(0.3, 4.0)]


def degrees_of(kernel, extra: int = 1) -> tuple[int, ...]:
    return tuple(component.order + extra for component in kernel.components)


def make(kernel, noise, x, y, cells=30, weights=None, extra=1, span=3.0):
    degrees = degrees_of(kernel, extra)
    stats = Statistics.from_data(x, y, Grid(0.0, span, cells), max(degrees), weights)
    return ChainPosterior(kernel, noise, stats, degrees)


def refits(kernel, noise, x, y, rows, weights=None, **settings):
    """Mean and deviation of the observations in ``rows``, from posteriors without them."""
    means, deviations = [], []
    for i in rows:
        kept = np.arange(len(x)) != i
        own = 1.0 if weights is None else weights[i]
        w = None if weights is None else weights[kept]
        mean, variance = make(kernel, noise, x[kept], y[kept], weights=w, **settings).predict(
            x[i : i + 1]
        )
        means.append(mean[:, 0])
        deviations.append(np.sqrt(variance[0] + noise / own))
    return np.array(means).T, np.array(deviations)


# ------------------------------------------------------------------- leave one out


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("extra", [1, 2])
@pytest.mark.parametrize("kernel", [*KERNELS, *SUMS], ids=lambda k: kernel_id(k))
def test_leave_one_out_is_refitting(kernel, extra, weighted):
    x, y = sample(kernel, 0.05, 60, 3.0)  # first and last at the very ends
    weights = np.random.default_rng(1).uniform(0.2, 5.0, 60) if weighted else None
    posterior = make(kernel, 0.05, x, y, weights=weights, extra=extra)
    loo = leave_one_out(posterior, x, y, weights)
    mean, std = refits(kernel, 0.05, x, y, range(60), weights, extra=extra)
    np.testing.assert_allclose(loo.mean, mean[0], rtol=0, atol=1e-8)
    np.testing.assert_allclose(loo.std, std, rtol=0, atol=1e-8)
    np.testing.assert_allclose(loo.residual, y - mean[0], rtol=0, atol=1e-8)
    z = (y - mean[0]) / std
    np.testing.assert_allclose(loo.z, z, rtol=0, atol=1e-7)
    density = -0.5 * np.log(2 * np.pi) - np.log(std) - 0.5 * z**2
    np.testing.assert_allclose(loo.log_density, density, rtol=0, atol=1e-7)


def test_leave_one_out_nears_the_exact_process():
    kernel, noise = Matern52(0.5), 0.1
    x, y = sample(kernel, noise, 50, 3.0)
    loo = leave_one_out(make(kernel, noise, x, y, cells=400, extra=2), x, y)
    inverse = np.linalg.inv(ExactGP(kernel, noise, x, y).covariance)
    np.testing.assert_allclose(loo.residual, inverse @ y / np.diag(inverse), atol=1e-6)
    np.testing.assert_allclose(loo.std, np.diag(inverse) ** -0.5, atol=1e-6)


def test_leave_one_out_of_several_outputs_with_missing_rows():
    rng = np.random.default_rng(2)
    x = rng.uniform(0, 3, 40)
    y = rng.standard_normal((40, 3))
    y[5, 1] = y[17] = np.nan
    loo = leave_one_out(make(SUM, 0.2, x, y), x, y)
    assert loo.mean.shape == loo.std.shape == loo.z.shape == (3, 40)
    absent = np.zeros(40, bool)
    absent[[5, 17]] = True
    for values in vars(loo).values():
        np.testing.assert_array_equal(np.isnan(values), np.tile(absent, (3, 1)))
    rows = np.flatnonzero(~absent)
    mean, std = refits(SUM, 0.2, x, y, rows)
    np.testing.assert_allclose(loo.mean[:, rows], mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(loo.std[:, rows], np.tile(std, (3, 1)), rtol=0, atol=1e-8)


def test_leave_one_out_of_duplicates_lone_points_and_low_noise():
    x = np.array([0.0, 0.0, 0.001, 1.5, 1.5, 2.9999, 3.0])
    y = np.array([1.0, 1.01, 1.02, -0.5, -0.51, 0.3, 0.29])
    for noise in (1e-2, 1e-4, 1e-6):
        loo = leave_one_out(make(Matern32(0.5), noise, x, y), x, y)
        mean, std = refits(Matern32(0.5), noise, x, y, range(7))
        np.testing.assert_allclose(loo.mean, mean[0], rtol=0, atol=1e-8)
        np.testing.assert_allclose(loo.std, std, rtol=0, atol=1e-8)


def test_leave_one_out_of_some_rows_and_of_many_chunks():
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 3, 150_000)
    y = np.sin(5 * x) + 0.3 * rng.standard_normal(len(x))
    posterior = make(Matern32(0.5), 0.09, x, y)
    whole = leave_one_out(posterior, x.astype(np.float32).astype(float), y)
    part = leave_one_out(posterior, x[70_000:70_050], y[70_000:70_050])
    np.testing.assert_allclose(whole.z[70_000:70_050], part.z, atol=1e-4)
    mean, std = refits(Matern32(0.5), 0.09, x, y, [70_001])
    np.testing.assert_allclose(part.mean[1], mean[0, 0], atol=1e-10)
    np.testing.assert_allclose(part.std[1], std[0], atol=1e-10)


def test_leave_one_out_says_what_is_wrong():
    x, y = sample(Matern32(0.3), 0.1, 20, 3.0)
    posterior = make(Matern32(0.3), 0.1, x, y)
    with pytest.raises(ValueError, match=r"y has shape \(19, 1\)"):
        leave_one_out(posterior, x, y[1:])
    with pytest.raises(ValueError, match="3 weights for 20 rows"):
        leave_one_out(posterior, x, y, np.ones(3))
    with pytest.raises(ValueError, match="1 of 20 inputs are outside"):
        leave_one_out(posterior, np.append(x[:-1], 3.5), y)
    with pytest.raises(ValueError, match="made from 20"):
        leave_one_out(posterior, np.tile(x, 2), np.tile(y, 2))
    exact = make(Matern32(0.3), 1e-18, x[:3], y[:3])
    with pytest.warns(RuntimeWarning, match="determines f to all digits"):
        loo = leave_one_out(exact, x[:3], y[:3])
    assert np.isnan(loo.mean).all()


# --------------------------------------------------------------------- calibration


def test_calibration_of_the_true_model_and_of_wrong_ones():
    kernel, noise = Matern32(0.4), 0.1
    x, y = sample(kernel, noise, 1500, 30.0, seed=5)
    right = leave_one_out(make(kernel, noise, x, y, cells=600, span=30.0), x, y)
    report = calibration(right.z, x)
    assert report.fine, str(report)
    assert report.count == 1500
    for level, share in report.coverage.items():
        assert abs(share - level) < 4 * report.coverage_error[level]
    small = leave_one_out(make(kernel, noise / 3, x, y, cells=600, span=30.0), x, y)
    assert any("noise too small" in note for note in calibration(small.z, x).notes)
    large = leave_one_out(make(kernel, noise * 3, x, y, cells=600, span=30.0), x, y)
    assert any("noise too large" in note for note in calibration(large.z, x).notes)


def test_calibration_sees_structure_that_the_basis_cannot_resolve():
    rng = np.random.default_rng(6)
    x = rng.uniform(0, 30, 4000)
    y = np.sin(12 * x) + 0.1 * rng.standard_normal(4000)
    loo = leave_one_out(make(Matern32(1.0), 0.5, x, y, cells=10, span=30.0), x, y)
    report = calibration(loo.z, x)
    assert report.autocorrelation > 0.8
    assert any("neighbours are correlated" in note for note in report.notes)
    assert calibration(loo.z).autocorrelation < 0.1  # in the order of the file


def test_calibration_against_scipy():
    from scipy import stats

    rng = np.random.default_rng(7)
    z = rng.standard_normal(500) + 0.1
    expected = stats.kstest(z, "norm")
    report = calibration(np.insert(z, 3, np.nan))
    assert report.distance == pytest.approx(expected.statistic, rel=1e-12)
    assert report.p_value == pytest.approx(expected.pvalue, rel=0.05)
    assert report.mean == pytest.approx(z.mean())
    assert report.variance == pytest.approx(z.var())


def test_calibration_notes():
    rng = np.random.default_rng(8)
    z = rng.standard_normal(20_000)
    assert "off by +0.50" in calibration(z + 0.5).notes[0]
    skewed = (rng.gamma(16.0, size=20_000) - 16.0) / 4.0
    assert "not normal" in calibration(np.clip(skewed, -5.0, 5.0)).notes[0]
    heavy = calibration(rng.standard_t(3, 20_000) / 3**0.5)
    assert "99% band covers" in " ".join(heavy.notes)
    wide = calibration(rng.standard_t(3, 20_000) / 2.0)  # of variance below one
    assert wide.variance < 0.95
    assert wide.notes[0].startswith("residuals have heavy tails: the 50% band covers 7")
    assert "noise too large" not in " ".join(wide.notes)
    assert "noise too large" in calibration(0.8 * z).notes[0]
    assert all(len(line) <= 80 for line in str(heavy).splitlines())
    outlier = calibration(np.append(z, -21.0)).notes
    assert len(outlier) == 1
    assert "one residual lies beyond 5.8" in outlier[0]
    assert "largest at 21" in outlier[0]
    assert "2 residuals lie" in calibration(np.append(z, [9.0, -8.0])).notes[0]
    assert "Nothing to object to" in str(calibration(z))
    assert calibration(np.stack([z[::2], z[1::2]])).count == 20_000
    assert calibration(np.zeros(50)).autocorrelation == 0.0
    with pytest.raises(ValueError, match="at least two"):
        calibration([np.nan, 1.0])
    with pytest.raises(ValueError, match="3 entries for 2"):
        calibration([0.0, 1.0], [1, 2, 3])


# -------------------------------------------------------------- degrees of freedom


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("kernel", [KERNELS[1], KERNELS[4], *SUMS], ids=lambda k: kernel_id(k))
def test_degrees_of_freedom_are_traces_of_the_smoother(kernel, weighted):
    noise, n = 0.05, 80
    rng = np.random.default_rng(9)
    x, y = rng.uniform(0, 2.999, n), rng.standard_normal(n)
    weights = rng.uniform(0.2, 5.0, n) if weighted else np.ones(n)
    posterior = make(kernel, noise, x, y, weights=weights)
    covariances = []
    for prior in posterior.model.priors:
        phi = design(x, prior.grid, prior.degree)
        K = gram(Prior(prior.kernel, prior.grid, prior.degree))
        covariances.append(phi @ np.linalg.solve(K, phi.T))
    inverse = np.linalg.inv(sum(covariances) + np.diag(noise / weights))
    expected = [np.trace(covariance @ inverse) for covariance in covariances]
    parts = posterior.factored.component_freedoms()
    np.testing.assert_allclose(parts, expected, rtol=1e-7)
    assert posterior.factored.forms().freedom == pytest.approx(parts.sum(), rel=1e-10)


# ------------------------------------------------------------------ standard errors


def numeric_hessian(f, theta, step=2e-3):
    n = len(theta)
    steps = step * np.eye(n)
    out = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            a, b = steps[i], steps[j]
            out[i, j] = (f(theta + a + b) - f(theta + a - b) - f(theta - a + b)) + f(theta - a - b)
    return out / (4 * step**2)


@pytest.mark.parametrize("objective", ["elbo", "evidence"])
def test_standard_errors_are_those_of_the_exact_evidence(objective):
    x, y = sample(Matern52(0.4, 1.3), 0.05, 150, 4.0, seed=10)
    gp = GPRegressor(Matern52(), num_basis=600, degree=4, objective=objective).fit(x, y)
    kernel, noise = gp.kernel_, gp.noise_variance_
    errors = standard_errors(kernel, noise, gp.stats_, 4, objective)

    def evidence(theta):
        length, variance, sigma = np.exp(theta)
        return ExactGP(Matern52(length, variance), sigma, x, y).evidence()

    theta = np.log(np.append(kernel.values, noise))
    expected = np.linalg.inv(-numeric_hessian(evidence, theta))
    np.testing.assert_allclose(errors.covariance, expected, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(errors.log_errors, np.sqrt(np.diag(expected)), rtol=1e-3)
    np.testing.assert_allclose(
        np.log(errors.upper / errors.values), 1.96 * errors.log_errors, rtol=1e-4
    )
    np.testing.assert_allclose(errors.upper * errors.lower, errors.values**2)
    assert errors.notes == ("", "", "")


def test_standard_errors_of_fixed_bounded_and_undetermined_hyperparameters():
    x, y = sample(Matern32(0.4), 0.05, 150, 4.0, seed=11)
    stats = Statistics.from_data(x, y, Grid(0.0, 4.0, 100), 2)
    free = standard_errors(Matern32(0.4), 0.05, stats, 2)
    partly = standard_errors(Matern32(0.4, fixed="variance"), 0.05, stats, 2)
    assert partly.notes[1] == "fixed"
    assert np.isnan(partly.log_errors[1])
    assert np.isnan(partly.lower[1])
    assert partly.log_errors[0] < free.log_errors[0]  # the variance is known there
    bounded = Matern32(0.4, bounds={"lengthscale": (0.1, 0.4)})
    assert standard_errors(bounded, 0.05, stats, 2).notes[0] == "at bound"
    near = Matern32(0.4, bounds={"lengthscale": (0.1, 0.4001)})  # differences reach past it
    np.testing.assert_allclose(
        standard_errors(near, 0.05, stats, 2).log_errors, free.log_errors, rtol=1e-9
    )
    told = standard_errors(Matern32(0.4), 0.05, stats, 2, at_bounds=["noise variance"])
    assert told.notes[2] == "at bound"
    assert np.isnan(told.log_errors[2])
    none = standard_errors(Matern32(0.4), 0.05, stats, 2, free=[False] * 3)
    assert np.isnan(none.log_errors).all()
    assert standard_errors(Matern32(0.4), 0.1, stats, 2).notes[2] == "off maximum"
    # A far too small variance: the objective curves upwards there.
    lost = standard_errors(Matern32(0.4, 1e-4), 1.0, stats, 2)
    assert lost.notes[1] == "no maximum"
    assert lost.notes[2] != ""  # far from its maximum, where that of the variance is unknown
    assert np.isnan(lost.covariance[1]).all()
    with pytest.raises(ValueError, match="free must have 3 entries"):
        standard_errors(Matern32(0.4), 0.05, stats, 2, free=[True])


# ------------------------------------------------------------------------ the basis


@pytest.mark.parametrize(
    "kernel, extra, cells",
    [(Matern12(0.5), 1, 40), (Matern32(0.5), 1, 40), (Matern52(0.5), 2, 40), (SUM, 1, 120)],
)
def test_verdict_foretells_what_doubling_and_the_suggested_basis_do(kernel, extra, cells):
    x, y = sample(kernel, 0.05, 400, 3.0, seed=12)
    degrees, noise = degrees_of(kernel, extra), 0.05

    def on(cells):
        return Statistics.from_data(x, y, Grid(0.0, 3.0, cells), max(degrees))

    def verdict(cells):
        return line_verdict(kernel, noise, on(cells), degrees)

    coarse, fine = verdict(cells), verdict(2 * cells)
    missed = lower_bound(kernel, noise, on(cells), degrees).missed
    assert coarse.missed_share == pytest.approx(missed / (400 * kernel.prior_variance), rel=1e-6)
    assert coarse.penalty == pytest.approx(missed / (2 * noise * 400), rel=1e-6)
    assert coarse.gain == pytest.approx(coarse.penalty - fine.penalty, rel=0.2)
    assert coarse.num_basis == cells + max(degrees)
    if coarse.suggested > coarse.num_basis:
        there = verdict(coarse.suggested - max(degrees))
        assert 2e-4 < there.penalty < 1.6e-3
    few = verdict(6)
    assert few.verdict.startswith("no: raise num_basis to about")
    assert not few.enough
    words = [verdict(number).verdict for number in (6, 24, 96, 384, 1536, 6144, 24576)]
    kinds = [word.partition(":")[0] for word in words]
    assert kinds == sorted(kinds, key=["no", "nearly", "yes"].index)
    assert kinds[-1] == "yes"


# ---------------------------------------------------------------------- the summary


def test_summary_of_a_sum():
    rng = np.random.default_rng(13)
    x = np.sort(rng.uniform(0, 10, 1500))
    y = np.sin(x) + 0.3 * np.sin(2 * np.pi * x) + 0.1 * rng.standard_normal(1500)
    y[:3] = np.nan
    kernel = Matern52(3.0) + SHO(1.0, 3.0, fixed="period", bounds={"quality": (1.0, 4.0)})
    with pytest.warns(UserWarning, match="3 of 1500"):
        gp = GPRegressor(kernel, num_basis=400).fit(x, y)
    report = summary(gp)
    text = str(report)
    assert all(len(line) <= 80 for line in text.splitlines()), text
    for word in (
        "Matern52 + SHO",
        "1,497 (3 missing)",
        "400 each",
        "1 Matern52",
        "2 SHO",
        "quality",
        "fixed",
        "at bound",
        "Upper bound",
        "Basis enough?",
        "converged",
        "training",
    ):
        assert word in text, word
    flat = report.as_dict()
    json.dumps(flat)
    assert flat["basis"]["verdict"] == report.basis.verdict
    assert [row["name"] for row in flat["hyperparameters"]][-2:] == ["variance", "variance"]
    assert [row["note"] for row in flat["hyperparameters"]] == ["", "", "fixed", "at bound", "", ""]
    assert sum(report.component_degrees_of_freedom) == pytest.approx(report.degrees_of_freedom)
    assert report.elbo == gp.elbo_
    noise = report.hyperparameters[-1]
    assert noise["lower"] < 0.01 < noise["upper"]


def test_summary_of_a_model_as_given():
    x, y = sample(Matern12(0.5), 0.1, 100, 3.0)
    gp = GPRegressor(Matern12(0.5), num_basis=9, noise_variance=0.1, optimizer=None)
    report = summary(gp.fit(x, np.stack([y, -y], axis=1)))
    assert {row["note"] for row in report.hyperparameters} == {"as given"}
    assert report.outputs == 2
    text = str(report)
    assert "no: raise num_basis to about" in text
    assert "kept as given" in text
    assert all(len(line) <= 80 for line in text.splitlines()), text


def test_summary_needs_a_fitted_model():
    with pytest.raises(ValueError, match="not fitted"):
        summary(GPRegressor())
