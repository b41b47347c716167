"""The default degree of the splines: one more than the smallest, but for Matérn-1/2."""

from pathlib import Path

import numpy as np
import pytest

import asvgp
from asvgp import SHO, GPRegressor, Matern12, Matern32, Matern52, Matern72
from asvgp.basis import Grid
from asvgp.model.axis import Axis
from asvgp.training.finest import halved
from tests.dense import sample

FILES = Path(__file__).parents[1] / "files"
MATERNS = Matern12, Matern32, Matern52, Matern72
FIXED = {"noise_variance": 0.01, "optimizer": None, "progress": False}


def waves(columns=1, rows=300):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(rows, columns))
    y = np.sin(7.0 * X).sum(axis=1) + 0.1 * rng.standard_normal(rows)
    return (X[:, 0] if columns == 1 else X), y


def degrees(kernel, columns=1, **settings):
    settings = {"num_basis": 9, **FIXED, **settings}
    return GPRegressor(kernel, **settings).fit(*waves(columns)).summary().degrees


@pytest.mark.parametrize("family, degree", [*zip(MATERNS, (1, 3, 4, 5), strict=True)])
def test_the_default_follows_the_kernel_on_lines_and_fields(family, degree):
    assert degrees(family(0.5)) == (degree,)
    assert degrees(family(0.5), columns=2) == (degree, degree)  # a product
    assert degrees(family(0.5, dim=0) + family(0.5, dim=1), columns=2) == (degree, degree)


def test_every_component_has_its_own():
    assert degrees(Matern12(0.5) + Matern52(0.5) + SHO(0.3)) == (1, 4, 3)
    assert degrees(Matern12(0.5, dim=0) * Matern32(0.5, dim=1), columns=2) == (1, 3)


def test_a_given_degree_is_kept():
    assert degrees(Matern12(0.5) + Matern32(0.5), degree=2) == (2, 2)
    assert degrees(Matern32(0.5), columns=2, degree=2) == (2, 2)


def missed(family, degree, num_basis):
    gp = GPRegressor(family(0.25), num_basis=num_basis, degree=degree, **FIXED).fit(*waves())
    return gp.resolution_[-1].missed_share


@pytest.mark.parametrize("family, gain", [*zip(MATERNS, (1.0, 8.0, 40.0, 80.0), strict=True)])
def test_the_default_misses_far_less_with_as_many_functions(family, gain):
    """Eight functions per lengthscale; a further degree is worth much less than this one."""
    smallest, default = family().order + 1, family().default_degree
    shares = {k: missed(family, k, 32 + smallest) for k in {smallest, default, default + 1}}
    assert shares[default] <= shares[smallest] / gain
    assert shares[default + 1] > 0.5 * shares[default] / gain**0.5


@pytest.mark.parametrize("family, rates", [(Matern32, (2, 3)), (Matern52, (2, 4))])
def test_missed_variance_falls_at_the_rate_of_the_degree(family, rates):
    for degree, rate in zip((family().order + 1, family().default_degree), rates, strict=True):
        coarse, fine = (missed(family, degree, cells + degree) for cells in (64, 256))
        assert np.log2(coarse / fine) / 2.0 == pytest.approx(rate, abs=0.3)


@pytest.mark.parametrize("family", MATERNS)
def test_the_condition_of_the_prior_grows_with_the_order_and_not_with_the_degree(family):
    """So a term may have as many cells per lengthscale with every degree."""

    def condition(degree, cells):
        axis = Axis(family(float(cells)), Grid(0.0, 64.0, 64), degree, 0, degree)
        return np.linalg.cond(axis.matrix.toarray())

    smallest = family().order + 1
    for degree in (smallest, smallest + 1):
        rate = np.log2(condition(degree, 8) / condition(degree, 4))
        assert rate == pytest.approx(2 * smallest, rel=0.1)
    assert condition(smallest + 1, 8) < condition(smallest, 8)


def both(X, y):
    """Return automatic fits with the default and with the smallest degree."""
    return [
        GPRegressor(Matern32(), degree=degree, progress=False).fit(X, y) for degree in (None, 2)
    ]


@pytest.mark.parametrize("columns", [1, 2])
def test_an_automatic_choice_has_fewer_functions_and_no_lower_bound(columns):
    X, y = waves(columns, rows=1500)
    if columns == 1:
        X, y = sample(Matern32(1.5), 0.004, 1500, span=1500.0)
    default, smallest = both(X, y + np.sin(40.0 * X.T[0]))
    assert np.prod(default.num_basis_) < 0.7 * np.prod(smallest.num_basis_)
    assert default.elbo_ > smallest.elbo_ - 1e-4 * len(y)


def test_cells_of_a_long_process_are_not_given_up_for_digits_that_are_there():
    """Digits of long lengths are predicted to be lost, the more so the higher the degree."""
    default, smallest = both(*waves(2, rows=600))
    assert default.elbo_ > smallest.elbo_
    assert default.elbo_ == max(level.elbo for level in default.resolution_)
    exact = default.kernel_(waves(2, rows=600)[0]) + default.noise_variance_ * np.eye(600)
    root = np.linalg.cholesky(exact)
    white = np.linalg.solve(root, waves(2, rows=600)[1])
    evidence = -0.5 * white @ white - np.log(np.diag(root)).sum() - 300.0 * np.log(2.0 * np.pi)
    assert evidence - 10.0 < default.elbo_ <= evidence + 1e-6 * abs(evidence)


@pytest.mark.parametrize("name, degree", [("line", (2, 3)), ("field", (2, 2))])
def test_models_of_older_files_keep_their_degree(name, degree):
    gp = asvgp.load(FILES / f"{name}-v1.asvgp")
    assert gp.degree is None
    (low, high), *_ = np.atleast_2d(gp.domain_)
    inside = np.full((3, gp.n_features_in_), 0.5 * (low + high))
    before = gp.predict(inside)
    assert gp.summary().degrees[: len(degree)] == degree
    gp.partial_fit(inside, before)  # trained anew, on statistics of the old degree
    assert max(gp.summary().degrees) == max(degree)
    np.testing.assert_allclose(gp.predict(inside), before, atol=0.5)


def test_half_as_many_cells_are_taken_where_a_lengthscale_has_most():
    unknown = np.array([np.inf, np.inf])
    assert np.prod(halved([64, 64], [1.0, 1.0], unknown)) == 2048
    assert halved([64, 64], [1.0, 1.0], np.array([0.2, 0.1])) == [32, 64]
    assert halved([64, 64], [4.0, 1.0], np.array([0.2, 0.1])) == [64, 32]
    assert halved([64, 8], [1.0, 1.0], np.array([0.1, 5.0])) == [32, 8]  # no fewer than eight
    assert halved([8, 8], [1.0, 1.0], unknown) == [8, 8]
