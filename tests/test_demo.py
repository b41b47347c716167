"""The demonstration, on a smaller series."""

import sys

import numpy as np
import pytest

from asvgp import demo


def test_demo_prints_true_numbers_and_draws(tmp_path, capsys):
    picture = tmp_path / "picture.png"
    numbers = demo.run(60_000, str(picture))
    shown = capsys.readouterr().out
    assert numbers["observations"] >= 60_000
    assert numbers["held-out coverage of the 95 % band"] == pytest.approx(0.95, abs=0.02)
    assert demo.NOISE < numbers["held-out RMSE"] < 1.3 * demo.NOISE
    assert numbers["ELBO per datum"] < numbers["upper bound per datum"]
    assert all(name.strip() in shown for name in numbers)
    inside = numbers["forecast coverage of the 95 % band"]
    number = "all 500" if inside == 1.0 else f"{round(500 * inside)}"
    assert f"{100.0 * inside:.1f} % ({number} of 500 points)" in shown
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_command_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["demo", "--points", "5000", "--no-picture"])
    demo.main()
    assert "held-out NLPD" in capsys.readouterr().out


def test_series_has_its_gaps():
    series = demo.generate(50_000)
    assert np.all(np.diff(series.t) >= 0)
    for start, end in demo.GAPS:
        assert not np.any((series.t > start) & (series.t < end))
