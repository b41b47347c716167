"""Forecasts: what is held out, how it is scored, the page; and our own method on a tiny series."""

import os
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from experiments.forecasting import contest, pictures, words
from experiments.forecasting.series import (
    HOUR,
    NAMES,
    ROLLING,
    TENTH,
    Design,
    Series,
    designs,
    means,
    splits,
)
from experiments.harness import process, results
from experiments.harness.environments import Absent, interpreter
from experiments.harness.process import METHODS, Method
from experiments.harness.results import Results
from experiments.harness.scores import forecast_scores, quantiles_of, scores, seasonal_error
from experiments.harness.splits import Split
from experiments.methods.child import LEVELS, QUANTILES
from experiments.methods.dates import dates
from experiments.tests.test_methods import wrong_settings


def a_series(n=24 * 20, missing=(), kernel="matern32(6 hours) + periodic(1 day) + constant"):
    x = np.setdiff1d(np.arange(float(n)), missing)
    noise = np.random.default_rng(0).standard_normal(n)[x.astype(int)]
    y = 10.0 + 3.0 * np.sin(2 * np.pi * x / 24.0) + 0.3 * noise
    return Series("made up", x, y, "2020-01-01T00:00", HOUR, (24.0,), "m", "a sine", kernel)


# ---------------------------------------------------------------- scores


def test_mase_and_coverage_by_hand():
    y, mean = np.array([1.0, 2.0, 3.0, 10.0]), np.array([1.0, 1.0, 1.0, 1.0])
    got = forecast_scores(y, mean, quantiles_of(mean, np.ones(4)), scale=2.0)
    assert got["mase"] == pytest.approx((0 + 1 + 2 + 9) / 4 / 2)
    assert got["inside_80"] == 0.5  # 1.28 standard deviations
    assert got["inside_95"] == 0.5  # 2 is beyond 1.96
    bare = forecast_scores(y, mean, None, 2.0)
    assert bare["crps"] is bare["inside_80"] is bare["inside_95"] is None


def test_crps_from_quantiles_is_near_that_of_a_normal_distribution():
    rng = np.random.default_rng(1)
    y, mean, std = rng.standard_normal(300), 0.5 * rng.standard_normal(300), np.full(300, 0.8)
    exact = scores(y, mean, std)["crps"]
    got = forecast_scores(y, mean, quantiles_of(mean, std), scale=1.0)["crps"]
    assert got == pytest.approx(exact, rel=0.02)


def test_crps_from_quantiles_is_near_the_integral_for_a_skewed_distribution():
    def below(z):  # of exp(N(0, 1))
        return norm.cdf(np.log(z))

    for y in (0.3, 1.5, 4.0):
        low = quad(lambda z: below(z) ** 2, 1e-9, y)[0]
        high = quad(lambda z: (1.0 - below(z)) ** 2, y, 200.0, limit=200)[0]
        quantiles = np.exp(norm.ppf(QUANTILES))[None]
        got = forecast_scores(np.array([y]), np.ones(1), quantiles, 1.0)["crps"]
        assert got == pytest.approx(low + high, rel=0.06)


def test_levels_hold_the_ends_of_both_bands_and_average_to_a_half():
    assert {0.025, 0.1, 0.9, 0.975} <= set(QUANTILES)
    assert np.mean(LEVELS) == pytest.approx(0.5)
    assert sorted(QUANTILES) == QUANTILES
    assert set(LEVELS) <= set(QUANTILES)


def test_the_scale_of_the_mase_takes_pairs_that_are_there():
    x = np.array([0.0, 1.0, 2.0, 4.0, 5.0, 6.0])
    y = np.array([1.0, 5.0, 2.0, 4.0, 8.0, 0.0])
    brute = [abs(y[i] - y[j]) for i in range(6) for j in range(6) if x[i] - x[j] == 2.0]
    assert seasonal_error(x, y, 2) == pytest.approx(np.mean(brute))


# ---------------------------------------------------------------- what is held out


def test_repeated_hours_are_averaged_and_those_with_few_values_are_absent():
    place, y = np.array([3, 1, 1, 2, 2]), np.array([7.0, 1.0, 3.0, 4.0, 6.0])
    assert [each.tolist() for each in means(place, y)] == [[1.0, 2.0, 3.0], [2.0, 5.0, 7.0]]
    assert means(place, y, fewest=2)[0].tolist() == [1.0, 2.0]


def test_nothing_after_an_origin_is_known():
    series = a_series(missing=(100, 300, 470))
    design = Design(ROLLING, history=100, horizon=24, origins=3, apart=31)
    parts = splits(series, design)
    assert len(parts) == 3
    assert parts[-1].x_test[-1, 0] == series.x[-1]
    for earlier, part in zip([None, *parts], parts, strict=False):
        assert part.x[-1, 0] < part.x_test[0, 0]
        assert part.x_test[-1, 0] - part.x[-1, 0] <= 24 + 1
        assert part.x[0, 0] > part.x[-1, 0] - 100
        if earlier is not None:
            assert part.x[-1, 0] - earlier.x[-1, 0] == pytest.approx(31, abs=1)
        at = np.searchsorted(series.x, part.x_test[:, 0])
        assert np.array_equal(series.y[at], part.y_test)


def test_the_last_tenth_is_a_tenth_and_the_origins_lie_in_it():
    series = a_series(24 * 100)
    rolling, tenth = designs(series)
    (part,) = splits(series, tenth)
    assert tenth.name == TENTH
    assert len(part.y_test) == 240
    assert part.size == 2160
    assert len(splits(series, rolling)) == 5
    assert all(one.x_test[0, 0] >= 2160 for one in splits(series, rolling))
    assert len({one.x_test[0, 0] % 24 for one in splits(series, rolling)}) > 1


def test_steps_become_dates():
    got = dates(np.array([[0.0], [25.0]]), "2020-01-01T06:00", 3600)
    assert [str(each) for each in got] == ["2020-01-01T06:00:00", "2020-01-02T07:00:00"]


# ---------------------------------------------------------------- methods


def by(label, series):
    return next(method for method in contest.methods(series) if method.label == label)


def test_the_seasonal_naive_forecast_repeats_the_last_season():
    x = np.arange(60.0)
    y = np.tile(np.arange(12.0), 5) + 0.01 * x
    part = Split("d", 0, x[:48, None], y[:48], x[48:, None], y[48:])
    far = Split("d", 0, x[:30, None], y[:30], x[30:, None], y[30:])
    method = Method(words.NAIVE, "naive_forecasts.py", settings={"season": 12})
    (mean, std, row), (further, wider, _) = process.answers(method, [part, far], 60.0)
    assert "reason" not in row
    assert np.allclose(mean, y[36:48])
    assert np.allclose(std, 0.12)  # all differences a season apart
    assert np.allclose(further, [y[18 + i % 12] for i in range(30)])
    assert np.allclose(wider, 0.12 * np.sqrt(1 + np.arange(30) // 12))


@pytest.mark.parametrize("label", [words.DEFAULT, *pictures.LINES])
def test_a_script_forecasts_a_sine(label):
    series = a_series(24 * 8, missing=(70, 71))
    method = by(label, series)
    if method.environment != "asvgp" and not os.environ.get("ASVGP_PEERS"):
        pytest.skip("a peer: ASVGP_PEERS=1 runs it")
    try:
        interpreter(method.environment)
    except Absent as error:
        pytest.skip(str(error))
    design = Design(ROLLING, history=24 * 6, horizon=24, origins=2, apart=11)
    row = contest.one(method, series, design, splits(series, design), 300.0)
    assert "reason" not in row, row["reason"]
    assert row["origins"] == len(row["mases"]) == 2
    assert row["mase"] < 1.5
    assert row["mase"] == pytest.approx(np.mean(row["mases"]), abs=1e-4)
    assert row["crps"] < 1.1 * row["mase"]
    assert 0.7 < row["inside_95"] <= 1.0
    assert row["inside_80"] <= row["inside_95"]
    assert len(row["forecast"]["mean"].split()) == 24


def test_a_row_says_how_far_a_slow_method_came(tmp_path, monkeypatch):
    (tmp_path / "child.py").write_text((METHODS / "child.py").read_text())
    (tmp_path / "slow.py").write_text(
        "import time, child, numpy as np\n"
        "def fit(x, y, settings):\n    time.sleep(300 if len(y) > 5 else 0)\n    return {}\n"
        "def predict(model, x):\n    return np.zeros(len(x)), np.ones(len(x))\n"
        "child.main(fit, predict)\n"
    )
    monkeypatch.setattr(process, "METHODS", tmp_path)
    x = np.arange(20.0)[:, None]
    short, long = (Split("d", 0, x[:n], x[:n, 0], x[n:], x[n:, 0]) for n in (5, 6))
    series = replace(a_series(), seasons=(2.0,))
    design = Design(ROLLING, history=6, horizon=14, origins=2)
    row = contest.one(Method("slow", "slow.py"), series, design, [short, long], 6.0)
    assert row["reason"] == "1 of 2 forecasts, then more than 6 s"
    assert "mase" not in row


def test_every_method_has_a_script_an_environment_and_settings_that_are_read():
    known = {p.stem for p in (METHODS.parent / "environments").glob("*.txt")} | {"asvgp"}
    labels = [method.label for method in contest.methods(a_series())]
    assert set(labels) == {words.DEFAULT, *pictures.LINES}
    for method in contest.methods(a_series()):
        assert method.environment in known
        assert wrong_settings(method) == ([], []), method


# ---------------------------------------------------------------- the page


def row(method, design=ROLLING, **changed):
    made = {"method": method, "dataset": "made up", "n": 432, "design": design, "settings": {}}
    made |= {"origins": 5, "mase": 0.8, "crps": 0.6, "inside_80": 0.79}
    return made | {"inside_95": 0.96, "fit_seconds": 1.0, "predict_seconds": 0.5} | changed


@pytest.fixture
def found():
    series = a_series()
    parts = splits(series, designs(series)[0])
    mean = parts[-1].y_test
    shown = contest.shown(mean, quantiles_of(mean, np.ones(len(mean))))
    rows = [
        row(words.DEFAULT, forecast=shown),
        row(words.DEFAULT, TENTH),
        row("MSTL", mase=0.7, forecast=shown),
        {k: v for k, v in row("MSTL", TENTH).items() if k in ("method", "dataset", "n", "design")}
        | {"reason": "more than 120 s"},
        row(words.NAIVE, mase=1.0, crps=0.9),
        row(words.NAIVE, TENTH, mase=0.795),
        {"method": "", "dataset": "gone", "n": 0, "reason": "gone.npz is missing"},
    ]
    return Results(
        "forecasts", "", rows=rows, record={"series": {"made up": contest.about(series)}}
    )


def test_the_page_says_where_we_lose_and_what_has_no_result(found):
    text = contest.table(found)
    assert "In 1 of 3 pairs" in text  # one in a hundred is no loss
    assert "| made up | rolling origins | MSTL | 0.70 / 0.80 |  |" in text
    assert "| MSTL | 0.70 | 0.60 | 79 / 96 | 1.5 | / | / | / | / |" in text
    assert "- MSTL, last tenth: more than 120 s" in text
    assert "images/experiments/forecast_made_up.png" in text
    assert "gone.npz is missing" in text
    assert "a sine" in text.lower()


def test_means_over_series_are_geometric(found):
    found.rows += [r | {"dataset": "other", "mase": 0.2} for r in found.rows[:1]]
    line = next(x for x in words.summary(found, (ROLLING, TENTH)).splitlines() if "defaults" in x)
    assert line.startswith(f"| {words.DEFAULT} | 0.40 | 0.60 | 79 / 96 | 1.5 | 2 |")


def test_a_picture_for_each_series(found, tmp_path, monkeypatch):
    monkeypatch.setattr(results, "FIGURES", tmp_path)
    contest.figure(found)
    assert [path.name for path in tmp_path.iterdir()] == ["forecast_made_up.png"]


def test_names_of_pictures_differ():
    assert len({words.picture(name) for name in NAMES}) == len(NAMES)
    assert words.picture("PM2.5") == "forecast_pm25.png"


def test_a_series_that_is_missing_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("ASVGP_DATA", str(tmp_path))
    monkeypatch.setenv("ASVGP_CACHE", str(tmp_path))
    monkeypatch.setenv("ASVGP_SOURCE", tmp_path.as_uri() + "/")
    found = Results("forecasts", "")
    contest.run(found, ["bike sharing"])
    assert "bike_sharing.npz is missing" in found.rows[0]["reason"]
    assert "bike_sharing.npz" in contest.table(found)


def test_only_methods_that_are_named_are_run_again(monkeypatch):
    """A method without a package of its own takes the place of peers that are not installed."""
    rows = [
        {"method": name, "dataset": "a", "n": 9, "design": "last tenth", "mase": 1.0}
        for name in (words.DEFAULT, "Prophet", "MSTL")
    ]
    old = Results("forecasts", "", rows=rows)
    monkeypatch.setattr(results, "read", lambda name, full: old)
    found = Results("forecasts", "", record={"again": ["ASVGP", "mstl"]})
    assert contest.earlier(found) == {("Prophet", "a", "last tenth"): rows[1]}
    assert "asvgp" in words._again(Results("forecasts", "", record={"again": ["asvgp"]}))
    everything = Results("forecasts", "")
    assert contest.earlier(everything) == {}
    assert words._again(everything) == ""
