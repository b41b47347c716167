"""scikit-learn: Nystroem features of a Gaussian kernel, then ridge regression.

As its user guide, "Kernel approximation" (scikit-learn.org): a pipeline, its gamma by
`GridSearchCV` over it and the ridge's strength. The ridge that is kept is `BayesianRidge`, which
finds its strength by its evidence and has a standard deviation for new observations.

Settings: "components" (default 500), "search_rows" (rows for the grid search, default 5,000).
"""

import child
import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import BayesianRidge, Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler


def fit(x, y, settings):
    number = min(settings.get("components", 500), len(y) // 2)
    features = Nystroem(kernel="rbf", n_components=number, random_state=0)
    pipeline = make_pipeline(MinMaxScaler(), features, Ridge())
    # A kernel as wide as everything, down to one as wide as two components are apart.
    widths = np.geomspace(2.0 / number ** (1 / x.shape[1]), 1.0, 6)
    folds = KFold(3, shuffle=True, random_state=0)
    grid = {"nystroem__gamma": 0.5 / widths**2, "ridge__alpha": [1e-3, 1e-1, 10.0]}
    search = GridSearchCV(pipeline, grid, cv=folds, refit=False)
    rng = np.random.default_rng(0)
    some = rng.choice(len(y), min(len(y), settings.get("search_rows", 5_000)), replace=False)
    search.fit(x[some], y[some])
    features.set_params(gamma=search.best_params_["nystroem__gamma"])
    model = make_pipeline(MinMaxScaler(), features, BayesianRidge()).fit(x, y)
    return {"model": model, "info": {"components": number, "gamma": features.gamma}}


def predict(model, x):
    return model["model"].predict(x, return_std=True)


if __name__ == "__main__":
    child.main(fit, predict, versions=["scikit-learn"])
