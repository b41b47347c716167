# pyright: reportMissingImports=false
"""gamfit: a penalised spline, its penalty by REML.

As its documentation (gamfit.readthedocs.io): a formula, `predict` with an observation interval.

Settings: "k" (number of functions; its own choice without).
"""

import child
import gamfit
import pandas as pd
from scipy.stats import norm


def fit(x, y, settings):
    smooth = f"s(x, k={min(settings['k'], len(y) // 4)})" if "k" in settings else "s(x)"
    formula = f"y ~ {smooth}"
    model = gamfit.fit(pd.DataFrame({"x": x[:, 0], "y": y}), formula)
    return {"model": model, "info": {"formula": formula}}


def predict(model, x):
    frame = pd.DataFrame({"x": x[:, 0]})
    found = model["model"].predict(frame, interval=0.95, observation_interval=True)
    width = found["observation_upper"] - found["observation_lower"]
    return found["posterior_mean"], width / (2 * norm.ppf(0.975))


if __name__ == "__main__":
    child.main(fit, predict, versions=["gamfit"])
