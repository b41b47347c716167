"""scikit-learn's own checks."""

import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from asvgp import LBFGS, Constant, GPClassifier, GPRegressor, Matern12

# `check_fit1d` wants X of shape (n,) to be refused, and here such X are one column. No tag takes
# that back. Only `no_validation`, "meant for stateless and dummy transformers", leaves the check
# out, and those of the number of columns with it. `input_tags.one_d_array` would be true, but to
# the checks it means that X can have no other shape: 19 of 60 fail with it (scikit-learn 1.9.1), as
# they hand over X[:, 0] and then read X[:, 0] or X.shape[1] of that, and `check_fit1d` is made all
# the same.
EXPECTED = {"check_fit1d": "X of shape (n,) is one column, and no tag of scikit-learn's says so"}

# The checks are about what an estimator takes and returns. They fit eighty times, for which three
# iterations of training are as good as the default of two hundred.
QUICK = GPRegressor(optimizer=LBFGS(max_iterations=3))


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([QUICK], expected_failed_checks=lambda _: EXPECTED)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


# Processes of one input each, on few functions: the checks fit many columns and several classes.
CLASSES = GPClassifier(Matern12() + Constant(), num_basis=4, optimizer=LBFGS(max_iterations=2))
# Labels of such a sum cannot be added by `partial_fit`, which says so. One check adds some of four
# columns, for which their sums suffice where the processes are multiplied.
PRODUCT = Matern12(dim=0) * Matern12(dim=1) * Matern12(dim=2) * Matern12(dim=3)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([CLASSES], expected_failed_checks=lambda _: EXPECTED)
def test_scikit_learns_checks_of_classifiers(estimator, check):
    if check.func.__name__ == "check_n_features_in_after_fitting":
        estimator = clone(estimator).set_params(kernel=PRODUCT)
    check(estimator)
