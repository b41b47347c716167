"""Forecasts of six series by everybody: how near they are, how honest, and how long they take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.forecasting import pictures, words
from experiments.forecasting.series import (
    NAMES,
    ROLLING,
    TENTH,
    Design,
    Series,
    designs,
    load,
    splits,
)
from experiments.harness import process, results
from experiments.harness.datasets import Missing
from experiments.harness.process import Method
from experiments.harness.results import Results, Row
from experiments.harness.scores import forecast_scores, quantiles_of, seasonal_error
from experiments.harness.splits import Split
from experiments.methods.child import QUANTILES

TITLE = "Forecasts"
LIMIT, FULL_LIMIT = 120.0, 3600.0  # seconds of a method, for a series and a design
ARIMA_ROWS = 1008  # steps that AutoARIMA is given: its time grows fast with them
BAD_QUANTILES = "quantiles are missing, or not finite"
SHOWN = {"low_95": 0.025, "low_80": 0.1, "high_80": 0.9, "high_95": 0.975}


def methods(series: Series) -> list[Method]:
    """Everybody, with what they are told about the series; the scripts say whom they follow."""
    calendar = {"start": series.start, "step": series.step}
    seasons = {"seasons": list(series.seasons)}
    stats = "statsforecast_forecasts.py", "forecast"
    return [
        Method(words.DEFAULT, "asvgp_forecasts.py", settings=calendar),
        Method(words.WRITTEN, "asvgp_forecasts.py", settings=calendar | {"kernel": series.kernel}),
        Method(words.NAIVE, "naive_forecasts.py", settings={"season": series.season}),
        Method("celerite2", "celerite_forecasts.py", "small", seasons),
        Method("AutoETS", *stats, seasons | {"model": "ets"}),
        Method("AutoARIMA", *stats, seasons | {"model": "arima", "rows": ARIMA_ROWS}),
        Method("MSTL", *stats, seasons | {"model": "mstl"}),
        Method("Prophet", "prophet_forecasts.py", "forecast", calendar),
    ]


def run(found: Results, names: Sequence[str] = NAMES) -> None:
    """Every method on every series, by rolling origins and on the last tenth.

    Where only some are to run again, the rows of all others are those of the run before.
    """
    before = earlier(found)
    for name in names:
        try:
            series = load(name)
        except Missing as error:
            found.add({"method": "", "dataset": name, "n": 0, "reason": str(error)})
            continue
        found.record.setdefault("series", {})[name] = about(series)
        for design in designs(series):
            parts = splits(series, design)
            for method in methods(series):
                limit = FULL_LIMIT if found.full else LIMIT
                row = before.get((method.label, series.name, design.name))
                found.add(row or one(method, series, design, parts, limit))


def earlier(found: Results) -> dict[tuple[str, str, str], Row]:
    """Rows of the run before, of the methods that are not to run again; none where all are."""
    again, old = found.record.get("again"), results.read(found.name, found.full)
    if not again or old is None:
        return {}
    return {
        (row["method"], row["dataset"], row.get("design", "")): row
        for row in old.rows
        if not any(name.lower() in row["method"].lower() for name in again)
    }


def about(series: Series) -> dict[str, Any]:
    """What pictures and pages need of a series: the end of it, and what it is."""
    design = designs(series)[0]
    last = splits(series, design)[-1]
    tail = 3 * design.horizon
    return {
        "note": series.note,
        "unit": series.unit,
        "start": series.start,
        "step": series.step,
        "kernel": series.kernel,
        "values": len(series.y),
        "missing": round(series.x[-1] - series.x[0]) + 1 - len(series.y),
        "known_x": _text(last.x[-tail:, 0]),
        "known_y": _text(last.y[-tail:]),
        "later_x": _text(last.x_test[:, 0]),
        "later_y": _text(last.y_test),
    }


def one(
    method: Method, series: Series, design: Design, parts: Sequence[Split], limit: float
) -> Row:
    """A row: scores averaged over the origins, and the forecast from the last of them.

    Averages over other origins could not be compared: where one has no result, the row has none.
    """
    row: Row = {
        "method": method.label,
        "dataset": series.name,
        "n": parts[-1].size,
        "design": design.name,
        "settings": method.settings,
        "origins": design.origins,
    }
    each: list[Row] = []
    reasons: list[str] = []
    last: Row = {}
    answers = process.answers(method, parts, limit, warm=True)
    for part, (mean, spread, got) in zip(parts, answers, strict=True):
        if "reason" not in got and spread is not None:
            quantiles = quantiles_of(mean, spread)
            if quantiles.shape == (len(mean), len(QUANTILES)) and np.all(np.isfinite(quantiles)):
                scale = seasonal_error(part.x[:, 0], part.y, series.season)
                each.append(got | forecast_scores(part.y_test, mean, quantiles, scale))
                last = shown(mean, quantiles) if part is parts[-1] else {}
                continue
        reasons.append(got.get("reason", BAD_QUANTILES))
    if reasons:
        return row | {"reason": f"{len(each)} of {len(parts)} forecasts, then {reasons[0]}"}
    keys = "mase", "crps", "inside_80", "inside_95", "fit_seconds", "predict_seconds"
    row |= {key: float(np.mean([got[key] for got in each])) for key in keys}
    row |= {
        "warm_seconds": each[0]["warm_seconds"],
        "mases": [round(got["mase"], 4) for got in each],
        "versions": each[0]["versions"],
        "info": {key: value for key, value in each[-1]["info"].items() if np.isscalar(value)},
    }
    return row | ({"forecast": last} if last and design.name == ROLLING else {})


def shown(mean: np.ndarray, quantiles: np.ndarray) -> dict[str, str]:
    """What a picture shows of a forecast, as text: a line each in the results file."""
    bands = {name: _text(quantiles[:, QUANTILES.index(level)]) for name, level in SHOWN.items()}
    return {"mean": _text(mean)} | bands


def table(found: Results) -> str:
    """The page: where we lose, the summary, and a table and a picture for each series."""
    return words.page(found, (ROLLING, TENTH))


def figure(found: Results) -> None:
    """A picture of each series: the end of its history, the forecasts from the last origin."""
    pictures.draw(found)


def _text(values: np.ndarray) -> str:
    return " ".join(f"{value:.6g}" for value in values)
