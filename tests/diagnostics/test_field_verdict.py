"""Whether a field's basis is large enough: advice that can be followed, and when it is given."""

from __future__ import annotations

import ast
import pickle
import re
import warnings

import numpy as np
import pytest

from asvgp import SHO, GPRegressor, Matern12, Matern32, Matern72
from asvgp.diagnostics.verdict import BasisVerdict
from asvgp.model.conditioning import rougher
from asvgp.model.grid import GridEngine

FIXED = {"optimizer": None}


def rough(count: int = 300):
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (count, 2))
    return X, np.sin(25 * X[:, 0]) * np.cos(20 * X[:, 1]) + 0.03 * rng.standard_normal(count)


def verdict(gp: GPRegressor) -> BasisVerdict:
    return gp._fit_data().structure.facts(gp.posterior_, gp.objective, gp.stats_).verdict


def advised(text: str) -> tuple[int, ...]:
    found = re.search(r"num_basis=(\([\d, ]+\))", text)
    assert found is not None, text
    return ast.literal_eval(found[1])


def regained(text: str) -> float:
    found = re.search(r"would regain about ([\d.]+)", text)
    assert found is not None, text
    return float(found[1].rstrip("."))


@pytest.fixture(scope="module")
def short():
    """A rough surface on the finest automatic cells, and what was said."""
    X, y = rough()
    kernel = Matern32(0.1, dim=0) * Matern32(0.1, dim=1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        gp = GPRegressor(kernel, noise_variance=1e-3, **FIXED).fit(X, y)
    return gp, [str(warning.message) for warning in said]


def again(gp: GPRegressor, num_basis) -> GPRegressor:
    """The same model on other splines; a warning would be an error."""
    settings = {"noise_variance": gp.noise_variance_, "num_basis": num_basis, **FIXED}
    return GPRegressor(gp.kernel_, **settings).fit(*rough())


def test_an_automatic_grid_that_ends_too_coarse_is_announced_once(short):
    gp, said = short
    assert gp.posterior_.plan.grids == gp.stats_.grids
    (text,) = said
    assert f"automatic resolution stopped at {gp.num_basis_} basis functions" in text
    finer = again(gp, advised(text))
    # Finer splines also lower the bound's penalty for fitting with them: at least so much.
    assert finer.elbo_ - gp.elbo_ > 0.9 * regained(text) * len(rough()[1])
    lost = verdict(gp).penalty - verdict(finer).penalty
    assert lost == pytest.approx(regained(text), rel=0.2)


@pytest.mark.parametrize(
    "process, words",
    [
        (Matern72(), "as Matern52 in place of Matern72"),
        (Matern12(), ""),
        (SHO(), ""),
    ],
)
def test_rougher_kernels_are_of_the_same_family(process, words):
    assert rougher(process) == words


def test_nothing_is_announced_where_the_basis_is_enough():
    X, y = rough(1000)
    y += 0.3 * np.random.default_rng(1).standard_normal(len(y))
    gp = GPRegressor(Matern32()).fit(X, y)  # a warning would be an error
    assert not gp.optimization_.notes
    assert verdict(gp).penalty < 0.05


def test_evidence_does_not_pay_for_what_is_missed(short):
    gp, _ = short
    settings = {"noise_variance": gp.noise_variance_, "objective": "evidence", **FIXED}
    gp = GPRegressor(gp.kernel_, **settings).fit(*rough())  # a warning would be an error
    assert verdict(gp).penalty > 0.05


def test_coarse_splines_that_were_asked_for_are_not_announced(short):
    gp, _ = short
    assert str(verdict(again(gp, 20))).startswith("no")


def test_fields_without_noise_are_told_of_wide_deviations():
    x = np.random.default_rng(3).uniform(0, 1, (1500, 2))
    y = np.sin(5 * x[:, 0]) * np.cos(4 * x[:, 1])
    with pytest.warns(
        UserWarning, match="lowers the bound by .* nats per datum and widens standard"
    ):
        GPRegressor(Matern32()).fit(x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GPRegressor(Matern32()).fit(x, y + 0.1 * np.random.default_rng(4).standard_normal(1500))


def test_a_second_summary_factors_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(400, 2))
    y = np.sin(5.0 * x[:, 0]) * np.cos(4.0 * x[:, 1]) + 0.1 * rng.standard_normal(400)
    gp = GPRegressor(Matern32(dim=0) * Matern32(dim=1), num_basis=12).fit(x, y)
    work = {"factor": 0, "solve": 0}

    def counted(name):
        plain = getattr(GridEngine, name)

        def call(*arguments, **options):
            work[name] += 1
            return plain(*arguments, **options)

        return call

    for name in work:
        monkeypatch.setattr(GridEngine, name, counted(name))
    first = gp.summary()
    free = len(gp.kernel_.parameters) + 1
    # Two beside the maximum for every hyperparameter, where the posterior has the factor; and
    # one for the upper bound. Means are refined at least once.
    assert work["factor"] == 2 * free + 1
    done = dict(work)
    again = gp.summary()
    assert work == done
    assert again.as_dict() == first.as_dict()
    copied = pickle.loads(pickle.dumps(gp))
    assert copied.summary().as_dict() == first.as_dict()
    assert gp.fit(x, y + x[:, 0]).summary().hyperparameters != first.hyperparameters
    before = work["factor"]
    gp.set_params(objective="evidence").summary()  # other gradients than the fit's
    assert work["factor"] == before + 2 * free


def test_a_summary_says_whose_functions_it_counts():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(200, 2))
    y = np.sin(5.0 * x[:, 0]) + x[:, 1] + 0.1 * rng.standard_normal(200)
    grid, along = Matern32(dim=0) * Matern32(dim=1), (Matern32(dim=0), Matern32(dim=1))
    settings = {"num_basis": 9, "noise_variance": 0.01} | FIXED
    for kernel, words in (
        (grid, "9 x 9  "),
        (grid + Matern32(2.0, dim=0), "9 x 9, finest term  "),
        (along[0] + along[1], "9, 9 (one input each)  "),
    ):
        text = str(GPRegressor(kernel, **settings).fit(x, y).summary())
        assert f"Basis functions   {words}" in text, text
        assert "a cautious bound: the next lines say what the splines cost" in " ".join(
            text.split()
        )
