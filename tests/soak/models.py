"""Random models beside dense ones, the same rows from any source, and settings of all kinds."""

from __future__ import annotations

import numpy as np
import pandas as pd

import asvgp
from asvgp import Constant, GPRegressor, Matern32, Matern52
from tests.oracle.compare import check, reproducer
from tests.soak.campaign import Campaign, Failure, check_numbers, refused


class Models(Campaign):
    """The oracle's models, each beside its dense twin."""

    name = "models"

    def case(self, rng):
        """Compare one model with its dense twin."""
        outcome = check(int(rng.integers(1 << 40)))
        if outcome.wrong:
            raise Failure("\n" + reproducer(outcome))
        return "refused" if outcome.refused else "agree"


class Sources(Campaign):
    """The same rows as arrays, frames, files, chunks and portions: the same model."""

    name = "sources"

    def case(self, rng):
        """Fit the same rows twice, from different sources."""
        n, inputs = int(rng.integers(5, 400)), int(rng.integers(1, 3))
        X, y = rng.uniform(0.0, 3.0, (n, inputs)), rng.standard_normal(n)
        kernel = Matern32(0.5, dim="a") if inputs == 1 else Matern32(dim="a") * Matern52(dim="b")
        names = ["a", "b"][:inputs]
        frame = pd.DataFrame(X, columns=names).assign(y=y)
        settings = {"num_basis": 12, "noise_variance": 0.3, "optimizer": None}
        settings["domain"] = (0.0, 3.0) if inputs == 1 else [(0.0, 3.0)] * 2

        def fitted(*rows):
            return GPRegressor(kernel + Constant(variance=4.0), **settings).fit(*rows)

        whole, kind = (
            fitted(frame[names], y),
            str(rng.choice(["csv", "parquet", "chunks", "parts"])),
        )
        if kind == "parts":
            other = GPRegressor(kernel + Constant(variance=4.0), **settings)
            for part in np.array_split(np.arange(n), int(rng.integers(1, 5))):
                if len(part):
                    other.partial_fit(frame[names].iloc[part], y[part])
        elif kind == "chunks":
            edges = np.sort(rng.integers(0, n + 1, 3))
            chunks = [frame.iloc[part] for part in np.split(np.arange(n), edges) if len(part)]
            other = GPRegressor(kernel + Constant(variance=4.0), **settings)
            other.fit(asvgp.scan(chunks), "y")
        else:
            path = self.folder / f"rows.{kind}"
            frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
            other = GPRegressor(kernel + Constant(variance=4.0), **settings).fit(path, "y")
        if not np.isclose(whole.elbo_, other.elbo_, rtol=1e-9, atol=1e-9):
            raise Failure(f"{kind}: bound {other.elbo_!r}, of arrays {whole.elbo_!r}")
        return kind


_NUMBERS = (
    0,
    -1,
    1,
    2,
    3.7,
    1e-300,
    1e300,
    np.nan,
    np.inf,
    -np.inf,
    10**30,
    True,
    None,
    "x",
    [],
    {},
)


class Settings(Campaign):
    """Arguments of every kind, sensible or not: a model with finite answers, or a clear error."""

    name = "settings"

    def case(self, rng):
        """Fit a small series with a random argument or two."""

        def any_of(*more):
            options = (*_NUMBERS, *more)
            return options[int(rng.integers(len(options)))]

        choices = {
            "num_basis": lambda: any_of("auto", 20, (5, 5), 10**7),
            "noise_variance": lambda: any_of("auto", 0.1),
            "domain": lambda: any_of((0, 1), (1, 0), (-5, 9), (0, np.inf), (-1e300, 1e300), (0, 0)),
            "degree": lambda: any_of(4, 6, 7),
            "objective": lambda: any_of("auto", "elbo", "evidence"),
            "optimizer": lambda: any_of("lbfgs", asvgp.LBFGS(restarts=1)),
            "memory_limit": lambda: any_of("8 GiB", "1 B", "-1 GiB"),
            "transform": lambda: any_of("auto", "log", "sqrt", 0.5),
            "noise_scale": lambda: any_of("auto", 2.0),
            "max_time": lambda: any_of("1 second", 0.01),
            "likelihood": lambda: any_of(asvgp.Poisson(), asvgp.Gaussian()),
        }
        picked = rng.choice(list(choices), int(rng.integers(1, 3)), replace=False)
        given = {"num_basis": 20} | {str(name): choices[str(name)]() for name in picked}
        x = rng.uniform(0.0, 4.0, int(rng.choice([1, 2, 30])))
        y = np.abs(np.sin(3.0 * x)) + 0.1 * rng.uniform(size=len(x))
        y = np.rint(3.0 * y) if isinstance(given.get("likelihood"), asvgp.Poisson) else y
        kernel = Matern32(*(float(10.0 ** rng.uniform(-9, 9)) for _ in range(2)))
        try:
            gp = GPRegressor(kernel, **given).fit(x, y)
            check_numbers(*gp.predict([0.5, 9.0], return_std=True), gp.elbo_)
        except (Failure, KeyboardInterrupt) as error:
            raise Failure(f"{error} with {kernel!r}, {given}, {len(x)} rows") from error
        except MemoryError as error:
            return "refused" if "iB" in str(error) else refused(error)
        except Exception as error:
            try:
                return refused(error)
            except Failure as failure:
                raise Failure(f"{failure} with {given}, {len(x)} rows") from error
        return "fitted"
