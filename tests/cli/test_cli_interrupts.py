"""Ctrl-C during commands: what was summed is kept, and files stay as they were."""

import pytest
from numpy.testing import assert_array_equal

import asvgp
from asvgp import GPRegressor
from asvgp.cli import checkpoint
from asvgp.estimators.ingest import Reader
from tests.cli.command_line import ROLES, call, direct


def interrupt_after(monkeypatch, calls: int) -> None:
    """Ctrl-C in the pass, after so many portions of the data."""
    honest, done = Reader.statistics, []

    def statistics(self, *arguments):
        done.append(1)
        if len(done) > calls:
            raise KeyboardInterrupt
        return honest(self, *arguments)

    monkeypatch.setattr(Reader, "statistics", statistics)


def test_an_interrupted_pass_is_resumed(files, tmp_path, monkeypatch):
    monkeypatch.setattr("asvgp.sources.blocks.block_rows", lambda columns: 150)
    monkeypatch.setattr(checkpoint, "EVERY", -1.0)
    output, source = tmp_path / "m.asvgp", files / "power.csv"
    arguments = ("fit", source, *ROLES, "--num-basis", 60, "-o", output)
    output.write_bytes(b"the old model")
    with monkeypatch.context() as patch:
        interrupt_after(patch, 3)
        result = call(*arguments, code=130)
    assert result.stderr.startswith("interrupted: 450 rows were summed and are in")
    assert result.stderr.endswith(f"--resume continues from there; {output} is as it was\n")
    assert output.read_bytes() == b"the old model"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.asvgp", "m.asvgp.partial"]
    assert asvgp.load(f"{output}.partial").stats_.count == 450

    for other in ("--fixed", "--noise=0.1", "--domain=2024-01-01,2025-01-01"):
        assert "of another fit" in call(*arguments, "--resume", other, code=1).stderr
    assert (
        "data differ"
        in call(*("fit", files / "power.parquet"), *arguments[2:], "--resume", code=1).stderr
    )
    call(*arguments, "--resume")
    gp, twin = asvgp.load(output), direct(num_basis=60)
    assert gp.stats_.count == 1000
    assert gp.elbo_ == pytest.approx(twin.elbo_, rel=1e-12)
    assert [path.name for path in tmp_path.iterdir()] == ["m.asvgp"]
    assert "no " in call(*arguments, "--resume", code=1).stderr


def test_a_resumed_pass_can_be_interrupted_again(files, tmp_path, monkeypatch):
    monkeypatch.setattr("asvgp.sources.blocks.block_rows", lambda columns: 150)
    monkeypatch.setattr(checkpoint, "EVERY", -1.0)
    output = tmp_path / "m.asvgp"
    domain = ("--domain", "2024-01-01,2024-02-01T12:00", "--kernel", "matern32(2d) + constant")
    arguments = ("fit", files / "power.parquet", *ROLES, *domain, "--num-basis", 60, "-o", output)
    with monkeypatch.context() as patch:
        interrupt_after(patch, 2)
        call(*arguments, code=130)
    honest, done = GPRegressor.partial_fit, []

    def partial_fit(self, *rows, **beside):
        done.append(1)
        if len(done) > 2:
            raise KeyboardInterrupt
        return honest(self, *rows, **beside)

    with monkeypatch.context() as patch:
        patch.setattr(GPRegressor, "partial_fit", partial_fit)
        assert "600 of 1,000 rows" in call(*arguments, "--resume", code=130).stderr
    call(*arguments, "--resume")
    assert_array_equal(asvgp.load(output).stats_.count, 1000)


def test_an_interrupt_before_anything_was_read_leaves_nothing(files, tmp_path, monkeypatch):
    interrupt_after(monkeypatch, 0)
    output = tmp_path / "m.asvgp"
    result = call("fit", files / "power.csv", *ROLES, "-o", output, code=130)
    assert "no rows had been summed yet, so nothing was saved" in result.stderr
    assert f"there is no {output}" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_interrupted_updates_and_predictions_leave_files_as_they_were(files, tmp_path, monkeypatch):
    model = tmp_path / "m.asvgp"
    model.write_bytes((files / "power.asvgp").read_bytes())
    out = tmp_path / "out.csv"

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(GPRegressor, "partial_fit", stop)
        call("update", model, files / "new.csv", code=130)
    monkeypatch.setattr("asvgp.cli.predict.answers", stop)
    call("predict", model, files / "new.csv", "-o", out, code=130)
    assert [path.name for path in tmp_path.iterdir()] == ["m.asvgp"]
    assert model.read_bytes() == (files / "power.asvgp").read_bytes()
