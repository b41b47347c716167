"""What the report finds: of rows in any order, of sources too, and for the right reason."""

import re
from functools import cache

import numpy as np
import pandas as pd
import pytest

import asvgp
from asvgp import Constant, GPRegressor, Matern32, Matern52
from asvgp.report import page
from asvgp.report.checks import FINE, LOOK, NONE, PROBLEM, headline
from asvgp.report.page import compose
from tests.plot.pictures import field_model

STRUCTURE = "Is there structure left in the residuals?"
BANDS = "Are the bands as wide as they should be?"


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch):
    """Findings do not depend on pictures, which take most of the time of a page."""
    monkeypatch.setattr(page, "pictures", lambda name, count, size, draw: [])


def too_smooth(kernel, frame, num_basis):
    """A model that misses what the data hold, of a source."""
    gp = GPRegressor(kernel, num_basis=num_basis, noise_variance=0.5, optimizer=None)
    return gp.fit(frame, "y")


@cache
def missed():
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 100.0, 3000)
    line = pd.DataFrame({"x": x, "y": np.sin(3 * x) + 0.1 * rng.standard_normal(3000)})
    places = rng.uniform(0.0, 1.0, (3000, 2))
    wave = np.sin(25 * places[:, 0]) * np.sin(25 * places[:, 1])
    order = np.lexsort(np.round(places * 12).T)
    area = pd.DataFrame({"u": places[:, 0], "v": places[:, 1], "y": 1.5 * wave}).iloc[order]
    bends = np.sin(30 * places[:, 0]) + places[:, 1]
    terms = pd.DataFrame({"u": places[:, 0], "v": places[:, 1], "y": bends}).iloc[order]
    plain = Matern32(50.0, dim="x") + Constant()
    product = Matern32(5.0, dim="u") * Matern32(5.0, dim="v") + Constant()
    sums = Matern52(5.0, dim="u") + Matern52(5.0, dim="v") + Constant()
    return {
        "line": (too_smooth(plain, line, 20), line),
        "map": (too_smooth(product, area, 6), area),
        "additive": (too_smooth(sums, terms, 6), terms),
    }


def found_of(gp, *data):
    return {one.question: one for one in compose(gp, *data).findings}


def number(finding):
    assert finding.number is not None
    return finding.number


@pytest.mark.parametrize("kind", ["line", "map", "additive"])
def test_structure_is_found_in_rows_of_any_order(kind, tmp_path):
    gp, frame = missed()[kind]
    ordered = found_of(gp, frame, "y")[STRUCTURE]
    assert ordered.level == PROBLEM
    assert number(ordered) > 0.5
    shuffled = frame.sample(frac=1.0, random_state=1)
    shuffled.to_csv(tmp_path / "rows.csv", index=False)
    for source in (shuffled, asvgp.scan(tmp_path / "rows.csv")):
        found = found_of(gp, source, "y")[STRUCTURE]
        assert found.level == PROBLEM
        assert found.number == pytest.approx(ordered.number, abs=0.02)
    arrays = found_of(gp, shuffled.drop(columns="y"), shuffled["y"])[STRUCTURE]
    assert arrays.number == pytest.approx(ordered.number, abs=0.02)


@pytest.mark.parametrize("bends", [0.0, 60.0])
def test_structure_along_one_of_many_inputs_is_found(bends):
    """Which nearest neighbours in five inputs are too far apart to share."""
    rng = np.random.default_rng(4)
    X = pd.DataFrame(rng.uniform(0.0, 1.0, (4000, 5)), columns=list("abcde"))
    X["b"] = np.ceil(7 * X["b"])  # days of a week: many rows are equal
    noise = 0.3 * rng.standard_normal(4000)
    y = np.sin(bends * X["c"]) + X["a"] + 0.1 * X["b"] + noise
    variance = 0.59 if bends else 0.09
    gp = GPRegressor(Matern32(), num_basis=8, noise_variance=variance, optimizer=None).fit(X, y)
    found = found_of(gp, X, y)[STRUCTURE]
    if bends:
        assert found.level == PROBLEM
        assert found.number == pytest.approx(0.5 / 0.59, abs=0.05)
        assert "next to each other along c alone it is 0.8" in found.answer
    else:
        assert found.level == FINE
        assert "alone it is" not in found.answer


@pytest.mark.parametrize("with_data", [False, True])
def test_structure_of_any_output_is_found(with_data):
    x = np.linspace(0.0, 100.0, 2000)
    noise = 0.7 * np.random.default_rng(6).standard_normal((2, 2000))
    Y = np.column_stack([noise[0], np.sin(2 * x) + 0.1 * noise[1]])
    gp = GPRegressor(Matern32(50.0), num_basis=300, noise_variance=0.5, optimizer=None).fit(x, Y)
    found = found_of(gp, *((x, Y) if with_data else ()))[STRUCTURE]
    assert found.level == PROBLEM
    assert found.answer.endswith("Output 1 is the worst of 2.")
    assert found_of(gp, x[:1], Y[:1])[STRUCTURE].answer == "There are too few residuals."


def test_neighbours_at_one_place_are_others():
    """Of many observations at few places, none is its own neighbour."""
    rng = np.random.default_rng(3)
    places = rng.uniform(0.0, 1.0, (40, 2))[rng.integers(0, 40, 4000)]
    frame = pd.DataFrame({"u": places[:, 0], "v": places[:, 1], "y": rng.standard_normal(4000)})
    gp = GPRegressor(Matern32(1.0), num_basis=6, noise_variance=1.0, optimizer=None)
    found = found_of(gp.fit(frame, "y"), frame, "y")[STRUCTURE]
    assert abs(number(found)) < 0.03
    assert found.level == FINE


def test_leaving_out_explains_correlations_below_zero():
    """Of a right model with little noise, and as far as its degrees of freedom go."""
    rng = np.random.default_rng(1)
    x = np.linspace(0.0, 150.0, 1500)
    kernel = Matern32(1.0)
    f = np.linalg.cholesky(kernel(x) + 1e-10 * np.eye(1500)) @ rng.standard_normal(1500)
    y = f + 0.02 * rng.standard_normal(1500)
    gp = GPRegressor(kernel, num_basis=3000, noise_variance=0.0004, optimizer=None).fit(x, y)
    found = found_of(gp, x, y)[STRUCTURE]
    assert number(found) < -0.4
    assert found.level == FINE
    assert "since each is predicted with the help of the other" in found.answer
    each = gp.summary().degrees_of_freedom / 1500
    assert f"{each:.2g} degrees of freedom per observation" in found.answer
    # What the inverse of the covariance says, which is exact.
    precision = np.linalg.inv(kernel(x) + 0.0004 * np.eye(1500))
    scale = np.sqrt(np.diag(precision))
    expected = float(np.mean(np.diag(precision, 1) / (scale[1:] * scale[:-1])))
    assert found.number == pytest.approx(expected, abs=0.06)
    assert -each / (1.0 - each) < expected


def test_errors_that_alternate_are_not_explained_by_leaving_out():
    x = np.linspace(0.0, 10.0, 2000)
    rng = np.random.default_rng(2)
    y = np.sin(x) + 0.1 * (-1.0) ** np.arange(2000) + 0.05 * rng.standard_normal(2000)
    gp = GPRegressor(Matern52(2.0), num_basis=40, noise_variance=0.0125, optimizer=None).fit(x, y)
    found = found_of(gp, x, y)[STRUCTURE]
    assert number(found) < -0.6
    assert found.level == LOOK
    assert "errors of neighbours alternate" in found.answer


def test_heavy_tails_are_not_called_too_much_noise():
    x = np.linspace(0.0, 10.0, 20_000)
    rng = np.random.default_rng(5)
    y = np.sin(x) + 0.2 * rng.standard_t(3, 20_000)
    gp = GPRegressor(Matern52(2.0), num_basis=40, noise_variance=0.14, optimizer=None).fit(x, y)
    bands = found_of(gp, x, y)[BANDS]
    assert bands.level >= LOOK
    assert bands.answer.startswith("Residuals have heavy tails: the 50% band covers")
    assert "noise too large" not in bands.answer
    assert np.var(gp.leave_one_out(x, y).z) < 0.95  # which alone says that the noise is too large


# ------------------------------------------------------------ all questions


def judged(gp, *data):
    found = compose(gp, *data).findings
    assert [f.level for f in found] == sorted((f.level for f in found), reverse=True)
    return {f.question: f for f in found}, headline(found)


def test_a_right_model_has_nothing_against_it():
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 10.0, 2000)
    y = np.sin(3 * x) + 0.1 * rng.standard_normal(2000)
    gp = GPRegressor(Matern52()).fit(x, y)
    for data in ((x, y), ()):
        found, words = judged(gp, *data)
        bad = [f.question for f in found.values() if f.level > FINE]
        assert bad in ([], ["Do the data determine the hyperparameters?"])
        assert words.startswith("Nothing" if not bad else "1 thing to look at")


def test_what_is_wrong_is_said_worst_first():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 50.0, 5000))
    y = np.sin(20 * x) + 0.1 * rng.standard_normal(5000)
    gp = GPRegressor(Matern32(0.3), num_basis=60, noise_variance=0.001, optimizer=None).fit(x, y)
    found, words = judged(gp, x, y)
    assert found["Are the bands as wide as they should be?"].level >= LOOK
    assert found["Is there structure left in the residuals?"].level == PROBLEM
    assert found["Is the basis large enough?"].level == PROBLEM
    assert found["Do the knots resolve the kernel?"].level == PROBLEM
    assert "3 problems and" in words
    assert "Problem" in {f.word for f in found.values()}


@pytest.mark.parametrize("with_data", [False, True])
def test_bands_too_narrow_are_a_problem(with_data):
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 10.0, 2000)
    y = np.sin(x) + 0.3 * rng.standard_normal(2000)
    gp = GPRegressor(Matern52(2.0), num_basis=50, noise_variance=0.01, optimizer=None).fit(x, y)
    found, _ = judged(gp, *((x, y) if with_data else ()))
    bands = found["Are the bands as wide as they should be?"]
    assert bands.level == PROBLEM
    assert "larger than predicted" in bands.answer
    assert ("cell means" in bands.answer) == (not with_data)


def test_missing_data_gaps_and_bad_training_are_said():
    x = np.concatenate([np.linspace(0.0, 10.0, 300), np.linspace(40.0, 50.0, 300)])
    y = np.sin(x)
    y[:150] = np.nan
    gp = GPRegressor(Matern32(2.0), num_basis=200, noise_variance=0.01, optimizer=None)
    with pytest.warns(UserWarning, match="150 of 600"):
        gp.fit(x, y)
    found, _ = judged(gp)
    missing = found["Are data missing?"]
    assert missing.level == LOOK
    assert "150 of 600 rows (25 %)" in missing.answer
    gap = found["Is there a stretch without information?"]
    assert gap.level == LOOK
    assert re.search(r"from 1\d\.\d\d to 3\d\.\d\d", gap.answer)
    gp._fitted().report.converged = False
    gp.optimizer = "lbfgs"
    assert judged(gp)[0]["Did training end well?"].level == PROBLEM


def test_of_fields_without_data_residuals_are_not_judged():
    gp, X, y = field_model()
    assert judged(gp)[0]["Are the bands as wide as they should be?"].level == NONE
    assert judged(gp, X, y)[0]["Are the bands as wide as they should be?"].level >= LOOK
    assert ">Not checked</span>" in compose(gp).text


@pytest.mark.parametrize(("settings", "told"), [({}, True), ({"transform": "sqrt"}, False)])
def test_bands_of_positive_data_below_zero_are_told(settings, told):
    question = "Are the bands where observations can be?"
    x = np.linspace(0.0, 10.0, 400)
    y = (0.2 + np.sin(x) ** 2) * np.random.default_rng(0).gamma(2.0, 0.5, 400)
    gp = GPRegressor(Matern32(1.0) + Constant(), num_basis=30, **settings).fit(x, y)
    found = found_of(gp, x, y)
    assert (question in found) == told
    assert ("intervals extend below zero" in " ".join(str(gp.summary()).split())) == told
    assert (question in judged(gp)[0]) == told
    if told:
        assert found[question].level == LOOK
        assert "transform" in found[question].answer
    if told:  # transforms do not take zeros
        zeros = GPRegressor(gp.kernel, num_basis=30).fit(x, np.round(y))
        assert "likelihood=Poisson()" in " ".join(str(zeros.summary()).split())
        assert "likelihood=Poisson()" in found_of(zeros, x, np.round(y))[question].answer
    below = GPRegressor(gp.kernel, num_basis=30).fit(x, y - 0.5)
    assert question not in found_of(below, x, y - 0.5)
    assert "Please check" not in str(below.summary())


def test_codes_and_missing_rows_are_both_told():
    x = np.arange(400.0)
    y = 20.0 + 5.0 * np.sin(x / 20.0) + np.random.default_rng(0).standard_normal(400)
    y[5:9], y[100:110] = -200.0, np.nan
    gp = GPRegressor(Matern32(30.0), num_basis=30, noise_variance=1.0, optimizer=None)
    with pytest.warns(match="10 of 400 rows"), pytest.warns(match="are -200"):
        gp.fit(x, y)
    missing = judged(gp)[0]["Are data missing?"]
    assert missing.level == LOOK
    assert missing.answer.startswith("4 of 400 values of y are -200, and all others are between")
    assert missing.answer.endswith(", y). 10 of 400 rows (2.5 %) had no value and were left out.")
    present = ~np.isnan(y)
    with pytest.warns(UserWarning, match="are -200"):
        gp.fit(x[present], y[present])
    assert judged(gp)[0]["Are data missing?"].answer.endswith("np.where(y == -200, np.nan, y).")
