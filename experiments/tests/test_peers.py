"""Comparisons with other packages: on made-up rows, and by our own method on tiny data."""

import numpy as np
import pytest
from scipy.optimize import OptimizeResult

from experiments import page
from experiments.harness import datasets, process, results
from experiments.harness.compare import compare
from experiments.harness.datasets import Dataset, Missing
from experiments.harness.process import METHODS, Method
from experiments.harness.results import Results
from experiments.harness.splits import split
from experiments.methods import starts
from experiments.peers import comparison, growth, one_input, pictures, several_inputs
from experiments.peers import contest as contest_module
from experiments.peers.contest import DEFAULT, TESTS, TUNED, Case, Entry, contest, thinned


def row(method, n=900, **changed):
    made = {
        "method": method,
        "dataset": "made up",
        "n": n,
        "seed": 0,
        "settings": {},
        "mse": 0.2,
        "nlpd": 0.5,
        "crps": 0.1,
        "coverage": 0.95,
        "fit_seconds": 1.0,
        "predict_seconds": 0.5,
        "memory_mib": 100.0,
    }
    return made | changed


@pytest.fixture
def found():
    rows = [
        row(DEFAULT),
        row(TUNED, mse=0.1),
        row("tinygp", mse=0.15, fit_seconds=4.0),
        row("mgcv bam", nlpd=0.6, fit_seconds=0.1, memory_mib=300.0),
        row("pyGAM", mse=0.3, nlpd=None, crps=None, coverage=None, fit_seconds=2.0),
        row(DEFAULT, n=9000),
        row("tinygp", n=9000, fit_seconds=30.0),
        {"method": "pyGAM", "dataset": "made up", "n": 9000, "reason": "more than 60 s"},
    ]
    return Results("one_input", "One input", rows=rows)


def lines(text, word):
    return [line for line in text.splitlines() if line.startswith("|") and word in line]


def test_losses_name_what_a_peer_does_better_and_by_how_much(found):
    text = comparison.losses([found])
    assert lines(text, "tinygp") == ["| made up | 900 | tinygp | 0.15 / 0.2 |  |  |  |  |"]
    assert lines(text, "mgcv") == ["| made up | 900 | mgcv bam |  |  |  | 0.6 / 1.5 |  |"]
    assert not lines(text, "pyGAM")
    assert not lines(text, TUNED)  # ours, not a peer
    assert "2 of 4 pairs" in text


def test_losses_are_sorted_and_the_worst_is_said_first(found):
    found.rows = [
        row(DEFAULT),
        row("gamfit", memory_mib=50.0),
        row("pyGAM", fit_seconds=0.5),
        row("mgcv bam", mse=0.1),
        row("celerite2", nlpd=0.45),
        row("tinygp", nlpd=0.3, mse=0.19),
    ]
    text = comparison.losses([found])
    order = [line.split(" | ")[2] for line in lines(text, "made up")]
    assert order == ["tinygp", "celerite2", "mgcv bam", "pyGAM"]  # a little memory is no row
    first = text.split("\n\n")[1]
    assert first.startswith("Our worst loss is to tinygp on made up, 900 rows: MSE 0.19, ours 0.2")
    assert "NLPD 0.3, ours 0.5 (0.2 more)" in first
    assert text.rstrip().endswith("250 MiB: gamfit on made up, 900 rows (50 / 100 MiB).")
    assert "5 of 5 pairs" in text


def test_an_axis_does_not_show_equal_scores_apart():
    from matplotlib.figure import Figure

    for scores, narrow in (([0.1078, 0.1089], True), ([0.1, 0.2], False)):
        axis = Figure().subplots()
        pictures._accuracy(axis, [row(DEFAULT, crps=scores[0]), row("tinygp", crps=scores[1])])
        low, high = axis.get_ylim()
        assert low < scores[0] < scores[1] < high
        span = (high - low) / (0.5 * (high + low))
        assert span == pytest.approx(0.1) if narrow else span > 0.5


def test_a_hundredth_is_no_loss(found):
    found.rows = [row(DEFAULT), row("tinygp", mse=0.199, nlpd=0.495)]
    assert "In none of 1 pairs" in comparison.losses([found])


def test_scores_are_means_over_splits_and_only_what_all_of_them_show_is_better(found):
    found.rows = [
        *(row(DEFAULT, seed=seed, nlpd=nlpd) for seed, nlpd in enumerate([0.5, 0.6, 0.7])),
        *(row("tinygp", seed=seed, nlpd=nlpd) for seed, nlpd in enumerate([0.1, 0.1, 0.71])),
        *(row("celerite2", seed=seed, nlpd=nlpd) for seed, nlpd in enumerate([0.4, 0.5, 0.6])),
        row("pyGAM", seed=2, nlpd=0.6),
    ]
    ours, tinygp, celerite, one = comparison.averaged(found)
    assert ours["nlpd"] == pytest.approx(0.6)
    assert comparison.winner("NLPD", tinygp, ours) == 0
    assert comparison.winner("NLPD", celerite, ours) == -1
    assert comparison.winner("NLPD", one, ours) == -1  # 0.6 beside 0.7, on the split both have
    assert lines(comparison.losses([found]), "pyGAM")[0].split(" | ")[4] == "0.6 / 0.7"
    assert "| made up | 900 | celerite2 | 3 | 0.2 ± 0 | 0.5 ± 0.1 |" in comparison.values(found)
    assert "| made up | 900 | celerite2 | 1 | -0.100 | 1 | 1 | 1 |" in comparison.ratios(found)


def test_methods_not_named_keep_their_rows_and_long_rows_are_kept(data, monkeypatch, tmp_path):
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    ran = []

    def run(method, split, limit, variables=None):
        ran.append((method.label, split.size, split.seed))
        return row(method.label, n=split.size, dataset=split.dataset, seed=split.seed)

    monkeypatch.setattr(process, "run", run)
    old = {"dataset": "tiny", "seed": 1, "n": 90}
    Results(
        "one_input",
        "",
        rows=[
            row("other", **old),
            row("named", **old, fit_seconds=100.0),
            row("named", **old | {"n": 360}),
        ],
    ).save()
    found = Results("one_input", "", record={"again": ["Named"]})
    some = [Entry(Method(label, "asvgp_models.py")) for label in ("other", "named")]
    contest(found, [Case("tiny", [100, None])], lambda name, n: some)
    assert [each for each in ran if each[0] != DEFAULT] == [
        ("other", 360, 1),
        ("named", 360, 1),
        ("named", 360, 2),
        ("named", 360, 3),
    ]


def test_our_own_failure_is_a_loss(found):
    found.rows = [
        {"method": DEFAULT, "dataset": "made up", "n": 900, "reason": "more than 60 s"},
        row("tinygp"),
    ]
    assert "ours has no result" in comparison.losses([found])
    assert "1 of 1 pairs" in comparison.losses([found])
    assert "Relative" in comparison.ratios(found)


def test_losses_of_nothing_say_what_to_run():
    assert "make peers" in comparison.losses([])


def test_ratios_are_relative_to_the_defaults_on_the_same_rows(found):
    text = comparison.ratios(found)
    assert "| made up | 900 | tinygp | 0.75 | +0.000 | 1 | 3 | 1 |" in text
    assert "| made up | 900 | mgcv bam | 1 | +0.100 | 1 | 0.4 | 3 |" in text
    assert "| made up | 900 | pyGAM | 1.5 | / | / | 1.67 | 1 |" in text
    assert len(lines(text, "9,000")) == 1


def test_pages_have_values_reasons_and_pictures(found):
    for module in (one_input, several_inputs):
        text = module.table(found)
        assert "| made up | 9,000 | pyGAM | / | / | / | / | / | / | / | / |" in text
        assert "pyGAM, made up (N = 9,000): more than 60 s" in text
        assert "images/experiments/one_input.png" in text
        assert "images/experiments/one_input_growth.png" in text


@pytest.mark.parametrize("empty", [False, True])
def test_pictures_are_drawn_from_rows(found, empty, tmp_path, monkeypatch):
    monkeypatch.setattr(results, "FIGURES", tmp_path)
    monkeypatch.setattr(results, "FOLDER", tmp_path / "none")
    if empty:
        found.rows = [r for r in found.rows if "reason" in r]
    one_input.figure(found)
    assert {p.name for p in tmp_path.iterdir()} == {"one_input.png", "one_input_growth.png"}


def test_what_is_left_out_is_told_from_the_rows_of_the_same_run(data):
    slow = Entry(Method("slow", "asvgp_models.py"), most=1000, power=2.0)
    found = Results("one_input", "", rows=[row("slow", n=900), row("slow", n=90, dataset="tiny")])
    part = split(data, 0)
    assert "smaller_n" not in contest_module.one(slow, part, 1.0, found)  # it can be run
    few = Entry(slow.method, most=100, power=2.0)
    left_out = contest_module.one(few, part, 1.0, found)
    assert left_out["smaller_n"] == 90  # of the same data set, before more rows of another
    found.rows = [left_out]
    (text,) = comparison.reasons(found)
    assert text.endswith(
        "left out above N = 100: to keep the run short; FULL=1 runs it. It took 1.5 s on 90 rows; "
        "in proportion to N to the power 2 that is 24 s here"
    )
    assert not compare(found, Results("", "", rows=[left_out | {"smaller_seconds": 9.0}]))
    unknown = contest_module.one(few, part, 1.0, Results("one_input", ""))
    assert comparison.reasons(Results("", "", rows=[unknown]))[0].endswith("FULL=1 runs it")


def test_what_splines_miss_is_the_bound_beside_the_exact_likelihood():
    ours = row(DEFAULT, info={"num_basis": 1026, "bound": -90.0, "noise": 0.2})
    near = row("celerite2", info={"log_likelihood": -36.0, "noise": 0.3})
    exact = row("tinygp", info={"log_likelihood": -45.0, "noise": 0.1})
    low = row("tinygp", info={"log_likelihood": -99.0, "noise": 0.9})  # of another maximum

    def missed(*rows):
        return one_input.missed(Results("one_input", "", rows=list(rows)))

    by_celerite = "| made up | 900 | 1,026 | celerite2 | -0.100 | -0.040 | 0.060 | 0.2 | 0.3 |"
    by_tinygp = "| made up | 900 | 1,026 | tinygp | -0.100 | -0.050 | 0.050 | 0.2 | 0.1 |"
    assert by_tinygp in missed(ours, near, exact)
    assert by_celerite in missed(ours, near)
    assert by_celerite in missed(ours, near, low)
    assert "| tinygp | -0.100 | -0.110 | -0.010 | 0.2 | 0.9 |" in missed(ours, low)
    assert missed(ours) == ""


def test_growth_with_m_from_the_rows_of_table_2():
    rows = [
        row("AS-VGP", settings={"num_basis": 10}, nlpd=2.0),
        row("AS-VGP", settings={"num_basis": 1000}, nlpd=1.0, fit_seconds=3.0),
        row("AS-VGP", settings={"num_basis": 1000}, nlpd=1.2, fit_seconds=3.0),
        row("SVGP", settings={"num_inducing": 20}, fit_seconds=50.0),
        row(DEFAULT, info={"num_basis": 5000}),
        {"method": "SVGP", "dataset": "made up", "n": 900, "settings": {}, "reason": "late"},
        {"method": "piece", "n": 9, "settings": {"num_basis": 3}, "mse": 0.1},
    ]
    found = Results("table2", "", rows=rows)
    assert growth.points(found, "made up", "AS-VGP") == [(10, 2.0, 1.0), (1000, 1.1, 3.0)]
    text = growth.section(found)
    assert "from M = 10 to 1,000, 100 times as many, our NLPD goes from 2.00 to 1.10" in text
    assert "SVGP with 20 inducing points: NLPD 0.50 in 50 s." in text
    assert growth.section(Results("table2", "", rows=rows[3:])) == ""


def test_growth_with_m_is_drawn_with_its_words(found, tmp_path, monkeypatch):
    monkeypatch.setattr(results, "FOLDER", tmp_path / "results")
    monkeypatch.setattr(page, "EXPERIMENTS", {"one_input": "experiments.peers.one_input"})
    series = Results("table2", "", rows=[row("AS-VGP", settings={"num_basis": m}) for m in (9, 99)])
    picture = tmp_path / "images" / "experiments" / growth.FILE

    def written():
        page.write(tmp_path)
        return (tmp_path / "benchmarks.md").read_text(encoding="utf-8"), picture.read_bytes()

    found.save()
    page.write(tmp_path)
    assert not picture.exists()
    series.save()
    words, drawn = written()
    assert "our NLPD goes from 0.50 to 0.50" in words
    assert written() == (words, drawn)
    series.rows[1]["nlpd"] = 0.3  # Table 2 alone is run again
    series.save()
    words, again = written()
    assert "our NLPD goes from 0.50 to 0.30" in words
    assert again != drawn


def test_an_end_that_is_no_number_is_not_the_best():
    ends = [OptimizeResult(fun=value) for value in (np.nan, 3.0, 2.0, np.nan)]
    assert starts.best(ends).fun == 2.0
    with pytest.raises(ValueError, match=r"NaN\) at the end of each of 2 starts"):
        starts.best(ends[::3])


def test_every_method_has_a_script_a_colour_and_an_environment():
    known = {p.stem for p in (METHODS.parent / "environments").glob("*.txt")} | {"asvgp", "r"}
    for module in (one_input, several_inputs):
        for case in (*module.CASES, *module.FULL):
            assert case.dataset in datasets.NAMES
            for entry in module.entries(case.dataset, 1000):
                assert (METHODS / entry.method.script).exists()
                assert entry.method.environment in known
                assert entry.method.label in pictures.STYLES
                assert entry.most is None or entry.why


def test_colours_differ_within_a_comparison():
    for module in (one_input, several_inputs):
        labels = [e.method.label for e in module.entries(module.CASES[0].dataset, 1000)]
        assert len({pictures.STYLES[label] for label in labels}) == len(labels)


@pytest.fixture
def data(monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 10.0, 400)
    made = Dataset("tiny", x[:, None], np.sin(x) + 0.1 * rng.standard_normal(400), ("x",), "")

    def load(name):
        if name == "tiny":
            return made
        raise Missing(f"{name} is not here; get it")

    monkeypatch.setattr(datasets, "load", load)
    return made


def test_contest_runs_refuses_and_says_what_is_missing(data, monkeypatch):
    ran = []

    def run(method, split, limit, variables=None):
        ran.append((method.label, split.size))
        seconds = 30.0 if method.label == "slow" else 1.0
        found = row(method.label, n=split.size, dataset=split.dataset, seed=split.seed)
        return found | {"fit_seconds": seconds}

    monkeypatch.setattr(process, "run", run)
    some = [
        Entry(Method("fast", "asvgp_models.py")),
        Entry(Method("slow", "asvgp_models.py"), most=100, why="too slow"),
        Entry(Method("exact", "asvgp_models.py"), most=100, why="too large", always=True),
    ]
    cases = [Case("tiny", [100, None]), Case("gone", [None])]
    found = Results("one_input", "")
    contest(found, cases, lambda name, n: some)
    # in an empty cache, for the time it takes, and in the one that is kept: neither is a row
    assert [ran.pop(0), ran.pop(0)] == [(DEFAULT, 360)] * 2
    # on three splits each, but where the first takes long
    exact = [("exact", 90)] * 3
    assert found.record["first_use_seconds"] == {"1": 1.5}
    assert "2 s with 1 input." in one_input.table(found)
    assert ran == [*[("fast", 90)] * 3, ("slow", 90), *exact, *[("fast", 360)] * 3]
    assert [r.get("seed") for r in found.rows if r["method"] == "fast"] == [1, 2, 3, 1, 2, 3, None]
    reasons = [r["reason"] for r in found.rows if "reason" in r]
    assert reasons[0] == "left out above N = 100: too slow"
    assert reasons[2:] == ["gone is not here; get it"] * 3
    ran.clear()
    contest(Results("one_input", "", full=True), cases[:1], lambda name, n: some)
    assert ("slow", 360) in ran
    assert ("exact", 360) not in ran


def test_our_method_and_an_absent_peer_in_a_contest(data):
    found = Results("one_input", "")
    entries = [
        Entry(Method(DEFAULT, "asvgp_models.py")),
        Entry(Method("nobody", "asvgp_models.py", "nowhere")),
    ]
    contest(found, [Case("tiny", [200])], lambda name, n: entries)
    *splits, peer = found.rows
    assert [each["seed"] for each in splits] == [1, 2, 3]
    ours = splits[0]
    assert ours["mse"] < 0.05
    assert 0.8 < ours["coverage"] <= 1.0
    assert peer["reason"] == "not installed: make peer-nowhere"


def test_held_out_rows_are_thinned_evenly():
    many = Dataset("m", np.arange(90_000.0)[:, None], np.ones(90_000), ("x",), "")
    part = thinned(split(many, 0))
    assert TESTS / 2 < len(part.y_test) <= TESTS
    assert np.ptp(part.x_test) > 0.99 * 90_000
    assert part.size == 81_000


def test_nystroem_in_a_process_of_its_own(data):
    method = Method("Nyström", "sklearn_models.py", settings={"components": 20})
    found = process.run(method, split(data, 0), 100.0)
    assert found["mse"] < 0.05
    assert found["info"]["components"] == 20
