"""Pictures of fitted models, by matplotlib: ``pip install 'asvgp[plot]'``.

Every function takes a fitted `GPRegressor` first, or a `GPClassifier` with two classes, whose
second's probability it draws, or a `CoxProcess`, whose intensity it draws. It draws into ``ax``
where that is given and into a new figure where not, and returns the axes. Two million observations
draw in under a second, because they are reduced to what the pixels can show; zooming in a window
evaluates the model again. Everyone can tell the colours apart, and they follow light and dark
styles.

matplotlib is imported when something is drawn, not before.

Examples
--------
>>> import numpy as np
>>> from asvgp import GPRegressor, Matern32, plot
>>> x = np.linspace(0.0, 10.0, 1000)
>>> y = np.sin(x) + 0.1 * np.random.default_rng(0).standard_normal(1000)
>>> ax = plot.series(GPRegressor(Matern32()).fit(x, y), x, y)
>>> ax.get_xlabel(), ax.get_ylabel()
('x', 'y')
"""

from asvgp.plot.bounds import bound, resolution
from asvgp.plot.forecasts import forecast
from asvgp.plot.lines import series
from asvgp.plot.maps import map
from asvgp.plot.overview import check
from asvgp.plot.remainders import calibration, residuals
from asvgp.plot.terms import components

__all__ = [
    "bound",
    "calibration",
    "check",
    "components",
    "forecast",
    "map",
    "residuals",
    "resolution",
    "series",
]
