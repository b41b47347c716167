"""Weeks whose days change within hours: of written kernels, and where numbers name no calendar."""

import numpy as np
import pytest

from asvgp import Constant, GPRegressor, Matern32, Periodic


@pytest.fixture(scope="module")
def hours():
    """Return hours of 230 days, with two peaks on working days and one on others."""
    rng = np.random.default_rng(0)
    hour = np.arange(24.0 * 230)
    clock, working = hour % 24.0, (hour // 24.0) % 7 < 5
    peaks = np.exp(-0.5 * (clock - 8.0) ** 2) + 1.2 * np.exp(-0.5 * ((clock - 17.5) / 1.3) ** 2)
    shape = np.where(working, peaks, np.exp(-0.5 * ((clock - 14.0) / 3.5) ** 2))
    rest = np.zeros(len(hour))
    for i in range(1, len(hour)):
        rest[i] = 0.85 * rest[i - 1] + 18.0 * rng.standard_normal()
    return hour, 200.0 * shape * (1.0 + 0.3 * np.sin(2 * np.pi * hour / 8760.0)) + rest


def test_a_week_is_not_lost_to_a_rough_process(hours):
    """On first cells that suit a smooth week, 2,000 nats were lost."""
    given = Matern32(6.0) + Periodic(24.0, 3.0) + Periodic(168.0, 3.0) + Constant()
    near = GPRegressor(given).fit(*hours)
    far = GPRegressor(Matern32(6.0) + Periodic(24.0) + Periodic(168.0) + Constant()).fit(*hours)
    assert far.elbo_ > near.elbo_ - 2.0
    assert far.kernel_.components[2].lengthscale < 12.0


@pytest.mark.parametrize("steps", [24, 48])
def test_seven_days_are_tried_where_numbers_show_a_day(hours, steps):
    hour, y = hours
    x, kept = hour * steps / 24.0, slice(24 * 120)
    if steps == 48:  # every half an hour
        x, y = np.arange(2.0 * len(hour)), np.repeat(y, 2)
    gp = GPRegressor().fit(x[kept], y[kept])
    assert f"periods {steps}, {7 * steps}" in gp.summary().kernel_choice


@pytest.mark.parametrize("wave", [0.0, 1.0])
def test_no_week_is_found_where_all_days_are_alike(hours, wave):
    """A wave of five days is no week, either."""
    hour, _ = hours
    y = np.sin(2 * np.pi * hour / 24.0) + wave * np.sin(2 * np.pi * hour / 120.0)
    y += 0.3 * np.random.default_rng(1).standard_normal(len(hour))
    assert "168" not in str(GPRegressor().fit(hour[:2400], y[:2400]).summary().kernel_choice)
