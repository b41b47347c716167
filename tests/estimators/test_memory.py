"""Models that go out of scope free their memory at once, not when the collector next runs."""

import gc
import weakref
from collections.abc import Callable

import numpy as np
import pytest

import asvgp
from asvgp import SHO, Constant, GPRegressor, Linear, Matern32, Periodic

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0.0, 10.0, 300))
Y = np.sin(X) + 0.1 * RNG.standard_normal(300)
PLANE = RNG.uniform(0.0, 1.0, (200, 2))
HEIGHT = np.sin(5.0 * PLANE[:, 0]) + 0.1 * RNG.standard_normal(200)
HOURS = np.arange(2000.0)
DAILY = np.sin(2.0 * np.pi * HOURS / 24.0) + 0.1 * RNG.standard_normal(2000)


@pytest.fixture
def left():
    """What of this package is left for the collector, as the names of its classes."""

    def found() -> list[str]:
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            gc.collect()
            return sorted({name(each) for each in gc.garbage if name(each).startswith("asvgp")})
        finally:
            gc.set_debug(0)
            gc.garbage.clear()

    def name(each: object) -> str:
        return f"{type(each).__module__}.{type(each).__qualname__}"

    gc.collect()
    gc.disable()
    yield found
    gc.enable()
    gc.collect()


MODELS: dict[str, Callable[[], GPRegressor]] = {
    "line": lambda: GPRegressor(Matern32()).fit(X, Y),
    "effects": lambda: GPRegressor(Matern32() + Constant() + Linear()).fit(X, Y),
    "default": lambda: GPRegressor().fit(X, Y),
    "exact": lambda: GPRegressor(Matern32() + SHO(24.0) + Constant()).fit(HOURS[:400], DAILY[:400]),
    "series": lambda: GPRegressor(Matern32() + Periodic(24.0) + Constant()).fit(HOURS, DAILY),
    "field": lambda: GPRegressor(Matern32() + Constant(), num_basis=8).fit(PLANE, HEIGHT),
    "sum": lambda: GPRegressor(Matern32(dim=0) + Matern32(dim=1), num_basis=8).fit(PLANE, HEIGHT),
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
def test_a_fitted_model_is_freed_at_once(make, left):
    gp = make()
    inputs = PLANE if gp.n_features_in_ == 2 else X
    gp.predict(inputs, return_std=True)
    gp.sample_y(inputs[:3])
    str(gp.summary())
    parts = [weakref.ref(part) for part in (gp, gp.stats_, gp.posterior_)]
    del gp
    assert [part() for part in parts] == [None, None, None]
    assert left() == []


@pytest.mark.parametrize("name", ["effects", "series", "field"])
def test_a_loaded_model_is_freed_at_once(name, left, tmp_path):
    MODELS[name]().save(tmp_path / "model.asvgp", full=True)
    assert left() == []
    gp = asvgp.load(tmp_path / "model.asvgp")
    gp.predict(PLANE if gp.n_features_in_ == 2 else X, return_std=True)
    parts = [weakref.ref(part) for part in (gp, gp.stats_, gp.posterior_)]
    del gp
    assert [part() for part in parts] == [None, None, None]
    assert left() == []


def test_training_again_frees_what_was_before(left):
    gp = MODELS["effects"]()
    parts = [weakref.ref(part) for part in (gp.stats_, gp.posterior_)]
    gp.partial_fit(X, Y).predict(X)
    assert [part() for part in parts] == [None, None]
    assert left() == []
