"""Likelihoods on the command line: fit, predict, update, merge and info."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from asvgp import (
    Constant,
    CoxProcess,
    GPClassifier,
    GPRegressor,
    Matern32,
    Poisson,
    StudentT,
    load,
)
from asvgp.cli import checkpoint
from asvgp.cli.values import likelihood
from asvgp.likelihoods.names import FAMILIES
from tests.cli.command_line import call, column, refused, write

KERNEL = ("--kernel", "matern32(lengthscale=2) + constant(variance=9)")
FIXED = (*KERNEL, "--num-basis", 30, "--domain", "0,10", "--fixed")
COUNTS = ("--target", "count", "--input", "x", "--exposure", "effort")


def counts(rows: int = 900, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    x, effort = rng.uniform(0.0, 10.0, rows), rng.uniform(0.5, 3.0, rows)
    tries = rng.integers(1, 6, rows)
    share = 1.0 / (1.0 + np.exp(-np.sin(x)))
    return pa.table(
        {
            "x": x,
            "effort": effort,
            "log_effort": np.log(effort),
            "count": rng.poisson(effort * np.exp(np.sin(x))),
            "value": np.sin(x) + 0.1 * rng.standard_t(3, rows),
            "tries": tries,
            "hits": rng.binomial(tries, share),
            "time": rng.exponential(np.exp(-np.sin(x))),
            "seen": (rng.uniform(size=rows) < 0.8) * 1,
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("counts")
    write(counts(), folder / "counts.parquet")
    write(counts(), folder / "counts.csv")
    write(counts(300, seed=1), folder / "more.csv")
    command = ("fit", folder / "counts.parquet", *COUNTS, "--likelihood", "poisson", *FIXED)
    call(*command, "-o", folder / "counts.asvgp")
    return folder


def direct(family=None, target="count", **beside) -> GPRegressor:
    data = counts()
    kernel = Matern32(2.0) + Constant(variance=9.0)
    gp = GPRegressor(
        kernel, likelihood=family or Poisson(), num_basis=30, domain=(0.0, 10.0), optimizer=None
    )
    return gp.fit(
        column(data, "x"),
        column(data, target),
        **{name: column(data, given) for name, given in beside.items()},
    )


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize(
    "text, target, beside",
    [
        ("poisson", "count", {"exposure": "effort"}),
        ("Poisson", "count", {"offset": "log_effort"}),
        ("binomial", "hits", {"trials": "tries"}),
        ("exponential", "time", {"event": "seen"}),
        ("student-t(df=3, scale=0.1)", "value", {}),
        ("negative_binomial(dispersion=2)", "count", {"exposure": "effort"}),
    ],
)
def test_fit_is_the_fit_of_python(text, target, beside, ending, folder, tmp_path):
    output = tmp_path / "model.asvgp"
    options = [word for name, given in beside.items() for word in (f"--{name}", given)]
    roles = ("--target", target, "--input", "x", *options)
    call("fit", folder / f"counts.{ending}", *roles, "--likelihood", text, *FIXED, "-o", output)
    gp = load(output)
    expected = direct(likelihood(text), target, **beside)
    assert gp.likelihood == expected.likelihood
    assert gp.elbo_ == pytest.approx(expected.elbo_, rel=1e-11)


def test_one_number_for_all_rows(folder, tmp_path):
    output = tmp_path / "model.asvgp"
    roles = ("--target", "hits", "--input", "x", "--trials", 5)
    call("fit", folder / "counts.csv", *roles, "--likelihood", "binomial", *FIXED, "-o", output)
    assert load(output).stats_.weight == pytest.approx(5 * 900)


def test_predict_takes_exposures_and_types(folder, tmp_path):
    gp, data, output = load(folder / "counts.asvgp"), counts(), tmp_path / "out.parquet"
    model, rows = folder / "counts.asvgp", folder / "counts.csv"
    x, effort = column(data, "x"), column(data, "effort")

    call("predict", model, rows, "--exposure", "effort", "--level", 0.9, "-o", output)
    found = pq.read_table(output)
    mean, std = gp.predict(x, return_std=True, exposure=effort)
    assert found.column_names == ["x", "mean", "std", "lower", "upper"]
    np.testing.assert_allclose(column(found, "mean"), mean, rtol=1e-12)
    np.testing.assert_allclose(column(found, "std"), std, rtol=1e-12)
    ends = gp.predict_quantiles(x, (0.05, 0.95), exposure=effort)
    np.testing.assert_allclose(column(found, "lower"), ends[:, 0], rtol=1e-12)

    call("predict", model, rows, "--offset", "log_effort", "--include-noise", "-o", output)
    noisy = gp.predict(x, return_std=True, include_noise=True, exposure=effort)[1]
    np.testing.assert_allclose(column(pq.read_table(output), "std"), noisy, rtol=1e-12)

    call("predict", model, rows, "--type", "link", "--level", 0.9, "-o", output)
    found = pq.read_table(output)
    mean, std = gp.predict(x, return_std=True, type="link")
    np.testing.assert_allclose(column(found, "mean"), mean, rtol=0, atol=1e-12)
    half = 0.5 * (column(found, "upper") - column(found, "lower"))
    np.testing.assert_allclose(half, 1.6448536269514722 * std, rtol=1e-10)

    call("predict", model, "--at", "1:3:1", "--exposure", 2, "-o", output)
    wanted = gp.predict(np.array([1.0, 2.0, 3.0]), exposure=2.0)
    np.testing.assert_allclose(column(pq.read_table(output), "mean"), wanted, rtol=1e-12)


def test_update_and_merge_are_fits_to_all_data(folder, tmp_path):
    more, both = tmp_path / "more.asvgp", tmp_path / "both.asvgp"
    call(
        *("fit", folder / "more.csv", *COUNTS, "--likelihood", "poisson", *FIXED),
        *("-o", more),
    )
    call("merge", folder / "counts.asvgp", more, "-o", both)
    updated = tmp_path / "updated.asvgp"
    call(
        *("update", folder / "counts.asvgp", folder / "more.csv"),
        *("--exposure", "effort", "-o", updated),
    )
    whole = tmp_path / "whole.asvgp"
    call(
        *("fit", folder / "counts.csv", folder / "more.csv", *COUNTS),
        *("--likelihood", "poisson", *FIXED, "-o", whole),
    )
    elbo = load(whole).elbo_
    assert load(both).elbo_ == pytest.approx(elbo, rel=1e-11)
    assert load(updated).elbo_ == pytest.approx(elbo, rel=1e-11)


def test_info_shows_the_likelihood(folder, tmp_path):
    said = call("info", folder / "counts.asvgp").stdout
    assert "Likelihood        Poisson()" in said
    assert "read once" in said
    facts = json.loads(call("info", folder / "counts.asvgp", "--json").stdout)
    assert facts["likelihood"] == "poisson"
    assert facts["elbo"] == pytest.approx(direct(exposure="effort").elbo_)
    assert (facts["observations"], facts["reads"], facts["trained"]) == (900, 1, True)

    output = tmp_path / "robust.asvgp"
    roles = ("--target", "value", "--input", "x", "--likelihood", "student-t(df=3)")
    call("fit", folder / "counts.csv", *roles, *FIXED, "-o", output)
    facts = json.loads(call("info", output, "--json").stdout)
    assert facts["likelihood_numbers"]["df"] == 3.0
    assert facts["likelihood_numbers"]["free"] == ["scale"]
    assert facts["reads"] > 2
    assert "StudentT(df=3.0" in call("info", output).stdout


def test_an_interrupted_pass_is_resumed(folder, tmp_path, monkeypatch):
    output = tmp_path / "model.asvgp"
    command = ("fit", folder / "counts.parquet", *COUNTS, "--likelihood", "poisson", *FIXED)
    command = (*command, "-o", output)
    interrupt_after(monkeypatch, 2)
    said = call(*command, code=130).stderr
    assert "512 of 900 rows were summed" in said
    monkeypatch.undo()
    assert "Poisson()" in call("info", f"{output}.partial").stdout
    call(*command, "--resume")
    assert load(output).elbo_ == pytest.approx(direct(exposure="effort").elbo_, rel=1e-11)


def test_what_reads_again_leaves_no_checkpoint(folder, tmp_path, monkeypatch):
    output = tmp_path / "model.asvgp"
    roles = ("--target", "value", "--input", "x", "--likelihood", "student-t")
    interrupt_after(monkeypatch, 2)
    said = call("fit", folder / "counts.parquet", *roles, *FIXED, "-o", output, code=130).stderr
    assert "reads all rows several times, so nothing was saved" in said
    assert not list(tmp_path.iterdir())


def interrupt_after(monkeypatch, blocks: int) -> None:
    """Let Ctrl-C strike in the pass, after so many blocks of 256 rows."""
    monkeypatch.setattr("asvgp.sources.blocks.block_rows", lambda columns: 256)
    monkeypatch.setattr(checkpoint, "EVERY", -1.0)
    inner = checkpoint.CheckpointStream.blocks

    def until(self):
        for number, block in enumerate(inner(self)):
            if number == blocks:
                raise KeyboardInterrupt
            yield block

    monkeypatch.setattr(checkpoint.CheckpointStream, "blocks", until)


# ---------------------------------------------------------------- what is wrong


def test_likelihoods_that_are_none(folder):
    fit = ("fit", folder / "counts.csv", *COUNTS[:4], "-o", folder / "none.asvgp", "--likelihood")
    said = refused(folder, *fit, "poison", code=2)
    assert "There is no likelihood 'poison'" in said
    assert "negative-binomial" in said
    assert "does not take wings" in refused(folder, *fit, "poisson(wings=2)", code=2)
    assert "name=value" in refused(folder, *fit, "student-t(4)", code=2)
    assert "write poisson, or" in refused(folder, *fit, "student-t(df=4", code=2)
    assert "must be a positive number" in refused(folder, *fit, "student-t(df=-4)", code=2)


def test_data_that_do_not_go_with_a_likelihood(folder, tmp_path):
    output = ("--likelihood", "poisson", *FIXED, "-o", folder / "none.asvgp")
    x = ("--input", "x")
    data = folder / "counts.csv"
    said = refused(folder, "fit", data, "--target", "value", *x, *output)
    assert "y must contain non-negative counts" in said
    assert "The first is line " in said
    said = refused(folder, "fit", data, *COUNTS[:4], "--exposure", "log_effort", *output)
    assert "exposure must contain positive numbers" in said
    said = refused(folder, "fit", data, *COUNTS[:4], "--exposure", "efort", *output)
    assert "no column 'efort'" in said
    said = refused(folder, "fit", data, *COUNTS[:4], "--event", "seen", *output)
    assert "event has no meaning for Poisson()" in said
    said = refused(folder, "fit", data, *COUNTS, *FIXED, "-o", folder / "none.asvgp")
    assert "exposure is for likelihoods that are not Gaussian" in said


def test_predictions_that_cannot_be(folder):
    model, out = folder / "counts.asvgp", ("-o", folder / "none.csv")
    said = refused(folder, "predict", model, "--at", "1", "--exposure", "effort", *out, code=2)
    assert "there are no columns" in said
    said = refused(folder, "predict", model, folder / "more.csv", "--trials", "tries", *out)
    assert "trials has no meaning" in said
    said = refused(folder, "predict", model, folder / "more.csv", "--exposure", "no", *out)
    assert "no column 'no'" in said
    said = refused(
        folder, "predict", model, folder / "more.csv", "--type", "link", "--include-noise", *out
    )
    assert "there is no noise to include" in said


def test_help_lists_all_likelihoods():
    said = " ".join(call("fit", "--help").stdout.split())
    assert all(name in said.replace("- ", "-") for name in FAMILIES)


@pytest.mark.parametrize("text", ["gaussian", "GAUSSIAN"])
def test_gaussian_is_the_default(text):
    assert likelihood(text) is None


def test_numbers_and_words():
    assert likelihood("student-t( df = 3 , scale=auto )") == StudentT(df=3.0)
    assert likelihood("ordinal(levels=4)").levels == 4
    assert likelihood("bernoulli(link=probit)").link == "probit"


def test_classes_and_events_are_predicted_or_refused(tmp_path):
    x = np.linspace(0.0, 10.0, 200)
    labels = np.where(np.sin(x) > 0.0, "wet", "dry")
    classes = GPClassifier(Matern32(2.0) + Constant(), num_basis=12).fit(x, labels)
    three = GPClassifier(Matern32(2.0) + Constant(), num_basis=12, optimizer=None)
    three.fit(x, np.digitize(np.sin(x), [-0.5, 0.5]))
    events = CoxProcess(Matern32() + Constant(), domain=(0.0, 10.0), num_basis=12).fit(x)
    data, out = tmp_path / "places.csv", tmp_path / "out.csv"
    data.write_text("x\n1.5\n4.5\n")
    for gp, said in ((classes, "probabilities of 'wet'"), (events, "intensities")):
        gp.save(tmp_path / "model.asvgp")
        assert said in call("predict", tmp_path / "model.asvgp", data, "-o", out).stderr
        expected = gp.regressor_.predict([1.5, 4.5])
        np.testing.assert_allclose(column(pa_csv.read_csv(out), "mean"), expected, rtol=1e-12)
        said = refused(tmp_path, "update", tmp_path / "model.asvgp", data)
        assert f"holds a {type(gp).__name__}" in said
    three.save(tmp_path / "model.asvgp")
    said = refused(tmp_path, "predict", tmp_path / "model.asvgp", data, "-o", out)
    assert "holds a GPClassifier" in said
