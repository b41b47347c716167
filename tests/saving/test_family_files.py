"""Models with other likelihoods than Gaussian noise: saved and loaded, they are the same."""

import copy
import math
import pickle
from functools import cache

import numpy as np
import pytest

import asvgp
from asvgp import (
    Bernoulli,
    Beta,
    Binomial,
    Constant,
    Exponential,
    Gamma,
    GPRegressor,
    Heteroscedastic,
    Matern32,
    NegativeBinomial,
    Ordinal,
    Poisson,
    StudentT,
    Weibull,
    ZeroInflatedPoisson,
)
from asvgp.estimators.portable import PortableModel
from asvgp.likelihoods import Gaussian
from asvgp.likelihoods.names import FAMILIES
from asvgp.saving import model_file
from asvgp.saving.encoding import Decoder, Encoder
from asvgp.saving.model_file import ModelFileError
from tests.saving.saved import again, nested, refused, rewrite, same

N = 300
# Steps are few here, for speed; whether sites settle is not what is tested.
pytestmark = pytest.mark.filterwarnings("ignore:The sites of the likelihood", "ignore:Training did")


def rows():
    rng = np.random.default_rng(3)
    x = rng.uniform(0.0, 10.0, N)
    return rng, x, np.sin(x)


def data_of(name):
    """Return a family, its targets and what belongs to them."""
    rng, x, f = rows()
    share = 1.0 / (1.0 + np.exp(-f))
    seen = {"event": (rng.uniform(size=N) < 0.8) * 1.0}
    exposure = {"exposure": rng.uniform(0.5, 2.0, N)}
    mixed = np.exp(f) * rng.gamma(2.0, 0.5, N)
    cases = {
        "poisson": (Poisson(), rng.poisson(np.exp(f)), exposure),
        "negative-binomial": (NegativeBinomial(), rng.poisson(mixed), {}),
        "bernoulli": (Bernoulli(), (rng.uniform(size=N) < share) * 1.0, {}),
        "binomial": (Binomial(), rng.binomial(5, share), {"trials": np.full(N, 5)}),
        "gamma": (Gamma(), rng.gamma(2.0, 0.5 * np.exp(f)), {}),
        "exponential": (Exponential(), rng.exponential(np.exp(f)), seen),
        "weibull": (Weibull(), rng.exponential(np.exp(f)), seen),
        "beta": (Beta(), rng.beta(8.0 * share, 8.0 * (1.0 - share)), {}),
        "student-t": (StudentT(), f + 0.1 * rng.standard_t(4, N), {}),
        "zero-inflated-poisson": (
            ZeroInflatedPoisson(),
            rng.poisson(np.exp(f)) * (rng.uniform(size=N) < 0.7),
            {},
        ),
        "ordinal": (Ordinal(levels=3), np.digitize(f, [-0.5, 0.5]) * 1.0, {}),
        "heteroscedastic": (
            Heteroscedastic(),
            f + np.exp(0.1 * x - 2.0) * rng.standard_normal(N),
            {},
        ),
    }
    return x, *cases[name]


@cache
def fitted(name):
    x, family, y, beside = data_of(name)
    gp = GPRegressor(Matern32() + Constant(), num_basis=20, likelihood=family)
    return gp.fit(x, y, **beside), x, y, beside


def new(beside):
    return {name: value for name, value in beside.items() if name != "event"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.asvgp"


each_family = pytest.mark.parametrize("name", list(FAMILIES))


@each_family
@pytest.mark.parametrize("full", [False, True])
def test_answers_are_the_same_bits(name, full, path):
    gp, x, y, beside = fitted(name)
    loaded, given = again(gp, path, full), new(beside)
    for kwargs in ({"return_std": True}, {"return_std": True, "include_noise": True}):
        assert same(gp.predict(x, **kwargs, **given), loaded.predict(x, **kwargs, **given))
    link = {"type": "link", "return_cov": True}
    assert same(gp.predict(x[:20], **link), loaded.predict(x[:20], **link))
    assert same(gp.predict_quantiles(x, **given), loaded.predict_quantiles(x, **given))
    densities = (m.log_predictive_density(x, y, **beside) for m in (gp, loaded))
    assert same(*densities)
    assert same(*(m.leave_one_out(x, y, **beside) for m in (gp, loaded)))
    assert same(
        *(m.sample_y(x[:5], 3, 0, **{k: v[:5] for k, v in given.items()}) for m in (gp, loaded))
    )


@each_family
def test_says_the_same_of_itself(name, path):
    gp = fitted(name)[0]
    loaded = again(gp, path)
    assert loaded.likelihood == gp.likelihood
    assert loaded._fit_now.likelihood == gp._fit_now.likelihood
    assert (loaded.elbo_, loaded.kernel_) == (gp.elbo_, gp.kernel_)
    assert math.isnan(loaded.evidence_upper_bound_)
    assert math.isnan(gp.evidence_upper_bound_)
    assert repr(vars(loaded.optimization_)) == repr(vars(gp.optimization_))  # NaN among them
    assert type(loaded.optimization_) is type(gp.optimization_)
    assert loaded.stats_.count == gp.stats_.count
    assert same(loaded.stats_.constants, gp.stats_.constants)
    assert loaded._data.summed == gp._data.summed


@pytest.mark.parametrize("name", ["poisson", "bernoulli", "binomial", "gamma", "exponential"])
def test_learns_on_as_the_original_does(name, path):
    gp, x, y, beside = fitted(name)
    gp, loaded, some = copy.copy(gp), again(gp, path, full=True), slice(0, 80)
    part = {key: value[some] for key, value in beside.items()}
    for model in (gp, loaded):
        model.partial_fit(x[some], y[some], **part)
    assert gp.elbo_ == loaded.elbo_
    assert same(gp.predict(x, return_std=True), loaded.predict(x, return_std=True))
    for model in (gp, loaded):
        model.forget(x[some], y[some], **part)
        assert model.stats_.count == N
        model.merge(copy.copy(fitted(name)[0]))
    assert same(gp.stats_.constants, loaded.stats_.constants)
    assert same(gp.predict(x), loaded.predict(x))


def test_what_reads_again_does_not_add_after_loading(path):
    gp, x, y, _ = fitted("student-t")
    loaded = again(gp, path)
    with pytest.raises(ValueError, match="reads the rows again at every step"):
        loaded.partial_fit(x, y)
    with pytest.raises(ValueError, match="need one read only"):
        loaded.forget(x, y)


@pytest.mark.parametrize("name", ["poisson", "gamma"])
def test_saved_before_it_was_trained(name, path):
    x, family, y, beside = data_of(name)
    gp = GPRegressor(Matern32() + Constant(), num_basis=20, likelihood=family)
    gp.partial_fit(x, y, **beside)
    loaded = again(gp, path)
    assert "_fit_now" not in vars(loaded)
    assert same(gp.predict(x), loaded.predict(x))
    # and once more, with the state before as a start
    more = {key: value[:50] for key, value in beside.items()}
    gp.partial_fit(x[:50], y[:50], **more)
    assert "_warm" in vars(gp)
    assert "_fit_now" not in vars(gp)
    assert same(again(gp, path).predict(x), gp.predict(x))


def test_a_small_file_keeps_cells_that_training_can_go_on_with(path):
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 10.0, 4000)
    y = rng.poisson(np.exp(np.sin(x)))
    gp = GPRegressor(Matern32() + Constant(), likelihood=Poisson()).fit(x[:3000], y[:3000])
    small = again(gp, path, full=False)
    assert path.stat().st_size <= 10 * 16 * 3000 + 2**16
    (own,), (cells,) = small.stats_.grids, gp.posterior_.stats.grids
    assert own.cells in (cells.cells, 2 * cells.cells)
    assert same(small.stats_.constants, gp.stats_.constants)
    np.testing.assert_allclose(small.stats_.weight, gp.stats_.weight)
    assert small.domain_ == gp.domain_
    for model in (gp, small):
        model.partial_fit(x[3000:], y[3000:])
    assert abs(gp.elbo_ - small.elbo_) < 0.01 + 1e-5 * abs(gp.elbo_)
    mean, std = gp.predict(x, return_std=True)
    assert np.max(np.abs(small.predict(x) - mean) / std) < 0.05


def test_two_inputs_that_are_read_again(path):
    rng = np.random.default_rng(1)
    X = rng.uniform(0.0, 1.0, (200, 2))
    y = np.sin(4.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_t(3, 200)
    gp = GPRegressor(Matern32() + Constant(), num_basis=6, likelihood=StudentT()).fit(X, y)
    assert same(gp.predict(X, return_std=True), again(gp, path).predict(X, return_std=True))


@pytest.mark.parametrize("name", ["poisson", "student-t"])
def test_a_model_that_is_sent_predicts_the_same_bits(name):
    gp, x, _, beside = fitted(name)
    sent = pickle.loads(pickle.dumps(PortableModel(gp))).model
    assert same(
        gp.predict(x, return_std=True, **beside), sent.predict(x, return_std=True, **beside)
    )
    assert math.isnan(sent.evidence_upper_bound_)
    assert sent.stats_.count == N


# ---------------------------------------------------------------- bad files

FIT = ("state", "_fit_now", "Fit")
DATA = ("state", "_data", "FitData")
RESPONSE = (*DATA, "transforms", "tuple", 0, "Response")


@pytest.mark.parametrize(
    "keys, value, match",
    [
        (
            ("settings", "likelihood", "likelihood", "name"),
            "os.system",
            "no likelihood 'os.system'",
        ),
        (("settings", "likelihood", "likelihood", "shape"), -1.0, "positive number"),
        (("settings", "likelihood", "likelihood", "shape"), "2.0", "is not written so"),
        (("settings", "likelihood", "likelihood", "wings"), 2, "does not take wings"),
        (("settings", "likelihood", "likelihood"), [], "is no likelihood"),
        (("settings", "likelihood", "likelihood", "free"), ["wings"], "no parameter wings"),
        ((*FIT, "likelihood"), {"likelihood": {"name": "poisson", "free": []}}, "is not Gamma"),
        ((*FIT, "likelihood"), {"likelihood": {"name": "gaussian", "noise": 1.0}}, "is not Gamma"),
        ((*FIT, "likelihood", "likelihood", "free"), [], "is not Gamma"),
        ((*FIT, "likelihood"), 3.0, "is not Gamma"),
        ((*RESPONSE, "family"), None, "none at all"),
        ((*RESPONSE, "family"), 2.0, "family is"),
        ((*DATA, "transforms"), {"tuple": [{"Transform": {"power": 1.0}}]}, "constants"),
        ((*DATA, "summed"), False, "constants of the statistics has shape"),
        ((*DATA, "summed"), "no", "summed is a str"),
        (("shared", "data.stats", "Statistics", "convention"), "weights", "sums of Gamma"),
    ],
)
def test_parts_that_contradict_each_other(path, keys, value, match):
    fitted("gamma")[0].save(path, full=True)

    def change(model):
        inner, key = nested(model, *keys)
        inner[key] = value

    rewrite(path, change)
    refused(path, f"contradicts itself.*{match}")


def test_no_array_may_have_another_shape_or_type(path):
    fitted("gamma")[0].save(path)
    _, arrays = model_file.read(path)
    assert any(name.endswith("constants") and array.size for name, array in arrays.items())
    whole = path.read_bytes()
    for name, array in arrays.items():
        if not array.size:
            continue
        for other in (array[..., None], array.astype(np.float32), array[None]):
            path.write_bytes(whole)
            rewrite(path, None, lambda arrays, n=name, o=other: arrays.update({n: o}))
            refused(path, "contradicts itself")


@each_family
def test_families_come_back_as_they_were(name):
    family = fitted(name)[0]._fit_now.likelihood
    node = Encoder()(family, "likelihood")
    assert Decoder({})(node) == family


def test_other_likelihoods_are_refused(path):
    class Mine(Poisson):
        pass

    x, _, y, _ = data_of("poisson")
    gp = GPRegressor(Matern32() + Constant(), num_basis=9, likelihood=Mine()).fit(x, y)
    with pytest.raises(TypeError, match="a likelihood that a model file cannot hold"):
        gp.save(path)
    assert not path.exists()


def test_gaussian_noise_that_was_named(path):
    x = np.linspace(0.0, 10.0, 50)
    gp = GPRegressor(Matern32(), num_basis=12, likelihood=Gaussian(0.01), optimizer=None)
    loaded = again(gp.fit(x, np.sin(x)), path)
    assert loaded.likelihood == Gaussian(0.01)
    assert same(gp.predict(x, return_std=True), loaded.predict(x, return_std=True))


def test_cut_off_files_are_refused(path):
    fitted("poisson")[0].save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelFileError):
        asvgp.load(path)
