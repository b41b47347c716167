"""What models say of rows that a likelihood cannot have, and of data that say little."""

import warnings

import numpy as np
import pytest

from asvgp import (
    Bernoulli,
    Binomial,
    Constant,
    Exponential,
    Gamma,
    GPRegressor,
    Linear,
    Matern32,
    Ordinal,
    Poisson,
)

N = 60
X = np.arange(float(N))
KERNEL = Matern32(9.0) + Constant()


def fit(family, y, x=X, kernel=KERNEL, **given):
    return GPRegressor(kernel, num_basis=12, likelihood=family).fit(x, y, **given)


@pytest.mark.parametrize("x", [X, np.column_stack([X, X % 7.0])], ids=["one input", "two"])
@pytest.mark.parametrize(
    ("family", "y", "beside", "message"),
    [
        (Poisson(), -2.0, {}, "non-negative counts, but 2 of 60 rows do not: -2 in row 8, -2 in"),
        (Gamma(), 0.0, {}, "positive numbers, but 2 of 60 rows do not: 0 in row 8, 0 in row 41"),
        (Poisson(), 1.0, {"exposure": 0.0}, "2 of 60 rows do not: 0 in row 8, 0 in row 41"),
        (Exponential(), 1.0, {"event": 0.5}, "2 of 60 rows do not: 0.5 in row 8, 0.5 in row 41"),
        (Poisson(), 1.0, {"offset": np.inf}, "2 of 60 rows do not: inf in row 8, inf in row 41"),
    ],
)
def test_rows_are_numbered_as_they_came(family, y, beside, message, x):
    weight, bad = np.ones(N), [8, 41]
    weight[[0, 3, 20]] = 0.0
    counts, given = np.ones(N), {name: np.ones(N) for name in beside}
    counts[bad] = y
    for name, value in beside.items():
        given[name][bad] = value
    counts[3] = np.inf  # of a row that is not there
    model = GPRegressor(None if x.ndim == 2 else KERNEL, likelihood=family)
    with pytest.raises(ValueError, match=message):
        model.fit(x, counts, sample_weight=weight, **given)


def test_trials_are_asked_for_where_they_belong():
    with pytest.raises(ValueError, match=r"Binomial needs trials.*trials=10"):
        fit(Binomial(), X % 3.0)
    with pytest.raises(ValueError, match=r"belong to the rows.*fit\(X, y, trials=10\)"):
        Binomial(10)
    with pytest.raises(
        ValueError, match="as there are trials, but 1 of 60 rows does not: 9 in row"
    ):
        fit(Binomial(), np.where(X == 5.0, 9.0, 1.0), trials=8)
    assert fit(Binomial(), X % 2.0).predict([3.0]) == pytest.approx(0.5, abs=0.1)  # one trial each


@pytest.mark.parametrize("family", [Bernoulli(), Ordinal(2)], ids=repr)
@pytest.mark.parametrize("labels", [["no", "yes"], ["0", "1"]])
def test_labels_of_classes_are_for_the_classifier(family, labels):
    with pytest.raises(ValueError, match=f"'{labels[0]}' is none.*GPClassifier"):
        fit(family, np.array(labels)[(X > 30.0).astype(int)])


def test_no_counts_say_nothing_of_their_scatter():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # all y are alike
        found = fit(Poisson(), np.zeros(N)).optimization_.findings
    assert len(found) == 1
    assert "all counts are zero" in found[0]


@pytest.mark.filterwarnings("ignore:The Gaussian approximation of the likelihood still changed")
def test_large_counts_are_told_of_no_noise():
    counts = np.random.default_rng(0).poisson(1e10 * np.exp(0.1 * X)).astype(float)
    gp = fit(Poisson(), counts, kernel=Matern32(9.0) + Constant() + Linear())
    assert not any("noise" in note for note in gp.optimization_.notes)
