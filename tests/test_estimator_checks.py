"""scikit-learn's own checks, as far as one input goes."""

import numpy as np
import pytest
from sklearn.utils import estimator_checks

from asvgp import GPRegressor

# Checks that bring several columns of their own, or that contradict what we promise.
EXPECTED = {
    "check_n_features_in_after_fitting": "needs several columns",
    "check_sample_weights_shape": "needs several columns",
    "check_sample_weights_not_overwritten": "needs several columns",
    "check_sample_weight_equivalence_on_dense_data": "needs several columns",
    "check_estimators_nan_inf": "needs several columns",
    "check_fit1d": "X of shape (n,) is welcome here",
    "check_fit2d_predict1d": "X of shape (n,) is welcome here",
}


def one_column(estimator, X, kernel=None):
    """The first column of a check's data, the shape kept."""
    return np.asarray(X)[:, :1]


@pytest.fixture
def one_input(monkeypatch):
    """Let scikit-learn's checks use the first column of their data."""
    monkeypatch.setattr(estimator_checks, "_enforce_estimator_tags_X", one_column)


@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks(one_input):
    results = estimator_checks.check_estimator(
        GPRegressor(), expected_failed_checks=EXPECTED, on_fail=None, on_skip=None
    )
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert failed == {}
    passed = [r["check_name"] for r in results if r["status"] == "passed"]
    assert len(passed) >= 45
    # The list above must not outlive its reasons.
    unneeded = {r["check_name"] for r in results if r["status"] == "xfail"} ^ set(EXPECTED)
    assert unneeded == set()
