"""Saved and loaded, a model is the same: what it says, and what it learns on."""

import copy
import json
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import asvgp
from asvgp import (
    LBFGS,
    SHO,
    Constant,
    GPRegressor,
    Matern12,
    Matern32,
    Matern72,
)
from asvgp.estimators.persistence import SETTINGS, STATE
from asvgp.kernels import PROCESSES, Component
from asvgp.likelihoods import Gaussian
from asvgp.linalg.chain import elimination
from asvgp.model.grid import GridEngine
from asvgp.saving.encoding import Decoder, Encoder
from tests.saving.saved import (
    FIELDS,
    LINES,
    additive,
    again,
    beyond,
    fitted,
    line,
    numbers,
    same,
    separable,
    sums,
)

DATA = Path(__file__).parents[1] / "files"
each_model = pytest.mark.parametrize("case", [*LINES, *FIELDS], ids=lambda case: case.__name__)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.asvgp"


# ---------------------------------------------------------------- what it says


@each_model
def test_predicts_the_same_bits(case, path):
    gp, X, _, _ = fitted(case)
    loaded, Q = again(gp, path), beyond(X)
    assert same(gp.predict(Q), loaded.predict(Q))
    assert same(gp.predict(Q, return_std=True), loaded.predict(Q, return_std=True))
    assert same(gp.predict(Q[:30], return_cov=True), loaded.predict(Q[:30], return_cov=True))
    parts = gp.predict(Q, return_std=True, components=True)
    assert same(parts, loaded.predict(Q, return_std=True, components=True))


@each_model
def test_derivatives_are_the_same_bits(case, path):
    gp, X, _, _ = fitted(case)
    if any(f.order == 0 for part in gp.kernel_.components for f in part.factors):
        pytest.skip("not differentiable")
    order = 1 if case in LINES else {gp.kernel_.components[0].factors[0].dim: 1}
    kwargs = {"derivative": order, "return_std": True}
    assert same(gp.predict(beyond(X), **kwargs), again(gp, path).predict(beyond(X), **kwargs))


@each_model
def test_says_the_same_of_itself(case, path):
    gp = fitted(case)[0]
    loaded = again(gp, path)
    assert repr(loaded) == repr(gp)
    for name, value in gp.get_params().items():
        assert repr(loaded.get_params()[name]) == repr(value)
    for name in ("elbo_", "evidence_", "evidence_upper_bound_", "noise_variance_", "num_basis_"):
        assert same(getattr(loaded, name), getattr(gp, name)), name
    for name in ("kernel_", "domain_", "timings_", "time_origin_", "resolution_", "optimization_"):
        assert repr(getattr(loaded, name)) == repr(getattr(gp, name)), name
    assert same(gp.effects_, loaded.effects_)
    assert str(gp.summary()) == str(loaded.summary())
    for name, value in vars(gp.stats_).items():
        if isinstance(value, np.ndarray):
            assert same(np.asarray(getattr(loaded.stats_, name)), value), name
    for name in ("axes", "columns"):
        assert getattr(loaded._data.structure, name) == getattr(gp._data.structure, name)


@each_model
def test_draws_and_checks_are_the_same(case, path):
    gp, X, y, kwargs = fitted(case)
    loaded, Q = again(gp, path), X[:20]
    assert same(gp.sample_y(Q, 3, random_state=0), loaded.sample_y(Q, 3, random_state=0))
    mine, theirs = (m.sample_paths(2, random_state=0) for m in (gp, loaded))
    if case in LINES:
        mine, theirs = ([path.c for path in paths] for paths in (mine, theirs))
    else:
        mine, theirs = ([path(Q) for path in paths] for paths in (mine, theirs))
    assert same(mine, theirs)
    assert same(*(m.leave_one_out(X, y, **kwargs) for m in (gp, loaded)))


def test_predictions_need_no_factorisation(path, monkeypatch):
    expected = {}
    for case in (sums, separable, additive):
        gp, X, _, _ = fitted(case)
        expected[case] = again(gp, path.with_name(case.__name__)), gp.predict(X, return_std=True)

    def refused(*_args, **_kwargs):
        raise AssertionError("factored")

    monkeypatch.setattr(elimination, "factor", refused)
    monkeypatch.setattr(GridEngine, "factor", refused)
    for case, (loaded, prediction) in expected.items():
        assert same(loaded.predict(fitted(case)[1], return_std=True), prediction)
    with pytest.raises(AssertionError, match="factored"):
        expected[sums][0].summary()


# ---------------------------------------------------------------- learning on


@each_model
@pytest.mark.filterwarnings("ignore:The automatic resolution stopped")  # of untrained lengthscales
def test_learns_on_as_the_original_does(case, path):
    gp, X, y, kwargs = fitted(case)
    loaded, gp = again(gp, path), copy.copy(gp)  # whose parts are replaced, never changed
    some = slice(0, 150)
    part = {name: value[some] for name, value in kwargs.items()}
    for model in (gp, loaded):
        model.optimizer = None  # training is tested elsewhere
        model.partial_fit(X[some], y[some], **part)
    assert same(gp.predict(X, return_std=True), loaded.predict(X, return_std=True))
    assert loaded.stats_.count == len(y) + 150
    for model in (gp, loaded):
        model.forget(X[some], y[some], **part)
    assert same(gp.predict(X, return_std=True), loaded.predict(X, return_std=True))
    other = copy.copy(gp)
    assert same(*(m.merge(other).predict(X, return_std=True) for m in (gp, loaded)))


def test_training_goes_on_from_where_it_was(path):
    gp, X, y, _ = fitted(sums)
    loaded, gp = again(gp, path), copy.copy(gp)
    for model in (gp, loaded):
        model.partial_fit(X[:100], y[:100])
    assert again(loaded, path)._warm == gp._warm  # saved between the data and the training
    assert same(gp.predict(X), loaded.predict(X))
    assert gp.kernel_ == loaded.kernel_ == again(loaded, path).kernel_
    assert same(gp.fit(X, y).predict(X), loaded.fit(X, y).predict(X))


def test_saved_before_it_was_trained(path):
    X, y = numbers(1)
    gp = GPRegressor(Matern32(), num_basis=30).partial_fit(X, y)
    loaded = again(gp, path)
    assert "_fit_now" not in vars(loaded)
    assert same(gp.predict(X, return_std=True), loaded.predict(X, return_std=True))


def test_without_data_there_is_nothing_to_save(path):
    with pytest.raises(NotFittedError, match="no data yet"):
        GPRegressor().save(path)
    assert not path.exists()


@each_model
def test_everything_an_estimator_keeps_is_saved(case):
    """A new attribute must be added to what is saved."""
    assert set(vars(fitted(case)[0])) <= {*SETTINGS, *STATE, "feature_names_in_"}


# ---------------------------------------------------------------- what there is to save


def test_a_file_of_version_1():
    """Written once and kept: what loads it now must load it always."""
    known = json.loads((DATA / "models-v1.json").read_text())
    for name, (places, mean, std) in known.items():
        gp = asvgp.load(DATA / f"{name}-v1.asvgp")
        found = gp.predict(np.array(places), return_std=True)
        np.testing.assert_allclose(found, (mean, std), rtol=1e-9, err_msg=name)
        gp.partial_fit(np.array(places)[:2], [0.0, 0.0])
        assert np.all(np.isfinite(gp.predict(np.array(places))))


def test_a_model_made_on_a_gpu_predicts_without_one(path, monkeypatch):
    def missing(device):
        raise ValueError(f"there is no {device}")

    monkeypatch.setattr("asvgp.posterior.grid.device_for", missing)
    gp, X, _, _ = fitted(separable)
    gp = copy.copy(gp)
    gp.device = "cuda:7"
    loaded = again(gp, path)
    assert loaded.device == "cuda:7"
    assert same(loaded.predict(beyond(X), return_std=True), gp.predict(beyond(X), return_std=True))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -3,
        0.1,
        -0.0,
        "text",
        float("inf"),
        [1, (2.0, "a")],
        {"a": 1, 2: (3,)},
        date(2024, 1, 2),
        datetime(2024, 1, 2, 3, 4, 5, 678),
        datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
        datetime(2024, 1, 2, tzinfo=UTC),
        timedelta(days=2, microseconds=5),
        np.datetime64("2024-01-02T03", "h"),
        np.datetime64(5, ("ns", 10)),
        np.timedelta64(7, "D"),
        pd.Timestamp("2024-01-02T03:04:05.123456789"),
        pd.Timestamp("2024-07-27T02:30:05.123456789", tz="Europe/Berlin"),
        LBFGS(7, 1e-3, 2),
        Matern12(lengthscale="3 hours", dim="when", fixed=("variance",)),
        Matern72(2.0, dim=1) * SHO(dim=0, bounds={"quality": (0.1, 9.0)}) + Constant(variance=4.0),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_values_come_back_as_they_were(value):
    encoder = Encoder()
    node = json.loads(json.dumps(encoder(value, "here")))
    found = Decoder(encoder.arrays)(node)
    assert type(found) is type(value)
    assert found == value
    assert repr(found) == repr(value)


def test_scales_that_nobody_gave_stay_so():
    encoder = Encoder()
    assert Decoder({})(encoder(SHO(quality=3.0), "here")).unset == ("period",)


def test_what_cannot_be_saved_is_named(path):
    gp = copy.copy(fitted(line)[0])
    gp.memory_limit = object()
    with pytest.raises(TypeError, match="memory_limit is <object"):
        gp.save(path)

    class Mine(Matern32):
        pass

    gp = GPRegressor(Mine(), num_basis=20).partial_fit([0.0, 1.0, 2.0], [0.0, 1.0, 0.0])
    with pytest.raises(TypeError, match="Mine, which a model file cannot hold"):
        gp.save(path)
    assert not path.exists()


def test_kernels_have_no_field_that_is_not_saved():
    """Kernels are encoded by their fields: whatever else they kept would be lost."""
    for kind in PROCESSES:
        assert issubclass(kind, Component)
        names = set(vars(kind(1.0, dim=0)))
        assert names == {field.name for field in fields(kind)}
        assert names >= {*kind.parameters, *kind.scales, "dim", "fixed", "bounds"}


@dataclass(frozen=True)
class Heavy(Gaussian):
    """A likelihood that a model file does not know."""


@pytest.mark.parametrize("stale", [False, True])
def test_other_likelihoods_are_refused_rather_than_saved_as_gaussian(stale, path):
    gp = GPRegressor(Matern32(), num_basis=20).fit(np.arange(50.0), np.sin(np.arange(50.0)))
    gp._fit_now = replace(gp._fit_now, likelihood=Heavy(0.1))
    if stale:
        gp.partial_fit([25.5], [0.0])
        assert "_fit_now" not in vars(gp)
    with pytest.raises(TypeError, match="only, not Heavy"):
        gp.save(path)
    assert not path.exists()
