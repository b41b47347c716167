"""Kernels and estimators show their arguments, and say which one is wrong."""

import pickle
from abc import ABC
from inspect import getdoc, signature

import numpy as np
import pytest
from sklearn.base import RegressorMixin, clone

from asvgp import (
    SHO,
    Constant,
    CoxProcess,
    GPClassifier,
    GPRegressor,
    Linear,
    Matern,
    Matern12,
    Matern52,
    Periodic,
)


@pytest.mark.parametrize("kernel", [Matern12, Matern52, Matern, Periodic, SHO])
def test_the_signature_lists_what_a_kernel_takes(kernel):
    names = list(signature(kernel).parameters)
    assert {"variance", "dim", "fixed", "bounds"} < set(names)
    assert not {"args", "settings"} & set(names)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Matern52(length_scale=2.0),
        lambda: Matern(2, length_scale=2.0, dim=(0, 1)),
        lambda: Periodic(period=1.0, lengthscal=2.0),
    ],
)
def test_an_argument_that_is_nearly_right_is_named(make):
    with pytest.raises(TypeError, match="Did you mean 'lengthscale'"):
        make()


def test_arguments_that_are_missing_or_too_many_are_named():
    with pytest.raises(TypeError, match="Matern: missing a required argument: 'nu'"):
        Matern()  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="Matern52: too many positional arguments") as error:
        Matern52(1.0, 2.0, 0, 4.0)  # pyright: ignore[reportCallIssue]
    assert "Only lengthscale, variance and dim may be given by position; give" in str(error.value)
    with pytest.raises(TypeError, match="Constant has no argument 'value'; it has variance"):
        Constant(value=2.0)  # pyright: ignore[reportCallIssue]
    assert signature(Linear).parameters.keys() == {"dim", "variance"}


@pytest.mark.parametrize("estimator", [GPRegressor, GPClassifier, CoxProcess])
def test_estimators_name_wrong_arguments_and_stay_as_scikit_learn_wants_them(estimator):
    name = estimator.__name__
    with pytest.raises(TypeError, match=rf"{name} has no argument 'n_basis'.*Did you mean 'num_b"):
        estimator(n_basis=30)
    with pytest.raises(TypeError, match=f"{name}: too many positional arguments") as error:
        estimator(None, 30)
    assert "Only kernel may be given by position; give the others by name: " in str(error.value)
    names = [name for name in signature(estimator.__init__).parameters if name != "self"]
    assert names == list(signature(estimator).parameters)
    assert clone(estimator(num_basis=7)).get_params().keys() == set(names)


def test_errors_of_a_subclass_with_arguments_of_its_own_are_left_alone():
    class Own(GPRegressor, ABC):
        def __init__(self, **settings):
            super().__init__(**settings)

    assert Own(num_basis=7).num_basis == 7
    with pytest.raises(TypeError, match="unexpected keyword argument 'n_basis'"):
        Own(n_basis=7)


@pytest.mark.parametrize(
    ("estimator", "method", "wrong", "meant"),
    [
        (GPRegressor, "fit", "weights", "sample_weight"),
        (GPRegressor, "fit", "noise_varianc", "noise_variance"),
        (GPRegressor, "partial_fit", "sample_weights", "sample_weight"),
        (GPRegressor, "predict", "std", "return_std"),
        (GPRegressor, "forecast", "levels", "level"),
        (GPRegressor, "sample_y", "samples", "n_samples"),
        (GPRegressor, "integrate", "std", "return_std"),
        (GPRegressor, "predict_quantiles", "quantile", "quantiles"),
        (GPRegressor, "save", "Full", "full"),
        (GPClassifier, "fit", "weights", "sample_weight"),
        (GPClassifier, "predict_proba", "offsets", "offset"),
        (GPClassifier, "score", "weight", "sample_weight"),
        (CoxProcess, "intensity", "std", "return_std"),
        (CoxProcess, "expected_count", "noise", "include_noise"),
    ],
)
def test_methods_name_wrong_arguments(estimator, method, wrong, meant):
    called = getattr(estimator(), method)
    begins = rf"{estimator.__name__}\.{method} has no argument '{wrong}'; it has "
    with pytest.raises(TypeError, match=rf"{begins}.*Did you mean '{meant}'\?"):
        called(**{wrong: 1})


def test_methods_name_arguments_that_are_missing_or_too_many():
    with pytest.raises(TypeError, match=r"^GPRegressor\.predict: missing a required argument: 'X'"):
        GPRegressor().predict()  # pyright: ignore[reportCallIssue]
    with pytest.raises(
        TypeError, match=r"^CoxProcess\.summary: too many positional arguments; it h"
    ):
        CoxProcess().summary(1)  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match=r"^GPClassifier\.predict: too many .* Only X may be given"):
        GPClassifier().predict([0.0], [0.0])  # pyright: ignore[reportCallIssue]


def test_other_errors_of_type_are_left_alone_and_methods_look_as_they_are_written():
    with pytest.raises(TypeError, match="X holds durations"):
        GPRegressor().fit(np.arange(3).astype("m8[s]"), np.zeros(3))
    parameters = [*signature(GPRegressor.fit).parameters]
    assert parameters[:4] == ["self", "X", "y", "sample_weight"]
    assert GPRegressor.predict.__name__ == "predict"
    assert str(getdoc(GPRegressor.predict)).startswith("Predict")
    assert signature(GPRegressor.score).parameters.keys() > {"X", "y"}
    assert GPRegressor.score is not RegressorMixin.score
    assert pickle.loads(pickle.dumps(GPRegressor().fit))  # a method of an estimator


def test_methods_of_a_subclass_with_arguments_of_their_own_are_left_alone():
    class Own(GPRegressor, ABC):
        def fit(self, X, y=None, **others):  # pyright: ignore[reportIncompatibleMethodOverride]
            return super().fit(X, y, **others)

    with pytest.raises(TypeError, match=r"^Own\.fit has no argument 'weights'"):
        Own().fit([0.0, 1.0], [0.0, 1.0], weights=1)
    assert [*signature(Own.fit).parameters] == ["self", "X", "y", "others"]
    assert Own.predict is GPRegressor.predict
