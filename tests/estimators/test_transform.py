"""Models of a transform of y: against dense twins and samples, all in the units of y."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.base import clone

import asvgp
from asvgp import Constant, GPRegressor, Linear, Matern32, Matern52, Periodic
from asvgp.data.transforms import Transform
from asvgp.report.page import compose
from tests.cli.command_line import call
from tests.dense import ExactGP

NOISE = 0.02
KERNEL = Matern32(9.0, 0.3) + Periodic(6.0, 2.0, 0.2)  # up to a thousand inputs it is exact
FIXED = {"noise_variance": NOISE, "optimizer": None}
POWERS = {"log": 0.0, "sqrt": 0.5}


def data(rows=60, transform="log", seed=0):
    x = np.arange(float(rows))
    rng = np.random.default_rng(seed)
    z = 2.0 * np.sin(x / 9.0) / (1 + x / 40) + 0.4 * np.sin(np.pi * x / 3) + 1.5
    return x, Transform(POWERS[transform]).inverse(z + NOISE**0.5 * rng.standard_normal(rows))


def growing(rows=96, seed=0):
    """A trend with a season whose swings, as the noise, are a share of the level."""
    t = np.arange(float(rows))
    noise = 0.1 * np.random.default_rng(seed).standard_normal(rows)
    return t, np.exp(3.0 + 0.02 * t + 0.3 * np.sin(np.pi * t / 6) + noise)


def additive(rows=96, seed=0):
    """The same with swings that stay as they are."""
    t = np.arange(float(rows))
    noise = 3.0 * np.random.default_rng(seed).standard_normal(rows)
    return t, 100.0 + 0.8 * t + 15.0 * np.sin(np.pi * t / 6) + noise


@pytest.fixture(scope="module", params=list(POWERS))
def fitted(request):
    """A model, its transform, and the dense Gaussian process of the transformed data."""
    transform = Transform(POWERS[request.param])
    x, y = data(transform=request.param)
    gp = GPRegressor(KERNEL, transform=request.param, **FIXED).fit(x, y)
    return gp, transform, ExactGP(KERNEL, NOISE, x, transform.forward(y)), x, y


NEW = np.array([3.3, 20.5, 58.0, 66.0, 75.0])

# ---------------------------------------------------------------- dense twins


def test_the_evidence_is_that_of_y(fitted):
    gp, transform, dense, _, y = fitted
    evidence = dense.evidence() + np.sum((transform.power - 1.0) * np.log(y))
    assert_allclose([gp.elbo_, gp.evidence_upper_bound_, gp.evidence_], evidence, rtol=1e-6)


def test_the_bounds_of_splines_hold_the_evidence_of_y():
    x, y = data()
    kernel = Matern52(4.0, 1.0)
    evidence = ExactGP(kernel, NOISE, x, np.log(y)).evidence() - np.log(y).sum()
    for num_basis in (40, 400):
        gp = GPRegressor(kernel, num_basis=num_basis, transform="log", **FIXED).fit(x, y)
        assert gp.elbo_ <= evidence <= gp.evidence_upper_bound_
    assert_allclose(gp.elbo_, evidence, atol=0.1)


def test_moments_quantiles_and_densities_are_those_of_the_dense_process(fitted):
    gp, transform, dense, *_ = fitted
    latent, covariance = dense.predict(NEW)
    mean, variance = transform.moments(latent, np.diag(covariance))
    found = gp.predict(NEW, return_std=True)
    assert_allclose(found[0], mean, rtol=1e-6)
    assert_allclose(found[1], np.sqrt(variance), rtol=1e-5)
    found = gp.predict(NEW, return_cov=True)
    assert_allclose(found[1], transform.covariance(latent, covariance), rtol=1e-5, atol=1e-8)
    spread = np.diag(covariance) + NOISE
    noisy = gp.predict(NEW, return_std=True, include_noise=True)
    assert_allclose(noisy, np.stack(transform.moments(latent, spread)) ** [[1.0], [0.5]], rtol=1e-5)
    assert np.all(noisy[0] > found[0])  # more noise, more skew
    quantiles = gp.predict_quantiles(NEW, [0.1, 0.5], include_noise=True)
    expected = norm.ppf([[0.1, 0.5]], latent[:, None], np.sqrt(spread)[:, None])
    assert_allclose(quantiles, transform.inverse(expected), rtol=1e-6)
    assert_array_equal(gp.predict_quantiles(NEW, 0.5, include_noise=True), quantiles[:, 1])
    y = np.array([1.0, 4.0, 7.0, 2.0, 3.0])
    density = norm.logpdf(transform.forward(y), latent, np.sqrt(spread))
    expected = density + transform.log_jacobian(y)
    assert_allclose(gp.log_predictive_density(NEW, y), expected, rtol=1e-5)


def test_the_predictive_density_integrates_to_one(fitted):
    gp = fitted[0]
    low, high = gp.predict_quantiles([66.0], [1e-12, 1 - 1e-12], include_noise=True)[0]

    def density(y):
        return float(np.exp(gp.log_predictive_density([66.0], [y])[0]))

    middle = float(gp.predict_quantiles([66.0], 0.5)[0])
    assert_allclose(quad(density, low, high, points=[middle])[0], 1.0, rtol=1e-6)
    assert_array_equal(gp.log_predictive_density([66.0, 66.0], [0.0, -1.0]), -np.inf)


def test_leaving_out_is_fitting_without(fitted):
    gp, transform, _, x, y = fitted
    found, i = gp.leave_one_out(x, y), 20
    keep = np.arange(len(x)) != i
    dense = ExactGP(KERNEL, NOISE, x[keep], transform.forward(y[keep]))
    latent, covariance = dense.predict(x[i : i + 1])
    spread = np.diag(covariance) + NOISE
    mean, variance = transform.moments(latent, spread)
    assert_allclose(found.mean[i], mean[0], rtol=1e-6)
    assert_allclose(found.std[i] ** 2, variance[0], rtol=1e-5)
    assert_allclose(found.residual, y - found.mean)
    z = (transform.forward(y[i]) - latent[0]) / np.sqrt(spread[0])
    assert_allclose(found.z[i], z, rtol=1e-6)
    density = norm.logpdf(z) - 0.5 * np.log(spread[0]) + transform.log_jacobian(y[i])
    assert_allclose(found.log_density[i], density, rtol=1e-6)


def test_integrals_are_sums_of_moments_of_the_dense_process(fitted):
    gp, transform, dense, *_ = fitted
    a, b = np.array([2.0, 50.0, 70.0]), np.array([10.0, 65.0, 68.0])
    s, w = np.polynomial.legendre.leggauss(4)
    starts = [2.0 + np.arange(8), 50.0 + np.arange(15), 68.0 + np.arange(2)]  # of panels
    places = np.concatenate([np.ravel(start[:, None] + (s + 1) / 2) for start in starts])
    weights = np.zeros((3, len(places)))
    first = 0
    for row, start, sign in zip(weights, starts, (1.0, 1.0, -1.0), strict=True):
        row[first : (first := first + 4 * len(start))] = sign * np.tile(w / 2, len(start))
    latent, covariance = dense.predict(places)
    total = weights @ transform.moments(latent, np.diag(covariance))[0]
    expected = weights @ transform.covariance(latent, covariance) @ weights.T
    mean, found = gp.integrate(a, b, return_cov=True)
    assert_allclose(mean, total, rtol=1e-4)
    scale = np.sqrt(np.diag(expected))
    assert_allclose(found / np.outer(scale, scale), expected / np.outer(scale, scale), atol=1e-3)
    mean, std = gp.integrate(a[0], b[0], return_std=True, average=True)
    assert_allclose(mean, total[0] / 8.0, rtol=1e-4)
    assert_allclose(std, expected[0, 0] ** 0.5 / 8.0, rtol=1e-3)
    assert_allclose(gp.integrate(9.0, 9.0, average=True), gp.predict([9.0])[0], rtol=1e-9)


def test_samples_and_paths_have_the_moments_of_y(fitted):
    gp = fitted[0]
    mean, std = gp.predict(NEW, return_std=True)
    draws = gp.sample_y(NEW, 4000, random_state=0)
    assert np.all(draws >= 0.0)
    assert np.all(np.abs(draws.mean(axis=1) - mean) < 5 * std / 4000**0.5)
    assert_allclose(draws.std(axis=1), std, rtol=0.15)
    inside = NEW[NEW < 59.0]
    paths = np.array([path(inside) for path in gp.sample_paths(300, random_state=0)])
    assert np.all(np.abs(paths.mean(axis=0) - mean[:3]) < 5 * std[:3] / 300**0.5)
    (part,) = gp.sample_paths(1, random_state=0, component=0)
    assert np.ndim(part(inside)) == 1


def test_forecasts_are_in_the_units_of_y(fitted):
    gp, transform, *_ = fitted
    table = gp.forecast(4, level=0.9, components=True, n_samples=500, random_state=0)
    ahead = table.index.to_numpy()
    mean, std = gp.predict(ahead, return_std=True, include_noise=True)
    assert_array_equal(table["mean"], mean)
    assert_array_equal(table["std"], std)
    ends = gp.predict_quantiles(ahead, [0.05, 0.95], include_noise=True)
    assert_allclose(table[["lower_90", "upper_90"]], ends, rtol=1e-9)
    latent = gp._latent(ahead)[0][0]
    assert_allclose(table[["matern32", "periodic"]].sum(axis=1), latent, rtol=1e-6)
    assert table.attrs["components"] == f"on the scale of {transform}"
    draws = table.filter(like="sample_")
    inside = (draws.ge(table["lower_90"], axis=0) & draws.le(table["upper_90"], axis=0)).to_numpy()
    assert 0.8 < inside.mean() < 0.97


def test_the_score_is_that_of_the_means_of_observations(fitted):
    gp, _, _, x, y = fitted
    mean = gp.predict(x, include_noise=True)
    assert_allclose(gp.score(x, y), 1.0 - np.sum((y - mean) ** 2) / np.sum((y - y.mean()) ** 2))
    frame = pd.DataFrame({"x": x, "y": y})
    named = GPRegressor(KERNEL, transform=gp.get_params()["transform"], **FIXED).fit(frame, "y")
    assert_allclose(named.score(frame, "y"), gp.score(x, y))


def test_what_has_no_answer_in_the_units_of_y_is_refused(fitted):
    gp = fitted[0]
    with pytest.raises(ValueError, match="Derivatives are not available in the units of y"):
        gp.predict(NEW, derivative=1)
    for ask in (
        lambda: gp.predict(NEW, include_noise=True, noise_variance=0.1),
        lambda: gp.log_predictive_density(NEW, NEW, noise_variance=0.1),
    ):
        with pytest.raises(ValueError, match="noise_variance of y has no place"):
            ask()


def test_the_parameter_makes_no_transformer_of_a_regressor(fitted):
    gp = fitted[0]
    assert not hasattr(gp, "transform")
    assert clone(gp).get_params() == gp.get_params()
    assert "transform='log'" in repr(GPRegressor().set_params(transform="log"))
    with pytest.raises(AttributeError, match="what it led to transform_"):
        gp.transform(NEW)


# ---------------------------------------------------------------- the choice


SEASONAL = Matern32() + Periodic(12.0) + Constant()


@pytest.fixture(scope="module")
def chosen():
    """The model that chooses, of data with growing swings."""
    return GPRegressor(SEASONAL, transform="auto").fit(*growing())


def test_growing_swings_choose_the_logarithm(chosen):
    assert chosen.transform_ == Transform(0.0)
    assert chosen.stats_.outputs == 1
    fixed = GPRegressor(SEASONAL, transform="log").fit(*growing())
    assert_allclose(chosen.elbo_, fixed.elbo_, atol=0.1)
    assert chosen.elbo_ > GPRegressor(SEASONAL).fit(*growing()).elbo_
    text = str(chosen.summary())
    assert "log y, chosen by the evidence" in " ".join(text.split())


def test_swings_that_stay_choose_y_itself():
    gp = GPRegressor(SEASONAL, transform="auto").fit(*additive())
    assert gp.transform_.identity
    assert "y, chosen by the evidence" in gp.summary().transform
    assert gp.elbo_ > GPRegressor(SEASONAL, transform="log").fit(*additive()).elbo_


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_zeros_and_negative_values_never_choose_the_logarithm(value):
    x, y = growing()
    y[7] = value
    gp = GPRegressor(SEASONAL, transform="auto").fit(x, y)
    assert gp.transform_.identity
    assert gp.summary().transform == "y as it is: one value is zero or negative"
    with pytest.raises(ValueError, match=r"zero or negative in 1 of 96 rows \(7\)"):
        GPRegressor(SEASONAL, transform="log").fit(x, y)


def test_a_zero_that_comes_late_rules_the_logarithm_out():
    x, y = growing()
    gp = GPRegressor(SEASONAL, transform="auto").partial_fit(x[:60], y[:60])
    y[80] = 0.0
    gp.partial_fit(x[60:], y[60:]).forget(x[60:], y[60:])
    assert gp.stats_.count == 60
    assert gp.transform_.identity
    assert gp.summary().transform == "y as it is: there are values that are zero or negative"


def test_training_is_needed_for_a_choice():
    with pytest.raises(ValueError, match="transform='auto' compares trained models"):
        GPRegressor(KERNEL, transform="auto", **FIXED).fit(*growing())


@pytest.mark.filterwarnings("ignore:The automatic resolution stopped")
def test_variances_and_averages_of_y_are_none_of_its_logarithm():
    x, y = growing()
    for extra, name in (({"noise_variance": np.ones(96)}, "noise"), ({"width": 0.5}, "width")):
        kernel = Matern32() + Constant()
        with pytest.raises(ValueError, match=rf"{name}.* log y: leave out the transform"):
            GPRegressor(kernel, transform="log").fit(x, y, **extra)
        gp = GPRegressor(kernel, transform="auto").fit(x, y, **extra)
        assert gp.transform_.identity
        assert name in gp.summary().transform


# ---------------------------------------------------------------- streams, outputs and inputs


@pytest.mark.parametrize("transform", ["auto", "log", 0.3])
def test_portions_give_what_the_whole_gives(transform):
    x, y = growing()
    settings = {"num_basis": 60, "domain": (0.0, 95.0), "transform": transform}
    kernel = Matern32() + Constant()
    whole = GPRegressor(kernel, **settings).fit(x, y)
    parts, stream = GPRegressor(kernel, **settings), GPRegressor(kernel, **settings)
    for part in np.array_split(np.arange(96), 4):
        parts.partial_fit(x[part], y[part])
    blocks = [(x[part], y[part]) for part in np.array_split(np.arange(96), 3)]
    stream.fit(lambda: iter(blocks))
    for gp in (parts, stream):
        assert gp.transform_ == whole.transform_
        assert_allclose(gp.elbo_, whole.elbo_, rtol=1e-6)
        assert_allclose(gp.stats_.log_jacobian, whole.stats_.log_jacobian, rtol=1e-12)
        assert_allclose(gp.predict(x), whole.predict(x), rtol=1e-4)


def test_the_choice_holds_for_data_that_are_added(chosen, tmp_path):
    chosen.save(tmp_path / "m.asvgp")
    gp = asvgp.load(tmp_path / "m.asvgp")
    assert gp.summary().transform == chosen.summary().transform
    assert_array_equal(gp.predict(NEW), chosen.predict(NEW))
    with pytest.raises(ValueError, match="zero or negative in 1 of 1 rows"):
        gp.partial_fit([96.0], [0.0])
    gp.partial_fit([96.0], [300.0])
    assert gp.transform_ == Transform(0.0)
    gp.set_params(transform=None)
    with pytest.raises(ValueError, match="model is of log y, and y is wanted now"):
        gp.partial_fit([97.0], [300.0])


def test_models_of_different_transforms_do_not_merge():
    x, y = growing()
    settings = {"num_basis": 30, "domain": (0.0, 95.0)}
    log, plain = (GPRegressor(KERNEL, **settings, transform=t, **FIXED) for t in ("log", None))
    other = asvgp.GPRegressor(KERNEL, **settings, transform="log", **FIXED).fit(x[60:], y[60:])
    with pytest.raises(ValueError, match="of log y and the other of y"):
        log.fit(x[:60], y[:60]).merge(plain.fit(x[60:], y[60:]))
    whole = GPRegressor(KERNEL, **settings, transform="log", **FIXED).fit(x, y)
    assert_allclose(log.merge(other).elbo_, whole.elbo_, rtol=1e-9)


def test_an_undecided_model_can_be_saved(tmp_path):
    x, y = growing()
    gp = GPRegressor(SEASONAL, transform="auto").partial_fit(x, y)
    gp.save(tmp_path / "m.asvgp")
    again = asvgp.load(tmp_path / "m.asvgp")
    assert again.stats_.outputs == 2
    assert again.transform_ == gp.transform_ == Transform(0.0)
    assert_allclose(again.elbo_, gp.elbo_, rtol=1e-9)


def test_outputs_share_the_transform_that_their_sum_chooses():
    x, y = growing()
    both = np.column_stack([y, 2.0 * y**0.9])
    gp = GPRegressor(SEASONAL, transform="auto").fit(x, both)
    assert gp.transform_ == Transform(0.0)
    mean, covariance = gp.predict(NEW, return_cov=True)
    assert (mean.shape, covariance.shape) == ((5, 2), (5, 5, 2))
    assert gp.predict_quantiles(NEW).shape == (5, 2, 3)
    std = gp.predict(NEW, return_std=True)[1]
    assert_allclose(np.sqrt(np.einsum("iij->ij", covariance)), std, rtol=1e-6)
    total, spread = gp.integrate([0.0, 5.0], [3.0, 9.0], return_cov=True)
    assert (total.shape, spread.shape) == ((2, 2), (2, 2, 2))
    alone = gp.leave_one_out(x, both)
    assert_allclose(alone.residual, both.T - alone.mean)
    assert gp.log_predictive_density(x, both).shape == (96,)


def test_maps_answer_in_the_units_of_y():
    axes = np.linspace(0, 1, 12), np.linspace(0, 2, 10)
    z = np.sin(3 * axes[0])[:, None] + axes[1]
    kernel = Matern32(0.5, dim=0) * Matern32(0.8, dim=1)
    settings = {"num_basis": 14, "noise_variance": 1e-3, "optimizer": None}
    gp = GPRegressor(kernel, transform="log", **settings).fit(axes, np.exp(z))
    plain = GPRegressor(kernel, **settings).fit(axes, z)
    assert_allclose(gp.elbo_, plain.elbo_ - z.sum(), rtol=1e-9)
    mean, std = plain.predict(axes, return_std=True)
    assert_allclose(gp.predict(axes), np.exp(mean + std**2 / 2), rtol=1e-9)
    assert gp.predict_quantiles(axes).shape == (12, 10, 3)
    s, w = np.polynomial.legendre.leggauss(40)
    dense = gp.predict(((s + 1) / 2, s + 1))
    total = np.einsum("i,ij,j->", w / 2, dense, w)
    assert_allclose(gp.integrate([0.0, 0.0], [1.0, 2.0]), total, rtol=1e-4)
    assert gp.leave_one_out(axes, np.exp(z)).mean.shape == (12, 10)


def test_integrals_do_not_leave_effects_out():
    x, y = growing()
    frame = pd.DataFrame({"t": x, "c": np.cos(x)})
    kernel = Matern32(9.0, dim="t") + Constant() + Linear("c")
    gp = GPRegressor(kernel, num_basis=30, transform="log", **FIXED).fit(frame, y)
    with pytest.raises(ValueError, match="no leaving them out"):
        gp.integrate(0.0, 1.0)
    parts = gp.predict(frame[:5], components=True)[1]
    assert_allclose(np.exp(sum(p.mean for p in parts)), gp.predict_quantiles(frame[:5], 0.5))


# ---------------------------------------------------------------- pictures and commands


def test_pictures_and_reports_are_of_y():
    pytest.importorskip("matplotlib")
    from matplotlib import pyplot as plt

    from asvgp import plot

    x, y = growing()
    kernel = Matern32(9.0) + Constant()
    gp = GPRegressor(kernel, num_basis=60, transform="log", **FIXED).fit(x, y)
    ax = plot.series(gp, x, y, include_noise=True)
    (line,) = (line for line in ax.lines if line.get_label() == "posterior mean")
    assert_allclose(line.get_ydata(), gp.predict(line.get_xdata(), include_noise=True), rtol=1e-6)
    band = ax.collections[-1].get_paths()[0].vertices
    low, high = gp.predict_quantiles(band[:, 0], [0.025, 0.975], include_noise=True).T
    off = np.minimum(np.abs(band[:, 1] / low - 1.0), np.abs(band[:, 1] / high - 1.0))
    assert off.max() < 1e-6
    with pytest.raises(ValueError, match="on the scale of log y"):
        plot.series(gp, components=True)
    assert "log y" in plot.components(gp)[0].get_ylabel()
    plot.forecast(gp, x, y, steps=5, components=True)
    assert plot.residuals(gp, x[::2], y[::2], held_out=True).shape == (4,)
    assert "on the scale of log y" in compose(gp).text
    plt.close("all")


def test_the_command_line_takes_a_transform(tmp_path):
    x, y = growing()
    pd.DataFrame({"x": x, "y": y}).to_csv(tmp_path / "d.csv", index=False)
    model = tmp_path / "m.asvgp"
    kernel = ("--kernel", "matern32(9) + constant", "--num-basis", 40, "--transform", "log")
    call("fit", tmp_path / "d.csv", "--target", "y", "--input", "x", *kernel, "-o", model)
    gp = asvgp.load(model)
    assert gp.transform_ == Transform(0.0)
    out = tmp_path / "o.csv"
    call("predict", model, "--at", "10:20:5", "--level", 0.9, "--include-noise", "-o", out)
    table = pd.read_csv(out)
    ends = gp.predict_quantiles([10.0, 15.0, 20.0], [0.05, 0.95], include_noise=True)
    assert_allclose(table[["lower", "upper"]], ends, rtol=1e-9)
    result = call("fit", tmp_path / "d.csv", "--target", "y", "--transform", "ln", code=2)
    assert "'auto', 'log', 'sqrt' or a power" in result.stderr


def test_weights_count_the_rows_of_y_itself():
    """Rows that come twice have twice the log derivative of the transform, too."""
    rng = np.random.default_rng(4)
    x, y = np.linspace(0.0, 5.0, 30), rng.lognormal(0.5, 0.3, 30)
    often = rng.integers(0, 3, 30)
    settings = {"num_basis": 40, "noise_variance": 0.1, "optimizer": None, "domain": (0.0, 5.0)}
    gp = GPRegressor(Matern32(), transform="log", **settings).fit(x, y, sample_weight=often)
    rows = np.repeat(np.arange(30), often)
    whole = GPRegressor(Matern32(), transform="log", **settings).fit(x[rows], y[rows])
    assert gp.elbo_ == pytest.approx(whole.elbo_, rel=1e-10)
