"""scikit-learn's own checks."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from asvgp import LBFGS, GPRegressor

# Checks that contradict what we promise.
EXPECTED = {
    "check_fit1d": "X of shape (n,) is welcome here",
}

# The checks are about what an estimator takes and returns. They fit eighty times, for which three
# iterations of training are as good as the default of two hundred.
QUICK = GPRegressor(optimizer=LBFGS(max_iterations=3))


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([QUICK], expected_failed_checks=lambda _: EXPECTED)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
