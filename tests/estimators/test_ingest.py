"""One way in: arrays are a source of one block."""

import numpy as np
import pytest

from asvgp import Bernoulli, Binomial, GPRegressor, Matern32, Poisson, scan
from asvgp.data.settings import Settings
from asvgp.estimators import ingest
from asvgp.estimators.default_field import FieldChoice
from asvgp.sources.source import source_for

FIXED = {"num_basis": 20, "noise_variance": 0.1, "optimizer": None}


def wave(count=200, start=0.0):
    x = start + np.linspace(0.0, 10.0, count)
    return x, np.sin(x)


def test_arrays_are_neither_copied_nor_read_twice(monkeypatch):
    x, y = wave()
    points, read = [], ingest.Reader.read

    def watched(self, block):
        rows = read(self, block)
        points.append(rows)
        return rows

    monkeypatch.setattr(ingest.Reader, "read", watched)
    monkeypatch.setattr(ingest.FitData, "rows", None)  # which reads a block
    GPRegressor(**FIXED).fit(x, y)
    (rows,) = points
    assert np.shares_memory(rows.points.x, x)
    assert np.shares_memory(rows.y, y)
    assert rows.weights is None


def test_arrays_give_the_bits_that_a_source_gives():
    x, y = wave(1000)
    one = GPRegressor(**FIXED).fit(x, y)
    other = GPRegressor(**FIXED).fit(scan({"x": x, "y": y}, "y"))
    for name in ("moments", "targets", "squares"):
        np.testing.assert_array_equal(getattr(one.stats_, name), getattr(other.stats_, name))


@pytest.mark.parametrize("parts", [1, 3])
def test_a_domain_grows_from_block_to_block(parts):
    blocks = [wave(50, start=10.0 * i) for i in range(parts)]
    settings = Settings.parse(Matern32(), num_basis=20)
    data = None
    for block in blocks:
        added = ingest.absorb(settings, source_for(*block), data, growing=True)
        data = added.data
        assert (added.count, added.missing) == (50, 0)
    assert data is not None
    assert data.stats.count == 50 * parts
    assert data.structure.domain(data.stats)[1] >= 10.0 * parts


def test_blocks_of_missing_targets_do_not_end_a_stream():
    x, y = wave(30)
    blocks = [(x, y), (x, np.full(30, np.nan)), (x, y)]
    with pytest.warns(UserWarning, match="30 of 90 rows have y = NaN"):
        gp = GPRegressor(**FIXED).partial_fit(iter(blocks))
    assert gp.stats_.count == 60


def test_what_was_never_added_cannot_be_forgotten():
    x, y = wave()
    gp = GPRegressor(**FIXED).fit(x, y)
    with pytest.raises(ValueError, match=r"cannot be forgotten.*outside the domain"):
        gp.forget(x + 5.0, y)
    with pytest.raises(ValueError, match="the data so far have 1 output"):
        gp.forget(x, np.stack([y, y], axis=1))
    assert gp.forget(x[:50], y[:50]).stats_.count == 150


@pytest.mark.parametrize("family", [Bernoulli(), Bernoulli("probit"), Poisson(), Binomial()])
def test_default_fields_are_chosen_with_the_curvatures_of_log_densities(family, monkeypatch):
    """Sums of a one-read family have masses for weights, which say nothing of working responses."""
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(60, 2)), rng.integers(0, 2, 60).astype(float)
    given, weight = [], rng.uniform(0.5, 2.0, 60)

    def choose(_, z, weights, known_noise, **__):
        given.append((z[:, 0], weights, known_noise))
        return FieldChoice(Matern32(dim=0) * Matern32(dim=1))

    monkeypatch.setattr(ingest, "choose_field", choose)
    settings = Settings.parse(None, likelihood=family)
    ingest.absorb(settings, source_for(x, y, weight))
    ((z, weights, known_noise),) = given
    trials = np.ones(60) if "trials" in family.takes else None
    f, h = family.start(y, trials, weight, None), 1e-4
    low, middle, high = (
        family.expected(y, trials, f + step, np.zeros(60))[0] for step in (-h, 0.0, h)
    )
    slope, curvature = (high - low) / (2.0 * h), (2.0 * middle - low - high) / h**2
    assert known_noise
    np.testing.assert_allclose(weights, weight * curvature, rtol=1e-5)
    np.testing.assert_allclose(z, f + slope / curvature, rtol=1e-5)
