"""Real series and maps, and how well default fits predict what is held out of them.

    ASVGP_DATA=FOLDER python -m tests.accuracy.cases [NAME ...]

prints the scores, and with ``--record`` writes them to ``recorded.json``, which
``test_accuracy.py`` compares later ones with. Record anew only where a change of the defaults is
meant, and say in its commit what was gained and what was lost.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter

from asvgp import GPRegressor
from experiments.forecasting.series import ROLLING, TENTH, designs, load, splits
from experiments.harness.scores import forecast_scores, quantiles_of, scores, seasonal_error

RECORDED = Path(__file__).with_name("recorded.json")
HIDDEN = 0.3  # share of the cells of a map

# Name of a series, its file, and the design of `experiments.forecasting` that holds values out.
SERIES = {
    "traffic": ("metro_traffic", ROLLING),
    "bike sharing": ("bike_sharing", ROLLING),
    "household power": ("household_power_2007h1", TENTH),
    "temperature": ("beijing_prsa", ROLLING),
    "carbon dioxide": ("mauna_loa_co2_weekly", ROLLING),
}
# Name of a map, its file, the key of its values, their unit, and the part that is taken.
MAPS = {
    "sea level": ("ssh_global_20190223", "adt_1e4m", 1e-4, np.s_[100:160, 1000:1060]),
    "heights": ("srtm3_vancouver", "elev_m", 1.0, np.s_[0:120:2, 1400:1520:2]),
    "temperature in space and time": (
        "era5_t2m_uk_201903",
        "t2m_centi_c",
        0.01,
        np.s_[0:24:3, 0:32:2, 16:48:2],
    ),
}
NAMES = (*SERIES, *MAPS)


def folder() -> Path | None:
    """Return the folder with the data, which ASVGP_DATA names; None where there is none."""
    named = os.environ.get("ASVGP_DATA")
    return Path(named) if named and Path(named).is_dir() else None


def file_of(name: str) -> str:
    """Return the name of the file that holds a case."""
    return f"{(SERIES | MAPS)[name][0]}.npz"


def forecasts(name: str) -> dict[str, float]:
    """Return the scores of default forecasts of a series, averaged over origins."""
    series = load(name)
    design = next(found for found in designs(series) if found.name == SERIES[name][1])
    each = []
    for split in splits(series, design):
        clock = np.datetime64(series.start) + np.timedelta64(series.step, "s") * split.x[:, 0]
        later = np.datetime64(series.start) + np.timedelta64(series.step, "s") * split.x_test[:, 0]
        gp = fitted(clock, split.y)
        mean, std = gp.predict(later, return_std=True, include_noise=True)
        scale = seasonal_error(split.x[:, 0], split.y, series.season)
        found = forecast_scores(split.y_test, mean, quantiles_of(mean, std), scale)
        each.append(
            {
                "mase": found["mase"],
                "crps": found["crps"],
                "coverage": found["inside_95"],
                "bound": gp.optimization_.objective / len(split.y),
            }
        )
    return {key: float(np.mean([row[key] for row in each])) for key in each[0]}


def gaps(name: str) -> dict[str, float]:
    """Return the scores of a default fit of a map where clouds hide it."""
    file, key, unit, part = MAPS[name]
    found = folder()
    assert found is not None
    raw = np.load(found / f"{file}.npz")[key][part].astype(float)
    values = np.where(raw == -32768, np.nan, unit * raw)
    clouds = gaussian_filter(np.random.default_rng(0).standard_normal(values.shape), 3.0)
    hidden = clouds > np.quantile(clouds, 1.0 - HIDDEN)
    places = np.stack(np.indices(values.shape), axis=-1).astype(float)
    known = np.isfinite(values)
    train, test = known & ~hidden, known & hidden
    gp = fitted(places[train], values[train])
    mean, std = gp.predict(places[test], return_std=True, include_noise=True)
    got = scores(values[test], mean, std)
    mse, crps, coverage = (float(got[key] or np.nan) for key in ("mse", "crps", "coverage"))
    typical = float(np.std(values[train]))
    return {
        "rmse": mse**0.5 / typical,
        "crps": crps / typical,
        "coverage": coverage,
        "bound": gp.optimization_.objective / int(train.sum()),
    }


def fitted(x, y) -> GPRegressor:
    """Return a default fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GPRegressor().fit(x, y)


def scores_of(name: str) -> dict[str, float]:
    """Return the scores of a case by name."""
    return forecasts(name) if name in SERIES else gaps(name)


def main() -> None:
    """Print, and perhaps record, the scores."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    results = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    for name in options.names:
        begin = time.process_time()
        found = scores_of(name)
        print(name, found, f"{time.process_time() - begin:.1f} CPU s", flush=True)
        results[name] = {key: round(value, 5) for key, value in found.items()}
    if options.record:
        RECORDED.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
