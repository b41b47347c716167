"""Targets that are words get an answer that says what to use instead."""

import numpy as np
import pandas as pd
import pytest

from asvgp import GPRegressor, Poisson

X = np.linspace(0.0, 1.0, 6)
WORDS = ["land", "sea", "land", "land", "sea", "sea"]


@pytest.mark.parametrize("y", [WORDS, np.array(WORDS), np.array(WORDS, object), pd.Series(WORDS)])
def test_words_are_for_the_classifier(y):
    with pytest.raises(
        ValueError, match=r"'land' is none\. For labels of classes use GPClassifier"
    ):
        GPRegressor().fit(X, y)


def test_a_series_alone_is_told_how_to_be_fitted():
    with pytest.raises(ValueError, match=r"fit\(s\.index, s\)"):
        GPRegressor().fit(pd.Series(X))


def test_a_likelihood_is_an_instance():
    with pytest.raises(TypeError, match=r"an instance such as Poisson\(\), not Poisson"):
        GPRegressor(likelihood=Poisson).fit(X, np.round(X))
