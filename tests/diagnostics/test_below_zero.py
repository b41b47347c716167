"""Bands of positive data that reach below zero: when a summary says it, and at what price."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import asvgp
from asvgp import Constant, GPRegressor, Matern32

N = 400
STRUCTURE = "asvgp.structures.structure.Structure"


def positive(n=N):
    x = np.linspace(0.0, 10.0, n)
    return x, np.random.default_rng(0).exponential(size=n)


def model(**settings):
    given = {"num_basis": 30, "noise_variance": 1.0, "optimizer": None, "domain": (0, 10)}
    return GPRegressor(Matern32(1.0) + Constant(), **(given | settings))


def found(gp):
    return [each for each in gp.summary().findings if "No observation is below zero" in each]


def test_it_is_looked_at_when_a_summary_is_wanted(monkeypatch):
    asked = []
    predict = asvgp.structures.structure.Structure.predict

    def counted(self, posterior, points, *further):
        asked.append(points.count)
        return predict(self, posterior, points, *further)

    monkeypatch.setattr(f"{STRUCTURE}.predict", counted)
    gp = model().fit(*positive(5000))
    assert asked == []
    (words,) = found(gp)
    assert words.startswith("No observation is below zero, but 100 % of the 95 % intervals exten")
    assert found(gp) == [words]
    assert asked == [1000]


def test_rows_that_are_added_are_looked_at_too(tmp_path):
    x, y = positive()
    whole = found(model().fit(x, y))
    assert len(whole) == 1
    for portions in (2, 40):
        gp = model()
        for part in np.array_split(np.random.default_rng(1).permutation(N), portions):
            gp.partial_fit(x[part], y[part])
        assert found(gp) == whole
        gp.save(tmp_path / "model.asvgp")
        again = asvgp.load(tmp_path / "model.asvgp")
        assert again.summary().findings == gp.summary().findings
        assert found(gp.partial_fit([1.0], [-0.5])) == []
        assert found(again.partial_fit([1.0], [-0.5])) == []
    one, other = model().fit(x, y), model().fit(x, y)
    assert found(one.merge(other)) == whole
    assert found(one.merge(model().fit(x, y - 1.0))) == []


def test_of_many_portions_few_points_are_kept_from_everywhere():
    gp = model()
    for begin in range(10):
        x = begin + np.linspace(0.0, 1.0, 700)
        gp.partial_fit(x, np.ones(700))
    kept = gp._fit_data().looked_at
    assert kept is not None
    points = kept.x
    assert len(points) == 1000
    counts = np.histogram(points, 10, (0.0, 10.0))[0]
    assert counts.min() > 80
    assert counts.max() < 120


def test_all_blocks_of_a_stream_count(monkeypatch):
    monkeypatch.setattr("asvgp.sources.blocks.block_rows", lambda _: 1000)
    x, y = positive(4000)
    order = np.random.default_rng(1).permutation(4000)
    frame = pd.DataFrame({"x": x, "y": y}).iloc[order]

    def chunks(frame):
        return (frame.iloc[i : i + 1000] for i in range(0, len(frame), 1000))

    assert len(found(model().fit(chunks(frame), "y"))) == 1
    frame.iloc[-1, 1] = -0.01
    assert found(model().fit(chunks(frame), "y")) == []
    assert found(model().partial_fit(chunks(frame), "y")) == []


def test_zeros_of_any_block_are_seen(monkeypatch):
    monkeypatch.setattr("asvgp.sources.blocks.block_rows", lambda _: 1000)
    x, y = positive(4000)
    y[-1] = 0.0
    frame = pd.DataFrame({"x": x, "y": y})
    (words,) = found(model().fit(frame, "y"))
    assert "likelihood=Poisson()" in words


@pytest.mark.parametrize("portions", [1, 2])
def test_where_the_noise_of_new_observations_is_not_known_nothing_is_said(portions):
    x, y = positive()
    assert len(found(model().fit(x, y))) == 1
    gp = model(noise_variance="auto")
    for rows in np.array_split(np.arange(N), portions):
        gp.partial_fit(x[rows], y[rows], noise_variance=np.ones(len(rows)))
    assert found(gp) == []
    assert found(gp.fit(x, y, noise_variance=np.ones(N))) == []


def test_maps_and_additive_models_are_looked_at_too():
    rng = np.random.default_rng(0)
    axes = np.linspace(0.0, 1.0, 40), np.linspace(0.0, 1.0, 50)
    field = Matern32(dim=0) * Matern32(dim=1) + Constant()
    given = {"num_basis": 8, "noise_variance": 1.0, "optimizer": None}
    gp = GPRegressor(field, **given).fit(axes, rng.exponential(size=(40, 50)))
    assert len(found(gp)) == 1
    X, y = rng.uniform(size=(300, 3)), rng.exponential(size=300)
    additive = GPRegressor(Matern32(), **given).partial_fit(X[:150], y[:150])
    assert len(found(additive.partial_fit(X[150:], y[150:]))) == 1
