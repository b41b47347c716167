"""scikit-learn's own checks."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from asvgp import LBFGS, Constant, GPClassifier, GPRegressor, Matern12

# Checks that contradict what we promise.
EXPECTED = {
    "check_fit1d": "X of shape (n,) is welcome here, and scikit-learn has no tag that says so",
}

# The checks are about what an estimator takes and returns. They fit eighty times, for which three
# iterations of training are as good as the default of two hundred.
QUICK = GPRegressor(optimizer=LBFGS(max_iterations=3))


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([QUICK], expected_failed_checks=lambda _: EXPECTED)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


# Processes of one input each, on few functions: the checks fit many columns and several classes.
CLASSES = GPClassifier(Matern12() + Constant(), num_basis=4, optimizer=LBFGS(max_iterations=2))
EXPECTED_OF_CLASSES = EXPECTED | {
    "check_n_features_in_after_fitting": (
        "it calls partial_fit with four columns: their model is additive, and no sums suffice"
    ),
}


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([CLASSES], expected_failed_checks=lambda _: EXPECTED_OF_CLASSES)
def test_scikit_learns_checks_of_classifiers(estimator, check):
    check(estimator)
