"""Reports on models with likelihoods that are not Gaussian."""

import warnings

import numpy as np
import pytest

from asvgp import Constant, GPRegressor, Matern32, Poisson
from asvgp.report import write_report
from asvgp.report.checks import FINE, LOOK, NONE, PROBLEM
from asvgp.report.page import compose
from tests.family_models import NAMES, fitted

SUITS = "Does the likelihood suit the data?"
BANDS = "Are the bands as wide as they should be?"
EXPLAINED = "How much does the model explain?"


def answers(report):
    return {finding.question: finding for finding in report.findings}


@pytest.mark.parametrize("name", NAMES)
def test_page_tells_of_every_family(name, tmp_path):
    gp, X, y, beside = fitted(name)
    page = write_report(gp, tmp_path / "page.html", X, y, **beside)
    text = page.read_text(encoding="utf-8")
    assert type(gp.likelihood_).__name__ in text
    assert "none is known for this likelihood" in text
    assert "on the scale of" in text


def test_right_counts_pass_and_scattered_ones_do_not():
    gp, X, y, beside = fitted("poisson")
    found = answers(compose(gp, X, y, None, None, None, None, beside["exposure"]))
    assert found[SUITS].level == found[BANDS].level == found[EXPLAINED].level == FINE
    assert found[EXPLAINED].number == pytest.approx(gp.score(X, y, **beside))
    assert "normal scores" in found[BANDS].answer

    rng = np.random.default_rng(1)
    x = np.linspace(0.0, 10.0, 400)
    wide = rng.poisson(np.exp(2.0 + np.sin(x)) * rng.gamma(1.0, 1.0, 400))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gp = GPRegressor(Matern32(2.0) + Constant(), num_basis=24, likelihood=Poisson()).fit(
            x, wide
        )
    found = answers(compose(gp, x, wide))
    assert found[SUITS].level == LOOK
    assert "NegativeBinomial()" in found[SUITS].answer
    assert found[BANDS].level == PROBLEM
    assert "NegativeBinomial()" in found[BANDS].answer


def test_without_data_residuals_are_not_judged_by_sums_of_sites():
    gp, *_ = fitted("poisson")
    found = answers(compose(gp))
    assert found[BANDS].level == NONE
    assert found[SUITS].level == FINE  # judged when it was fitted


def test_maps_of_probabilities_are_on_the_page():
    gp, X, y, _ = fitted("bernoulli", 2)
    assert "probability" in compose(gp, X, y).text
