"""The estimator as people meet it: shapes, types, messages, scikit-learn's tools."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import asvgp
from asvgp import LBFGS, SHO, Constant, GPRegressor, Linear, Matern12, Matern32, Matern52
from asvgp.policies import LINE
from asvgp.training import objective
from tests.dense import KERNELS, ExactGP, kernel_id, sample


def wave(n=2000, seed=0):
    """A noisy sine on [0, 20]."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 20, n)
    return x, np.sin(x) + 0.2 * rng.standard_normal(n)


@pytest.mark.parametrize("kernel", KERNELS[1:], ids=kernel_id)
def test_agrees_with_a_dense_process(kernel):
    noise = 0.05
    x, y = sample(kernel, noise, 150, 2.0)
    gp = GPRegressor(kernel, num_basis=2000, noise_variance=noise, optimizer=None).fit(x, y)
    new = np.linspace(-0.5, 2.5, 61)
    mean, cov = ExactGP(kernel, noise, x, y).predict(new)
    m, s = gp.predict(new, return_std=True)
    np.testing.assert_allclose(m, mean, atol=1e-3)
    np.testing.assert_allclose(s, np.sqrt(np.diag(cov)), atol=1e-3)
    _, c = gp.predict(new, return_cov=True)
    np.testing.assert_allclose(c, cov, atol=1e-3)
    _, noisy = gp.predict(new, return_cov=True, include_noise=True)
    np.testing.assert_allclose(noisy - c, noise * np.eye(61), atol=1e-12)
    assert gp.elbo_ <= ExactGP(kernel, noise, x, y).evidence() <= gp.evidence_upper_bound_


def test_trains_like_scikit_learns_exact_process():
    x, y = wave(300)
    exact = GaussianProcessRegressor(
        ConstantKernel(1.0) * Matern(1.0, nu=1.5), alpha=0.04, random_state=0
    ).fit(x[:, None], y)
    kernel = Matern32(1.0)
    gp = GPRegressor(kernel, num_basis=1000, degree=3).fit(x, y)
    new = np.linspace(-1, 21, 50)
    mean, std = gp.predict(new, return_std=True)
    exact_mean, exact_std = exact.predict(new[:, None], return_std=True)
    np.testing.assert_allclose(mean, exact_mean, atol=0.1)
    np.testing.assert_allclose(std, exact_std, atol=0.1)


def test_defaults_just_work():
    x, y = wave()
    gp = GPRegressor(Matern32()).fit(x, y)
    assert gp.score(x, np.sin(x)) > 0.99
    assert gp.noise_variance_ == pytest.approx(0.04, rel=0.1)
    assert gp.domain_ == (x.min(), x.max())
    assert gp.num_basis_ == gp.posterior_.grid.cells + gp.stats_.degree
    assert gp.optimization_.converged
    assert set(gp.timings_) == {"pass", "training", "posterior"}


def test_coverage_of_the_bands():
    x, y = wave(3000)
    gp = GPRegressor(Matern52()).fit(x, y)
    new = np.random.default_rng(1).uniform(0, 20, 4000)
    noisy = np.sin(new) + 0.2 * np.random.default_rng(2).standard_normal(4000)
    mean, std = gp.predict(new, return_std=True, include_noise=True)
    inside = np.abs(noisy - mean) < 1.96 * std
    assert inside.mean() == pytest.approx(0.95, abs=0.015)
    density = gp.log_predictive_density(new, noisy)
    expected = -0.5 * np.log(2 * np.pi * std**2) - 0.5 * ((noisy - mean) / std) ** 2
    np.testing.assert_allclose(density, expected)
    _, latent = gp.predict(new, return_std=True)
    np.testing.assert_allclose(std**2 - latent**2, gp.noise_variance_)


def test_inputs_in_every_dress():
    x, y = wave(500)
    settings = {"num_basis": 50, "noise_variance": 0.04, "optimizer": None}
    expected = GPRegressor(Matern32(), **settings).fit(x, y).predict([1.0, 30.0])
    frame = pd.DataFrame({"time": x})
    for X, target in [
        (x[:, None], y),
        (x.tolist(), y.tolist()),
        (frame, pd.Series(y)),
        (pd.Series(x), y),
        (np.asfortranarray(np.column_stack([x, x]))[:, :1], y),
        (x[::-1], y[::-1]),
    ]:
        gp = GPRegressor(Matern32(), **settings).fit(X, target)
        new = pd.DataFrame({"time": [1.0, 30.0]}) if X is frame else [1.0, 30.0]
        np.testing.assert_allclose(gp.predict(new), expected, rtol=1e-9)
    gp = GPRegressor(Matern32(), **settings).fit(frame, y)
    assert gp.feature_names_in_.tolist() == ["time"]
    with pytest.raises(ValueError, match="feature names"):
        gp.predict(pd.DataFrame({"tiem": [1.0]}))


def test_float32_and_integers():
    x = np.arange(200)
    y = np.round(100 * np.sin(x / 10)).astype(np.int16)
    settings = {"num_basis": 60, "noise_variance": 10.0, "optimizer": None}
    expected = GPRegressor(Matern32(10.0, 5e3), **settings).fit(x.astype(float), y.astype(float))
    for kind in (np.int32, np.float32):
        gp = GPRegressor(Matern32(10.0, 5e3), **settings).fit(x.astype(kind), y)
        np.testing.assert_allclose(gp.predict(x), expected.predict(x), rtol=1e-12)
        assert gp.predict(x).dtype == np.float64


def test_several_outputs_share_the_kernel():
    x, y = wave(400)
    both = np.column_stack([y, 3 - y])
    settings = {"num_basis": 60, "noise_variance": 0.04, "optimizer": None}
    gp = GPRegressor(Matern32(), **settings).fit(x, both)
    one = GPRegressor(Matern32(), **settings).fit(x, both[:, 1])
    new = np.linspace(-1, 21, 30)
    mean, std = gp.predict(new, return_std=True)
    assert mean.shape == std.shape == (30, 2)
    m, s = one.predict(new, return_std=True)
    np.testing.assert_allclose(mean[:, 1], m, atol=1e-12)
    np.testing.assert_allclose(std[:, 1], s, atol=1e-12)
    _, cov = gp.predict(new, return_cov=True)
    assert cov.shape == (30, 30, 2)
    np.testing.assert_allclose(np.einsum("iio->io", cov), std**2, atol=1e-12)
    assert gp.log_predictive_density(x, both).shape == (400,)
    trained = GPRegressor(Matern32(), num_basis=60).fit(x, both)
    assert trained.predict(new).shape == (30, 2)


def test_ratios_of_noise_variances_are_enough():
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 20, 4000)
    noise = rng.choice([0.1, 10.0], 4000)
    y = np.sin(x) + np.sqrt(0.05 * noise) * rng.standard_normal(4000)
    settings = {"num_basis": 100, "noise_scale": "auto"}
    gp = GPRegressor(Matern52(), **settings).fit(x, y, noise_variance=noise)
    assert gp.noise_variance_ == pytest.approx(0.05, rel=0.1)
    blind = GPRegressor(Matern52(), num_basis=100).fit(x, y)
    new = np.linspace(0, 20, 500)
    error = [np.mean((model.predict(new) - np.sin(new)) ** 2) for model in (gp, blind)]
    assert error[0] < 0.5 * error[1]
    # equal variances only rescale the factor
    scaled = GPRegressor(Matern52(), **settings).fit(x, y, noise_variance=0.25)
    assert scaled.noise_variance_ == pytest.approx(4.0 * blind.noise_variance_, rel=1e-3)
    # and variances that are known belong to a model with a known factor
    known = GPRegressor(gp.kernel_, num_basis=100, noise_scale=gp.noise_variance_, optimizer=None)
    known.fit(x, y, noise_variance=noise)
    assert known.elbo_ == pytest.approx(gp.elbo_, rel=1e-9)
    for model in (gp, known):
        std = model.predict(new, return_std=True, include_noise=True, noise_variance=3.0)[1]
        alone = model.predict(new, return_std=True)[1]
        np.testing.assert_allclose(std**2, alone**2 + 3.0 * gp.noise_variance_)


def test_missing_targets_are_announced():
    x, y = wave(300)
    y[[3, 7, 9]] = np.nan
    with pytest.warns(UserWarning, match="3 of 300 rows have y = NaN"):
        gp = GPRegressor(Matern32(), num_basis=50).fit(x, y)
    assert (gp.stats_.count, gp.stats_.missing) == (297, 3)


def test_masked_values():
    x, y = wave(300)
    masked = np.ma.masked_greater(y, 0.9)
    with pytest.warns(UserWarning, match="left out as missing"):
        gp = GPRegressor(Matern32(), num_basis=50).fit(x, masked)
    assert gp.stats_.count == int((y <= 0.9).sum())
    with pytest.raises(ValueError, match="X is masked in"):
        GPRegressor(Matern32(), num_basis=50).fit(np.ma.masked_greater(x, 19.0), y)


def test_a_large_mean_is_pointed_out():
    x, y = wave(300)
    with pytest.warns(UserWarning, match="Constant"):
        GPRegressor(Matern32(), num_basis=50).fit(x, y + 1e5)


def test_the_cap_of_auto_is_announced(monkeypatch):
    from asvgp.training import finest

    few = replace(
        LINE, fewest_finest_cells=512, most_finest_cells=512, most_finest_cells_in_memory=(512, 512)
    )
    monkeypatch.setattr(finest, "LINE", few)
    x = np.linspace(0, 1, 5000)
    with pytest.warns(UserWarning, match="stopped at 515 basis functions"):
        gp = GPRegressor(Matern32()).fit(x, np.sin(900 * x))
    assert gp.num_basis_ == 515


def test_ctrl_c_after_training_still_gives_the_model(monkeypatch):
    from asvgp.training import schedule_line

    real, calls = schedule_line.ChainPosterior, []

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(schedule_line, "ChainPosterior", interrupted)
    x, y = wave(300)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        gp = GPRegressor(Matern32(), num_basis=50).fit(x, y)
    assert np.isfinite(gp.evidence_upper_bound_)


def test_optimizer_none_keeps_everything():
    x, y = wave(300)
    kernel = Matern32(3.3, 0.7)
    gp = GPRegressor(kernel, num_basis=50, noise_variance=0.2, optimizer=None).fit(x, y)
    assert (gp.kernel_, gp.noise_variance_) == (kernel, 0.2)
    auto = GPRegressor(kernel, noise_variance=0.2, optimizer=None).fit(x, y)
    assert (auto.kernel_, auto.noise_variance_) == (kernel, 0.2)
    assert auto.elbo_ >= gp.elbo_ - 0.3


def test_domain_can_be_wider_than_the_data():
    x, y = wave(300)
    gp = GPRegressor(Matern32(2.0), num_basis=400, domain=(-10, 30), noise_variance=0.04)
    gp.set_params(optimizer=None).fit(x, y)
    assert gp.domain_ == (-10.0, 30.0)
    tight = GPRegressor(Matern32(2.0), num_basis=400, noise_variance=0.04, optimizer=None)
    new = np.linspace(-8, 28, 40)
    np.testing.assert_allclose(gp.predict(new), tight.fit(x, y).predict(new), atol=3e-3)


def test_one_datum_with_a_domain():
    gp = GPRegressor(
        Matern32(), num_basis=50, domain=(0, 4), noise_variance=0.5, optimizer=None
    ).fit([1.0], [2.0])
    mean, std = gp.predict([1.0], return_std=True)
    assert mean[0] == pytest.approx(2.0 / 1.5, rel=1e-3)
    assert std[0] ** 2 == pytest.approx(1.0 / 3.0, rel=1e-2)


def test_the_whole_toolbox():
    x, y = wave(400)
    X = x[:, None]
    pipe = make_pipeline(StandardScaler(), GPRegressor(Matern32(), num_basis=60))
    assert cross_val_score(pipe, X, y, cv=3).min() > 0.8
    grid = GridSearchCV(
        GPRegressor(Matern32(), num_basis=40),
        {"kernel": [Matern12(), Matern52()], "num_basis": [10, 60]},
        cv=3,
    ).fit(X, y)
    assert grid.best_params_["num_basis"] == 60
    gp = GPRegressor(SHO(2.0), num_basis=77, optimizer=LBFGS(restarts=1))
    copy = clone(gp)
    assert copy.get_params() == gp.get_params()
    assert "GPRegressor(" in repr(gp)
    assert "SHO(period=2.0" in repr(gp)


def test_failure_leaves_the_fitted_model_alone():
    x, y = wave(200)
    gp = GPRegressor(Matern32(), num_basis=30).fit(x, y)
    before = gp.predict([1.0])
    with pytest.raises(ValueError, match="y is constant"):
        gp.fit(x, np.ones_like(y))
    np.testing.assert_array_equal(gp.predict([1.0]), before)
    framed = GPRegressor(Matern32(), num_basis=30).fit(pd.DataFrame({"time": x}), y)
    for bad in (pd.DataFrame({"other": x}), np.column_stack([x, x])):
        with pytest.raises(ValueError, match=r"constant|columns"):
            framed.fit(bad, np.ones_like(y))
    framed.predict(pd.DataFrame({"time": [1.0]}))


def test_fits_at_once_leave_the_process_as_it_was():
    from concurrent.futures import ThreadPoolExecutor

    from threadpoolctl import threadpool_info, threadpool_limits

    def threads():
        return [entry["num_threads"] for entry in threadpool_info() if entry["user_api"] == "blas"]

    x, y = wave(500)
    with threadpool_limits(2, user_api="blas"), ThreadPoolExecutor(3) as pool:
        before = threads()
        fits = list(pool.map(lambda _: GPRegressor(Matern32(), num_basis=60).fit(x, y), range(12)))
        assert threads() == before
    assert set(before) == {2}
    assert len({gp.elbo_ for gp in fits}) == 1


def test_ctrl_c_while_fitting_gives_a_usable_model(monkeypatch):
    x, y = wave(500)
    real, calls = objective.lower_bound, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 20:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(objective, "lower_bound", interrupted)
    with pytest.warns(ConvergenceWarning, match="interrupted; the best state so far is kept"):
        gp = GPRegressor(Matern32(), num_basis=50).fit(x, y)
    assert np.all(np.isfinite(gp.predict(x)))
    assert not gp.optimization_.converged


def test_iteration_limit_warns_and_keeps_the_best():
    x, y = wave(500)
    with pytest.warns(ConvergenceWarning, match="max_iterations"):
        gp = GPRegressor(Matern32(), num_basis=50, optimizer=LBFGS(max_iterations=1)).fit(x, y)
    assert gp.elbo_ > -np.inf


def test_progress_is_shown_when_asked_for(capsys, monkeypatch):
    from asvgp.runtime import progress

    clock = iter(range(0, 10_000, 3))
    monkeypatch.setattr(progress.time, "perf_counter", lambda: float(next(clock)))
    x, y = wave(300)
    GPRegressor(Matern32(), num_basis=30, progress=True).fit(x, y)
    shown = capsys.readouterr().err
    assert "pass over the data: 300 of 300" in shown
    assert "training on 27 cells" in shown
    GPRegressor(Matern32(), num_basis=30).fit(x, y)  # not a terminal: quiet
    assert capsys.readouterr().err == ""


BAD_FITS = [
    ({}, [0.0, np.nan, 2.0, np.inf], [1, 2, 3, 4], r"NaN or infinity in 2 of 4 rows \(1, 3\)"),
    ({}, np.zeros((4, 2)), [1, 2, 3, 4], r"column 0 of X is constant .*domain=\(\(a, b\), None\)"),
    ({}, [1.0, 1.0], [1.0, 2.0], "X is constant"),
    ({}, [1.0, 2.0], [3.0, 3.0], "y is constant"),
    ({"optimizer": None}, [1.0, 2.0], [0.0, 0.0], "root mean square of 0"),
    ({}, [1.0, 2.0, 3.0], [1e-170, 2e-170, 0.0], "Rescale y"),
    ({}, [1.0, 2.0, 3.0], [1e150, 2e150, 0.0], "Rescale y"),
    ({}, [1.0, 2.0, 3.0], [1e90, 2e90, 0.0], r"root mean square of 1.29e\+90"),
    ({}, [1.0, 2.0, 3.0], [3.0, np.inf, 1.0], "y contains infinity .* rows: 1"),
    ({}, [1.0, 2.0], [np.nan, np.nan], "All 2 values of y are NaN"),
    ({}, [1.0, 2.0], [1.0], "inconsistent numbers of samples: 2 and 1"),
    ({}, [1.0, 2.0], None, "y is None"),
    ({}, ["a", "b"], [1.0, 2.0], "X holds text"),
    ({"domain": (0, 2)}, [1.0, 3.0], [1.0, 2.0], r"leaves out 1 of 2 values of X"),
    ({"domain": (2, 0)}, [1.0, 3.0], [1.0, 2.0], "a < b"),
    ({"domain": 3}, [1.0, 3.0], [1.0, 2.0], r"pair \(a, b\)"),
    ({"num_basis": 1}, [1.0, 3.0], [1.0, 2.0], "at least degree"),
    ({"num_basis": "many"}, [1.0, 3.0], [1.0, 2.0], "'auto', an integer"),
    ({"num_basis": [5, 5]}, [1.0, 3.0], [1.0, 2.0], "2 entries but there is one input"),
    ({"num_basis": 10**12}, [1.0, 3.0], [1.0, 2.0], "GiB, and this machine has"),
    ({"num_basis": 2.5}, [1.0, 3.0], [1.0, 2.0], "'auto', an integer"),
    ({"kernel": Matern32}, [1.0, 3.0], [1.0, 2.0], r"an instance: Matern32\(\)"),
    ({"kernel": "matern"}, [1.0, 3.0], [1.0, 2.0], "got 'matern'"),
    ({"kernel": Matern32(dim=1)}, [1.0, 3.0], [1.0, 2.0], "dim"),
    ({"degree": 1}, [1.0, 3.0], [1.0, 2.0], "integer from 2"),
    ({"noise_variance": -1.0}, [1.0, 3.0], [1.0, 2.0], "positive number, got -1.0"),
    ({"noise_variance": "low"}, [1.0, 3.0], [1.0, 2.0], "got 'low'"),
    ({"objective": "map"}, [1.0, 3.0], [1.0, 2.0], "'elbo' or 'evidence'"),
    ({"optimizer": "adam"}, [1.0, 3.0], [1.0, 2.0], "'lbfgs'"),
    ({"device": "cuda"}, [1.0, 3.0], [1.0, 2.0], "device"),
    ({"progress": "yes"}, [1.0, 3.0], [1.0, 2.0], "progress"),
]


@pytest.mark.parametrize("settings, X, y, message", BAD_FITS, ids=[str(b[3]) for b in BAD_FITS])
def test_bad_input_is_explained(settings, X, y, message):
    with pytest.raises((ValueError, TypeError), match=message):
        GPRegressor(**settings).fit(X, y)


@pytest.mark.parametrize(
    "weights, message",
    [
        ([0.0, 0.0, 0.0], "All 3 values of sample_weight are zero"),
        ([1.0, -2.0, 1.0], "negative, as it is in"),
        ([1.0, np.nan, 1.0], "sample_weight contains NaN or infinity"),
        ([1.0, 1.0], r"shape \(2,\), but X has 3 rows"),
        (["a", "b", "c"], "must hold numbers"),
        ("balanced", "must hold numbers"),
    ],
)
def test_bad_weights_are_explained(weights, message):
    with pytest.raises((ValueError, TypeError), match=message):
        GPRegressor().fit([1.0, 2.0, 3.0], [1.0, 2.0, 1.5], sample_weight=weights)


def test_bad_optimiser_settings_are_explained():
    with pytest.raises(ValueError, match="whole numbers"):
        LBFGS(restarts="a")
    with pytest.raises(ValueError, match="tolerance > 0"):
        LBFGS(tolerance=-1.0)


def test_bad_predictions_are_explained():
    with pytest.raises(NotFittedError):
        GPRegressor().predict([1.0])
    x, y = wave(100)
    gp = GPRegressor(Matern32(), num_basis=20).fit(x, y)
    with pytest.raises(ValueError, match=r"NaN or infinity in 1 of 2 rows \(1\)"):
        gp.predict([0.0, np.nan])
    with pytest.raises(ValueError, match="At most one"):
        gp.predict([0.0], return_std=True, return_cov=True)
    with pytest.raises(ValueError, match=r"y has shape \(1, 2\)"):
        gp.log_predictive_density([0.0], [[1.0, 2.0]])


def test_the_package_imports_lazily():
    code = "import sys, asvgp; print('sklearn' in sys.modules, 'numba' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["False", "False"]
    for name in asvgp.__all__:
        assert getattr(asvgp, name).__name__ in (name, f"asvgp.{name}")
        assert name in dir(asvgp)
    with pytest.raises(AttributeError, match="no attribute 'GPGuesser'"):
        _ = asvgp.GPGuesser


def test_periods_are_read_as_times_in_arrays_and_in_tables():
    months = pd.period_range("2020-01", periods=48, freq="M")
    y = np.sin(np.arange(48.0) / 4.0)
    fixed = {"num_basis": 20, "optimizer": None}
    known = GPRegressor(Matern32("90 days"), **fixed).fit(months.to_timestamp(), y)
    expected = known.predict(months.to_timestamp())
    gp = GPRegressor(Matern32("90 days"), **fixed).fit(months, y)
    np.testing.assert_array_equal(gp.predict(months), expected)
    table = pd.DataFrame({"month": months, "y": y})
    gp = GPRegressor(Matern32("90 days"), **fixed).fit(table, "y")
    answers = gp.predict(table)["mean"]
    np.testing.assert_allclose(answers, expected, rtol=1e-9, atol=1e-12)


def test_columns_that_are_missing_or_unknown_are_named():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(size=(50, 2)), columns=["lon", "lat"])
    gp = GPRegressor(Matern32(), num_basis=4, optimizer=None).fit(X, X["lon"])
    with pytest.raises(ValueError, match="has 3 features, but GPRegressor is exp") as error:
        gp.predict(X.assign(height=1.0))
    assert str(error.value).endswith("Feature names unseen at fit time:\n- height")
    with pytest.raises(ValueError, match="has 1 features, but GPRegressor is exp") as error:
        gp.predict(X[["lon"]])
    assert str(error.value).endswith("seen at fit time, yet now missing:\n- lat")
    with pytest.raises(ValueError, match="must be in the same order"):
        gp.predict(X[["lat", "lon"]])
    with pytest.raises(ValueError, match=r"expecting 2 features as input\.$"):
        gp.predict(np.ones((5, 3)))


def test_a_line_without_noise_is_said_to_have_none():
    x = np.arange(100.0)
    with pytest.warns(UserWarning, match="no noise that could be told from rounding") as told:
        gp = GPRegressor(Matern32() + Constant() + Linear()).fit(x, x)
    assert "Predictions are not affected" in str(told[0].message)
    assert "nats" not in str(told[0].message)
    np.testing.assert_allclose(gp.predict([-50.0, 50.5, 200.0]), [-50.0, 50.5, 200.0], rtol=1e-9)
    known = GPRegressor(Matern32() + Constant() + Linear(), num_basis=20, optimizer=None)
    with pytest.warns(UserWarning, match="is uncertain by about"):  # of noise that was given
        known.set_params(noise_variance=1e-20).fit(x, x)
