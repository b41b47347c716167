"""Counts of wins and losses, and the table of the README, from the results."""

import pytest

from experiments import page
from experiments.harness.results import ROOT, Results, read
from experiments.paper import erratum
from experiments.peers import winners
from experiments.peers.contest import DEFAULT


def row(method, dataset="household", n=90_000, *, nlpd, seconds, memory=100.0):
    scores = {"mse": 1.0, "crps": 1.0, "nlpd": nlpd, "coverage": 0.95, "memory_mib": memory}
    times = {"fit_seconds": seconds, "predict_seconds": 0.0}
    return {"method": method, "dataset": dataset, "n": n} | scores | times


@pytest.fixture
def found():
    known = Results("one_input", "One input")
    known.rows = [
        row(DEFAULT, nlpd=0.5, seconds=2.0),
        row("celerite2", nlpd=0.508, seconds=4.0, memory=50.0),
        row(DEFAULT, "traffic", 9_000, nlpd=0.5, seconds=2.0),
        row("celerite2", "traffic", 9_000, nlpd=0.2, seconds=1.0),
    ]
    return [known]


def test_wins_ties_and_losses_are_counted(found):
    line = next(line for line in winners.summary(found).splitlines() if "celerite2" in line)
    assert [cell.strip() for cell in line.strip("|").split("|")] == [
        "celerite2",
        "2",
        "0 / 1 / 1, -0.15",
        "1 / 0 / 1, 1.2 ×",
        "0 / 1 / 1, 0.75 ×",
    ]


def test_the_best_are_named_with_all_that_are_as_accurate(found):
    lines = [line.strip("|").split("|") for line in winners.best(found).splitlines()[2:]]
    assert [
        [cell.strip().replace("\N{NO-BREAK SPACE}", " ") for cell in line] for line in lines
    ] == [
        ["household, 90,000", "**asvgp**, celerite2", "**asvgp**, 2 s", "celerite2, 50 MiB"],
        ["traffic, 9,000", "celerite2", "celerite2, 1 s", "**asvgp**, 100 MiB"],
    ]


def test_a_task_without_a_result_is_not_run(found):
    table = winners.times(found)
    line = next(line for line in table.splitlines() if "celerite2" in line)
    assert [cell.strip() for cell in line.strip("|").split("|")][1:] == [
        "4 s (2 ×), 0.51",
        "not run",
    ]


def test_the_readme_and_the_page_of_evidence_hold_these_results():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert winners.in_readme(readme, page.beside()) == readme
    evidence = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
    assert winners.page(page.beside()) == evidence


def test_the_page_of_the_erratum_holds_its_results():
    text = (ROOT / "docs" / "erratum.md").read_text(encoding="utf-8")
    known = read("erratum")
    assert known is not None
    assert erratum.on_the_page(text, known) == text


@pytest.mark.parametrize("file", page.PAGES)
def test_generated_pages_hold_the_results(file):
    """No number was changed by hand, and none is older than the results."""
    text = (ROOT / "docs" / file).read_text(encoding="utf-8")
    assert page.text(page.PAGES[file]) == text


def test_figures_are_drawn_again_from_the_results(tmp_path, monkeypatch):
    import matplotlib

    from experiments import __main__ as command
    from experiments.harness import results

    monkeypatch.setattr(results, "FIGURES", tmp_path)
    before = matplotlib.rcParams["axes.prop_cycle"]
    assert command.main(["--figures", "table2"]) == 0
    assert (tmp_path / "table2.png").stat().st_size > 10_000
    assert matplotlib.rcParams["axes.prop_cycle"] == before
