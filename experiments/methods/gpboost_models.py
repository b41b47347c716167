# pyright: reportMissingImports=false
"""GPBoost: Vecchia's approximation of a Matern-3/2 with a length for each input.

As its documentation advises for large data (gpboost.readthedocs.io, "GPModel"):
``gp_approx="vecchia"``, 20 neighbours, everything else its default.

Settings: "neighbors" (default 20).
"""

import child
import gpboost
import numpy as np


def fit(x, y, settings):
    model = gpboost.GPModel(
        gp_coords=x,
        cov_function="matern_ard",
        cov_fct_shape=1.5,
        gp_approx="vecchia",
        num_neighbors=settings.get("neighbors", 20),
        likelihood="gaussian",
        seed=0,
    )
    model.fit(y=y, X=np.ones((len(y), 1)))
    noise, variance, *lengths = np.ravel(model.get_cov_pars())
    return {"model": model, "info": {"noise": noise, "variance": variance, "lengths": lengths}}


def predict(model, x):
    found = model["model"].predict(
        gp_coords_pred=x, X_pred=np.ones((len(x), 1)), predict_var=True, predict_response=True
    )
    return found["mu"], np.sqrt(found["var"])


if __name__ == "__main__":
    child.main(fit, predict, versions=["gpboost"])
