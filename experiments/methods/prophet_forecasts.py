# pyright: reportMissingImports=false
"""Prophet with its defaults: a trend with changes, and the seasons it finds fit for the dates.

As its "Quick start" (facebook.github.io/prophet); quantiles are those of its predictive samples.

Settings: "start" (date of step zero), "step" (seconds).
"""

import logging

import child
import numpy as np
import pandas as pd
from dates import dates
from prophet import Prophet

logging.getLogger("cmdstanpy").setLevel(logging.WARNING)


def fit(x, y, settings):
    np.random.seed(0)  # noqa: NPY002 (what Prophet draws from)
    calendar = settings["start"], settings["step"]
    model = Prophet().fit(pd.DataFrame({"ds": dates(x, *calendar), "y": y}))
    return {"model": model, "calendar": calendar, "info": {"seasons": list(model.seasonalities)}}


def predict(model, x):
    future = pd.DataFrame({"ds": dates(x, *model["calendar"])})
    mean = model["model"].predict(future)["yhat"]
    samples = model["model"].predictive_samples(future)["yhat"]
    return mean, np.quantile(samples, child.QUANTILES, axis=1).T


if __name__ == "__main__":
    child.main(fit, predict, versions=["prophet"])
