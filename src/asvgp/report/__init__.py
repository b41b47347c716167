"""A fitted model as one page to read, explore and pass on: ``write_report(gp, "report.html")``.

The page is self-contained: no network, no fonts or scripts from elsewhere. It says what was
fitted and whether to believe it, draws the posterior at any zoom, and shows how to use the model.

Examples
--------
>>> import tempfile
>>> from pathlib import Path
>>> import numpy as np
>>> from asvgp import GPRegressor, Matern32
>>> from asvgp.report import write_report
>>> x = np.linspace(0.0, 10.0, 1000)
>>> y = np.sin(x) + 0.1 * np.random.default_rng(0).standard_normal(1000)
>>> gp = GPRegressor(Matern32()).fit(x, y)
>>> with tempfile.TemporaryDirectory() as folder:
...     page = write_report(gp, Path(folder) / "sine.html", x, y)
...     page.name, page.stat().st_size < 3_000_000
('sine.html', True)
"""

from asvgp.report.page import write_report

__all__ = ["write_report"]
