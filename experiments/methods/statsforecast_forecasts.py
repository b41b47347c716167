# pyright: reportMissingImports=false
"""statsforecast: AutoETS, AutoARIMA, or MSTL with AutoETS for what the seasons leave.

As its guides "AutoETS", "AutoARIMA" and "Multiple seasonalities" (nixtlaverse.nixtla.io), with
everything not named here its default. AutoARIMA searches with approximate likelihoods, which is the
default of R's auto.arima for series as long as these; without, a fit takes minutes. Values that are
missing are interpolated: its models want all of them. AutoETS leaves out seasons longer than 24
steps.

Settings: "model" ("ets", "arima" or "mstl"), "seasons" (in steps), and optionally "rows" (only so
many of the last steps are used).
"""

import child
import numpy as np
from statsforecast.models import MSTL, AutoARIMA, AutoETS


def fit(x, y, settings):
    x = np.rint(x[:, 0]).astype(int)
    steps = np.arange(x[0], x[-1] + 1)
    regular = np.interp(steps, x, y)[-settings.get("rows", len(steps)) :]
    seasons = [round(season) for season in settings["seasons"]]
    if settings["model"] == "mstl":
        model = MSTL(seasons, trend_forecaster=AutoETS(model="ZZN"))
    else:
        models = {
            "ets": AutoETS(seasons[0]),
            "arima": AutoARIMA(season_length=seasons[0], approximation=True),
        }
        model = models[settings["model"]]
    return {"model": model.fit(regular), "last": x[-1], "info": {"rows": len(regular)}}


def predict(model, x):
    ahead = np.rint(x[:, 0]).astype(int) - model["last"] - 1
    bands = [round(100.0 * (1.0 - 2.0 * p)) for p in child.QUANTILES if p < 0.5]
    table = model["model"].predict(h=int(ahead[-1]) + 1, level=bands)
    lower = [table[f"lo-{band}"] for band in bands]
    upper = [table[f"hi-{band}"] for band in reversed(bands)]
    return table["mean"][ahead], np.column_stack([*lower, *upper])[ahead]


if __name__ == "__main__":
    child.main(fit, predict, versions=["statsforecast"])
