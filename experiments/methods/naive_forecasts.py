"""The seasonal naive forecast: what was there a season ago.

Its bands are normal, from the differences a season apart in the history, and widen with the square
root of the seasons ahead (as Hyndman and Athanasopoulos, "Forecasting: principles and practice",
5.5). Where the value a season ago is missing, it is interpolated.

Settings: "season" (in steps).
"""

import child
import numpy as np


def fit(x, y, settings):
    x, season = x[:, 0], settings["season"]
    before = x - season
    there = before >= x[0]
    errors = y[there] - np.interp(before[there], x, y)
    return {"x": x, "y": y, "season": season, "std": np.sqrt(np.mean(errors**2)), "info": {}}


def predict(model, x):
    ahead = np.ceil((x[:, 0] - model["x"][-1]) / model["season"])
    mean = np.interp(x[:, 0] - ahead * model["season"], model["x"], model["y"])
    return mean, model["std"] * np.sqrt(ahead)


if __name__ == "__main__":
    child.main(fit, predict)
