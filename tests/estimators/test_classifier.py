"""Classification: scikit-learn's conventions, and the regressor beneath."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from asvgp import (
    LBFGS,
    Bernoulli,
    Constant,
    GPClassifier,
    GPRegressor,
    Matern32,
    Matern52,
    Periodic,
)

RNG = np.random.default_rng(5)
X = np.sort(RNG.uniform(0.0, 10.0, 400))
CODES = (RNG.random(400) < expit(3.0 * np.sin(X))).astype(int)
LABELS = np.array(["dry", "wet"])[CODES]
KERNEL = Matern52(1.5, 4.0) + Constant()
FIXED = {"num_basis": 20, "optimizer": None}


def test_it_is_a_regressor_with_a_bernoulli_likelihood():
    gp = GPClassifier(KERNEL, num_basis=20).fit(X, LABELS)
    inner = GPRegressor(KERNEL, num_basis=20, likelihood=Bernoulli()).fit(X, CODES)
    new = np.linspace(-1.0, 11.0, 30)
    assert gp.regressor_.elbo_ == inner.elbo_
    np.testing.assert_array_equal(gp.predict_proba(new)[:, 1], inner.predict(new))
    np.testing.assert_allclose(gp.decision_function(new), logit(inner.predict(new)))
    np.testing.assert_array_equal(gp.predict(new), np.where(inner.predict(new) > 0.5, "wet", "dry"))
    np.testing.assert_allclose(np.exp(gp.predict_log_proba(new)).sum(axis=1), 1.0)
    truth = np.where(np.sin(X) > 0, "wet", "dry")
    assert gp.score(X, truth) > 0.95
    assert gp.score(X, LABELS) == np.mean(gp.predict(X) == LABELS)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_exchanging_the_classes_exchanges_the_probabilities(link):
    one = GPClassifier(KERNEL, link=link, **FIXED).fit(X, CODES)
    other = GPClassifier(KERNEL, link=link, **FIXED).fit(X, 1 - CODES)
    new = np.linspace(0.0, 10.0, 30)
    np.testing.assert_allclose(one.predict_proba(new)[:, ::-1], other.predict_proba(new), atol=1e-6)
    np.testing.assert_allclose(one.decision_function(new), -other.decision_function(new), atol=1e-4)


@pytest.mark.parametrize(
    "labels",
    [CODES.astype(bool), CODES * 7 - 3, LABELS.astype(object), CODES + 1.0],
    ids=["bool", "int", "object", "float"],
)
def test_labels_of_all_kinds(labels):
    gp = GPClassifier(KERNEL, **FIXED).fit(X, labels)
    ours = GPClassifier(KERNEL, **FIXED).fit(X, LABELS)
    np.testing.assert_array_equal(gp.predict_proba(X), ours.predict_proba(X))
    np.testing.assert_array_equal(gp.classes_, np.unique(labels))
    np.testing.assert_array_equal(
        gp.predict(X), gp.classes_[np.searchsorted(ours.classes_, ours.predict(X))]
    )


def test_weights_say_how_often_a_row_is_there():
    weight = RNG.integers(0, 3, len(X))
    weighed = GPClassifier(KERNEL, **FIXED, domain=(0, 10)).fit(X, LABELS, weight)
    repeated = GPClassifier(KERNEL, **FIXED, domain=(0, 10)).fit(
        np.repeat(X, weight), np.repeat(LABELS, weight)
    )
    np.testing.assert_allclose(weighed.predict_proba(X), repeated.predict_proba(X), atol=1e-7)


def test_a_column_of_labels_is_a_vector_with_a_warning():
    ours = GPClassifier(KERNEL, **FIXED).fit(X, LABELS)
    with pytest.warns(DataConversionWarning, match="column-vector"):
        gp = GPClassifier(KERNEL, **FIXED).fit(X, LABELS[:, None])
    np.testing.assert_array_equal(gp.predict_proba(X), ours.predict_proba(X))


def test_missing_labels_are_left_out():
    known = RNG.random(len(X)) < 0.7
    wanted = GPClassifier(KERNEL, **FIXED, domain=(0, 10)).fit(X[known], LABELS[known])
    holes = LABELS.astype(object)
    holes[~known] = None
    numbers = np.where(known, CODES, np.nan)
    for labels in (holes, numbers):
        with pytest.warns(UserWarning, match="missing"):
            gp = GPClassifier(KERNEL, **FIXED, domain=(0, 10)).fit(X, labels)
        assert len(gp.classes_) == 2
        np.testing.assert_allclose(gp.predict_proba(X), wanted.predict_proba(X), atol=1e-9)


def three_classes():
    f = np.stack([3.0 * np.sin(X), 3.0 * np.cos(X), np.zeros(len(X))], axis=1)
    p = np.exp(f) / np.exp(f).sum(axis=1, keepdims=True)
    drawn = (RNG.random(len(X))[:, None] > np.cumsum(p, axis=1)).sum(axis=1)
    return p, np.array(["c", "a", "b"])[drawn]


def test_several_classes_are_each_against_the_rest():
    p, labels = three_classes()
    gp = GPClassifier(KERNEL, num_basis=20).fit(X, labels)
    shares = [
        GPClassifier(KERNEL, num_basis=20).fit(X, labels == each).predict_proba(X)[:, 1]
        for each in "abc"
    ]
    found, shares = gp.predict_proba(X), np.stack(shares, axis=1)
    np.testing.assert_allclose(found, shares / shares.sum(axis=1, keepdims=True), rtol=1e-12)
    best = np.argmax(found, axis=1)
    np.testing.assert_array_equal(gp.predict(X), np.array(["a", "b", "c"])[best])
    np.testing.assert_array_equal(np.argmax(gp.decision_function(X), axis=1), best)
    assert np.mean(np.abs(found - p[:, [1, 2, 0]])) < 0.05
    with pytest.raises(AttributeError, match="3 classes"):
        _ = gp.regressor_


@pytest.mark.parametrize("labels", [LABELS, three_classes()[1]], ids=["two", "three"])
def test_portions_add_up_to_the_whole(labels):
    domain = {"domain": (0, 10)}
    whole = GPClassifier(KERNEL, **FIXED, **domain).fit(X, labels)
    gp = GPClassifier(KERNEL, **FIXED, **domain)
    for part in (slice(0, 5), slice(5, 200), slice(200, None)):
        gp.partial_fit(X[part], labels[part], classes=np.unique(labels))
    np.testing.assert_allclose(gp.predict_proba(X), whole.predict_proba(X), atol=1e-7)
    with pytest.raises(ValueError, match="not those of the data so far"):
        gp.partial_fit(X, labels, classes=["u", "v"])
    with pytest.raises(ValueError, match="not among the classes"):
        gp.partial_fit(X[:2], ["u", "v"])
    with pytest.raises(ValueError, match="first call"):
        GPClassifier().partial_fit(X, labels)


def test_two_inputs_and_grids():
    axes = np.linspace(0, 1, 20), np.linspace(0, 1, 15)
    land = np.hypot(axes[0][:, None] - 0.5, axes[1] - 0.5) < 0.3
    rows = np.stack([x.ravel() for x in np.meshgrid(*axes, indexing="ij")], axis=1)
    kernel = Matern32(0.3, 20.0, dim=0) * Matern32(0.3, dim=1) + Constant()
    on_grid = GPClassifier(kernel, num_basis=10, optimizer=None).fit(axes, land)
    by_rows = GPClassifier(kernel, num_basis=10, optimizer=None).fit(rows, land.ravel())
    assert on_grid.predict(axes).shape == land.shape
    assert on_grid.predict_proba(axes).shape == (20, 15, 2)
    np.testing.assert_allclose(
        on_grid.predict_proba(axes).reshape(-1, 2), by_rows.predict_proba(rows), atol=1e-6
    )
    assert by_rows.score(rows, land.ravel()) > 0.95


@pytest.mark.parametrize("inputs", [1, 2, 3, 6])
@pytest.mark.filterwarnings("ignore")  # five iterations are few
def test_a_kernel_is_chosen_for_any_number_of_inputs(inputs):
    rows = np.random.default_rng(0).uniform(size=(150, inputs))
    y = rows[:, 0] > 0.5
    gp = GPClassifier(num_basis=6, optimizer=LBFGS(max_iterations=5)).fit(rows, y)
    assert gp.score(rows, y) > 0.85
    assert gp.n_features_in_ == inputs


def test_a_table_of_named_columns_and_of_zeros_and_ones():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": X, "rain": CODES})
    gp = GPClassifier(KERNEL, **FIXED).fit(frame, "rain")
    ours = GPClassifier(KERNEL, **FIXED).fit(frame[["x"]], frame["rain"])
    np.testing.assert_allclose(gp.predict_proba(frame), ours.predict_proba(frame[["x"]]))
    assert gp.classes_.tolist() == [0, 1]
    assert ours.feature_names_in_.tolist() == ["x"]


def test_it_works_in_a_pipeline_and_is_cloned():
    gp = clone(GPClassifier(KERNEL, link="probit", **FIXED))
    assert gp.get_params()["link"] == "probit"
    line = make_pipeline(FunctionTransformer(), gp).fit(X[:, None], LABELS)
    assert line.score(X[:, None], LABELS) > 0.7


def test_what_is_wrong_is_said():
    with pytest.raises(ValueError, match=r"one class only, 'dry'"):
        GPClassifier().fit(X[:3], ["dry"] * 3)
    with pytest.raises(ValueError, match="one class only"):
        GPClassifier().fit(X[:3], [0, 1, 1], sample_weight=[0, 1, 1])
    with pytest.raises(ValueError, match="no class at all"):
        GPClassifier().fit(X[:3], [None] * 3)
    with pytest.raises(ValueError, match=r"[Uu]nknown label type"):
        GPClassifier().fit(X, X)
    with pytest.raises(ValueError, match="sample_weight are zero"):
        GPClassifier().fit(X, LABELS, np.zeros(len(X)))
    with pytest.raises(ValueError, match="infinity"):
        GPClassifier().fit(X[:3], [0.0, 1.0, np.inf])
    with pytest.raises(ValueError, match="link must be"):
        GPClassifier(link="cauchit").fit(X, LABELS)
    with pytest.raises(NotFittedError):
        GPClassifier().predict(X)
    with pytest.raises(ValueError, match="reads the rows again"):
        GPClassifier(link="probit", **FIXED).partial_fit(X, LABELS, classes=["dry", "wet"])
    with pytest.raises(ValueError, match="offset is for two classes"):
        GPClassifier(**FIXED).fit(X, three_classes()[1], offset=X)


def test_labels_and_classes_that_do_not_go_are_refused():
    x = np.arange(30.0)
    with pytest.raises(ValueError, match="at least two labels"):
        GPClassifier().partial_fit(x, x > 100.0, classes=[False])
    with pytest.raises(ValueError, match="inconsistent numbers of samples: 30 and 5"):
        GPClassifier().fit(x, np.ones(5))
    with pytest.raises(TypeError, match="all text or all numbers, and y has 'a' and 1"):
        GPClassifier().fit(x, np.array(["a", 1] * 15, dtype=object))


@pytest.mark.parametrize(
    ("labels", "kind"), [(["a", "b", None], "string"), ([1, 0, None], "Int64")]
)
def test_missing_labels_of_pandas_are_left_out(labels, kind):
    x = np.arange(30.0)
    gp = GPClassifier(Matern32(5.0), num_basis=8, optimizer=None)
    with pytest.warns(UserWarning, match="10 of 30 rows"):
        gp.fit(x, pd.array(labels * 10, dtype=kind))
    assert gp.classes_.tolist() == sorted(labels[:2])


def test_a_season_of_classes_keeps_to_lengths_that_have_digits():
    x = np.arange(300.0)
    y = np.sin(x / 10.0) + 0.1 * np.random.default_rng(0).standard_normal(300)
    gp = GPClassifier().fit(x, y > 0.0)
    assert gp.score(x, y > 0.0) > 0.95
    season = next(part for part in gp.regressor_.kernel_.components if isinstance(part, Periodic))
    assert season.lengthscale <= 2.0 * season.period
