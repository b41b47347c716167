"""Experiments of several inputs on tiny sizes, and the pages made of results."""

import importlib
import json
import sys
from types import ModuleType

import numpy as np
import pytest

from experiments import page
from experiments.__main__ import EXPERIMENTS
from experiments.harness import datasets, results
from experiments.harness.compare import TOLERANCE, compare
from experiments.harness.datasets import Dataset, Missing
from experiments.harness.process import METHODS
from experiments.harness.results import Results
from experiments.harness.scores import scores
from experiments.paper import figure4, figure6, table3


@pytest.fixture(autouse=True)
def figures(tmp_path, monkeypatch):
    """Pictures go to a folder of the test."""
    monkeypatch.setattr(results, "FIGURES", tmp_path)
    return tmp_path


def is_picture(path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG")


def missing(name):
    raise Missing(f"{name}.npz is missing")


def saved(found: Results, folder) -> Results:
    """The same after a way through its file."""
    file = folder / "found.json"
    file.write_text(json.dumps(vars(found), default=results._plain))
    return Results(**json.loads(file.read_text()))


# Table 3


def flights(rows: int = 90) -> Dataset:
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 100.0, (rows, 8))
    y = 3.0 * np.sin(x[:, 0] / 20.0) + 0.1 * rng.standard_normal(rows)
    return Dataset("flights", x, y, datasets.FLIGHTS, "generated")


def measured(method, parts, limit):
    """In place of a process; VISH takes too long."""
    row = {"method": method.label, "dataset": "flights", "n": parts.size, "seed": parts.seed}
    row["settings"] = method.settings
    if method.script.startswith("vish"):
        return row | {"reason": f"more than {limit:.0f} s"}
    std = np.ones(len(parts.y_test))
    return row | scores(parts.y_test, 0.0 * std, std) | {"fit_seconds": 2.0, "predict_seconds": 0.1}


def test_table3_has_every_method_and_size_beside_the_papers(monkeypatch, figures):
    monkeypatch.setattr(datasets, "load", lambda name: flights())
    monkeypatch.setattr(table3, "measure", measured)
    monkeypatch.setattr(table3, "ROWS", (30, 60, None))
    found = Results("table3", table3.TITLE)
    table3.run(found)
    assert [len(found.where(rows=n)) for n in (30, 60, 90)] == [15, 15, 5]
    assert {r["n"] for r in found.rows} == {20, 40, 60}  # two thirds
    text = table3.table(saved(found, figures))
    line = next(line for line in text.splitlines() if line.startswith("| AS-VGP, 30/dim"))
    assert line.endswith("| 0.95 ± 0.17 | 0.84 ± 0.05 | 0.84 ± 0.01 | 0.83 ± 0.00 |")
    mse = [r["mse"] for r in found.where(method="AS-VGP, 30/dim", rows=30)]
    assert f"| {np.mean(mse):.3f} ± {np.std(mse, ddof=1):.3f} |" in line
    assert "| VISH, 610 | / | / | / | 1.33 ± 0.09 | 1.27 ± 0.03 | 1.28 ± 0.01 |" in text
    assert "- / VISH, 610, flights (N = 20): more than 120 s" in text
    assert "(3 at 30 rows, 3 at 60 rows, 1 at 90 rows; the paper: 10)" in text
    assert "3,000 of the rows" in text
    table3.figure(found)
    assert is_picture(figures / "table3.png")


def test_full_table3_trains_everything_on_all_rows_of_ten_splits(monkeypatch):
    monkeypatch.setattr(datasets, "load", lambda name: flights())
    monkeypatch.setattr(table3, "measure", measured)
    monkeypatch.setattr(table3, "ROWS", (30,))
    found = Results("table3", table3.TITLE, full=True)
    table3.run(found)
    assert len(found.rows) == 50
    assert not any("train_rows" in r["settings"] for r in found.rows)


def test_table3_without_its_data_says_so(monkeypatch):
    monkeypatch.setattr(datasets, "load", missing)
    found = Results("table3", table3.TITLE)
    table3.run(found)
    assert len(found.rows) == len(table3.METHODS)
    assert "flights.npz is missing" in table3.table(found)
    table3.figure(found)  # nothing to draw


@pytest.mark.parametrize(
    ("script", "settings"),
    [
        ("vff_models", {"num_frequencies": 4, "max_iterations": 30}),
        ("vish_models", {"num_features": 45, "max_iterations": 30}),
    ],
)
def test_baselines_learn_whatever_the_units_of_their_inputs(script, settings, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(METHODS))
    method = importlib.import_module(script)
    data = flights(300)
    x, y = data.x[:, :3], data.y / data.y.std()
    mean, std = method.predict(method.fit(x[:200], y[:200], settings), x[200:])
    assert np.mean((y[200:] - mean) ** 2) < 0.5  # 1 is what the mean alone would have
    assert (std > 0.0).all()
    other = 1000.0 * x + 5.0
    again, _ = method.predict(method.fit(other[:200], y[:200], settings), other[200:])
    np.testing.assert_allclose(again, mean, atol=1e-3)


# Figure 4


def dense(sample: figure4.Sample):
    """The posterior by plain Gaussian process regression."""

    def kernel(a, b):
        parts = [figure4.matern32(a[:, d], b[:, d], sample.lengthscale) for d in range(2)]
        return parts[0] * parts[1]

    x, x_test = sample.x, sample.x_test
    inverse = np.linalg.inv(kernel(x, x) + figure4.NOISE * np.eye(len(x)))
    cross = kernel(x, x_test)
    variance = 1.0 - np.sum(cross * (inverse @ cross), axis=0) + figure4.NOISE
    return cross.T @ inverse @ sample.y, np.sqrt(variance)


def test_the_exact_posterior_is_the_dense_one():
    sample = figure4.draw(0.3, 1, 9, 4)
    for ours, theirs in zip(figure4.exact(sample), dense(sample), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


def test_samples_have_the_kernels_covariance():
    """Averages over samples at one pair of coordinates: variance 1 plus noise, and the kernel."""
    draws = [figure4.draw(0.2, seed, 3, 2) for seed in range(1500)]
    assert np.mean([s.y**2 for s in draws]) == pytest.approx(1.0 + figure4.NOISE, abs=0.08)
    expected = [np.outer(*(figure4.matern32(a, b, 0.2)[0, 0] for a, b in [
        (s.train[0][:1], s.train[0][1:2]), (s.train[1][:1], s.train[1][1:2])]))[0, 0]
        for s in draws]  # fmt: skip
    products = [s.y.reshape(3, 3)[0, 0] * s.y.reshape(3, 3)[1, 1] for s in draws]
    assert np.mean(products) == pytest.approx(np.mean(expected), abs=0.08)


def test_both_methods_come_nearer_to_the_exact_posterior():
    pytest.importorskip("torch")
    sample = figure4.draw(0.3, 0, 15, 6)
    edge = figure4.edge_of(figure4.NEAR, 0.3)
    best, best_std = figure4.exact(sample)
    for method in (figure4.splines, lambda s, count: figure4.fourier(s, count, edge)):
        answers = [method(sample, count) for count in (7, 25)]
        few, many = (np.sqrt(np.mean((mean - best) ** 2)) for mean, _ in answers)
        assert many < 0.25 * few
        assert many < 0.5 * best_std.mean()
        few, many = (np.abs(std / best_std - 1.0).max() for _, std in answers)
        assert many < 0.25 * few
        assert all((std >= np.sqrt(figure4.NOISE)).all() for _, std in answers)  # of observations


def run_here(method, parts, limit):
    """In place of a process, which takes far longer to start than the method to train."""
    script = importlib.import_module(method.script.removesuffix(".py"))
    model = script.fit(parts.x, parts.y, method.settings)
    row = {"method": method.label, "settings": method.settings, "info": model["info"]}
    return row | scores(parts.y_test, *script.predict(model, parts.x_test))


def test_figure4_renders_and_says_what_is_missing(monkeypatch, figures):
    def no_torch(*arguments):
        raise ImportError("No module named 'torch'")

    monkeypatch.setattr(figure4, "LENGTHSCALES", (0.3,))
    monkeypatch.setattr(figure4, "SAMPLES", {False: 2})
    monkeypatch.setattr(figure4, "SIDES", {False: (12, 5)})
    monkeypatch.setattr(figure4, "FREQUENCIES", (3, 5))
    monkeypatch.setattr(figure4, "fourier", no_torch)
    monkeypatch.setattr(figure4, "run_apart", run_here)
    monkeypatch.syspath_prepend(str(METHODS))
    found = Results("figure4", figure4.TITLE)
    figure4.run(found)
    found = saved(found, figures)
    text = figure4.table(found)
    assert "| 0.3, VFF | / | / |" in text
    assert "PyTorch is not installed" in text
    spline = found.where(method=figure4.SPLINES, functions=121)
    assert f"{np.mean([r['nlpd'] for r in spline]):.2f} ±" in text
    figure4.figure(found)
    assert is_picture(figures / "figure4.png")
    again = Results("figure4", figure4.TITLE)
    figure4.run(again)
    assert all(each.size <= TOLERANCE for each in compare(found, saved(again, figures)))


# Figure 6


def test_maps_survive_packing():
    values = np.random.default_rng(0).standard_normal((20, 31))
    values[4, 6] = np.nan
    back = figure6.unpack(json.loads(json.dumps(figure6.pack(values))))
    thin = values[::2, ::2]
    assert np.argwhere(np.isnan(back)).tolist() == [[2, 3]]
    assert np.nanmax(np.abs(back - thin)) <= 0.51 * np.ptp(thin[np.isfinite(thin)]) / 254.0


def field(name: str) -> Dataset:
    """A field with a hole, on a grid."""
    lat, lon = np.meshgrid(np.linspace(0, 1, 40), np.linspace(0, 2, 50), indexing="ij")
    there = (lat - 0.5) ** 2 + (lon - 1.0) ** 2 > 0.05
    x = np.column_stack([lat[there], lon[there]])
    y = 3.0 + np.sin(4.0 * x[:, 0]) * np.cos(3.0 * x[:, 1])
    return Dataset(name, x, y, ("lat", "lon"), "generated")


def load_one(name: str) -> Dataset:
    return field(name) if name == "sea level" else missing(name)


def test_figure6_times_every_stage_and_draws_maps(monkeypatch, figures):
    monkeypatch.setattr(datasets, "load", load_one)
    monkeypatch.setattr(figure6, "GRID", (36, 54))
    part = figure6.Case("part", "sea level", (0.0, 0.6, 0.0, 1.0), held_out=60)
    monkeypatch.setattr(figure6, "CASES", (part, figure6.Case("heights", "heights")))
    found = Results("figure6", figure6.TITLE)
    figure6.run(found)
    found = saved(found, figures)
    ours = found.where(method=figure6.SPLINES.label, dataset="part")[0]
    assert ours["mse"] < 1e-3  # of a variance of 1
    assert ours["held_out"] == 60
    assert all(ours["info"][f"{stage}_seconds"] > 0.0 for stage in ("pass", "training", "grid"))
    text = figure6.table(found)
    assert "heights.npz is missing" in text
    assert "| *the paper, with a GPU* | 2,000,000 | 100 × 100 | 41 | 68 | 36 |" in text
    truth = figure6.unpack(found.record["maps, part"]["truth"])
    assert truth.shape == (18, 27)
    assert 0 < np.isnan(truth).sum() < truth.size / 2  # the hole stays a hole
    figure6.figure(found)
    assert is_picture(figures / "figure6.png")


def test_figure6_trains_on_at_most_what_is_asked_for(monkeypatch):
    monkeypatch.setattr(datasets, "load", field)
    parts = figure6.prepare(figure6.Case("heights", "heights", train=500, held_out=100))
    assert (parts.size, len(parts.y_test)) == (500, 100)


def test_figure6_thins_the_defaults_rows_alone(monkeypatch):
    monkeypatch.setattr(datasets, "load", field)
    monkeypatch.setattr(figure6, "CASES", (figure6.Case("globe", "sea level", held_out=100),))
    monkeypatch.setattr(figure6, "ROWS", {False: 300, True: None})
    seen = []

    def measure(method, case, parts, limit):
        seen.append(parts)
        return {"method": method.label, "dataset": "globe", "n": parts.size, "reason": "-"}, None

    monkeypatch.setattr(figure6, "measure", measure)
    found = Results("figure6", figure6.TITLE)
    figure6.run(found)
    whole, part = seen
    assert (whole.size > 1000, part.size) == (True, 300)
    np.testing.assert_array_equal(part.x_test, whole.x_test)
    rows = {(*x, y) for x, y in zip(whole.x.tolist(), whole.y, strict=True)}
    assert all((*x, y) in rows for x, y in zip(part.x.tolist(), part.y, strict=True))
    assert "at most 300 rows" in figure6.table(found)
    full = Results("figure6", figure6.TITLE, full=True)
    figure6.run(full)
    assert [r["n"] for r in full.rows] == [whole.size] * 2


# The pages


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A folder of results, of Table 3 and of one comparison with peers."""
    monkeypatch.setattr(results, "FOLDER", tmp_path / "results")
    row = {"method": "AS-VGP, 30/dim", "dataset": "flights", "n": 20, "rows": 30, "settings": {}}
    row |= {"mse": 0.5, "nlpd": 1.25, "crps": 0.3, "coverage": 0.95, "memory_mib": 9.0}
    row |= {"fit_seconds": 2.0, "predict_seconds": 0.1}
    for name in ("table3", "one_input"):
        rows = [row | {"seed": seed, "versions": {"celerite2": "0.3.2"}} for seed in range(3)]
        found = Results(name, name, rows=rows, record={"total_seconds": 100.0})
        found.save()
    module, comparison = ModuleType("one"), ModuleType("comparison")
    vars(module).update(TITLE="One input", table=lambda known: f"{len(known.rows)} rows\n")
    vars(comparison).update(losses=lambda found: "celerite2 is faster on a comet.")
    monkeypatch.setitem(sys.modules, EXPERIMENTS["one_input"], module)
    monkeypatch.setitem(sys.modules, "experiments.peers.comparison", comparison)
    return tmp_path


def test_pages_are_made_of_the_results_there_are(tiny):
    page.write(tiny)
    paper = (tiny / "paper.md").read_text(encoding="utf-8")
    assert f"## {table3.TITLE}" in paper
    assert "| AS-VGP, 30/dim | 0.500 ± 0.000 | 0.95 ± 0.17 |" in paper
    assert figure4.TITLE not in paper
    assert "| `make experiment-table3` | 3 | 0 to 2 | 100 |" in paper
    assert "celerite2 0.3.2" in paper
    assert "GiB, Python 3." in paper
    peers = (tiny / "benchmarks.md").read_text(encoding="utf-8")
    assert peers.index("faster on a comet") < peers.index("## One input") < peers.index("## How")
    assert "Together 100 s" in peers


def test_without_results_the_pages_say_so(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    for package in page.PAGES.values():
        assert "no results yet" in page.text(package)
        assert "## " not in page.text(package)


@pytest.mark.parametrize("file", page.PAGES)
def test_the_pages_are_what_the_results_give(file):
    written = (page.DOCS / file).read_text(encoding="utf-8")
    assert written == page.text(page.PAGES[file]), "write them anew: python -m experiments --page"
