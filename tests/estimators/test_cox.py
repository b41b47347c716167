"""Cox processes: against dense processes on fine bins, and what must hold exactly."""

import pickle

import numpy as np
import pytest
from scipy.special import ndtri
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from asvgp import Constant, CoxProcess, Matern, Matern12, Matern32, Matern52

KERNEL = Matern52(3.0, 0.8) + Constant()
FIXED = {"num_basis": 40, "optimizer": None}


def thinned(rng, places, rate, most):
    """Return the places that a rate below ``most`` keeps."""
    return places[rng.random(len(places)) < rate(places) / most]


def drawn(windows=((0.0, 20.0),), seed=3):
    """Return events of a rate of 10 exp(sin(x / 2) - 0.05 x) in windows."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.0, 20.0, rng.poisson(20.0 * 30.0))
    x = thinned(rng, x, lambda x: 10.0 * np.exp(np.sin(0.5 * x) - 0.05 * x), 30.0)
    return x[[any(a <= place <= b for a, b in windows) for place in x]]


def dense(prior, counts, sizes, steps=30):
    """Return mean and variance of f on bins, by a Gaussian process on all of them."""
    prior = prior + 1e4  # of the level
    m, v = np.full(len(prior), np.log(counts.sum() / sizes.sum())), np.zeros(len(prior))
    weight, target, change = sizes * np.exp(m), sizes * np.exp(m) * m, np.inf
    for _ in range(steps):
        mean = sizes * np.exp(m + 0.5 * v)  # half a step to the sites that suit it
        weight, target = 0.5 * (weight + mean), 0.5 * (target + counts - mean + mean * m)
        covariance = np.linalg.solve(np.eye(len(m)) + prior * weight, prior)
        new, v = covariance @ target, np.diag(covariance)
        change, m = np.max(np.abs(new - m)), new
    assert change < 1e-6
    return m, v


def covariance(kernel, x):
    """Return the covariances of a kernel between numbers."""
    return kernel.covariance(np.abs(x[:, None] - x))


@pytest.mark.parametrize(
    "windows", [((0.0, 20.0),), ((0.0, 4.3), (7.7, 13.0), (15.0, 20.0))], ids=["whole", "gaps"]
)
def test_it_is_a_dense_process_on_fine_bins(windows):
    events = drawn(windows)
    cox = CoxProcess(KERNEL, domain=(0, 20), windows=windows, **FIXED).fit(events)
    edges = np.linspace(0.0, 20.0, 401)
    low, high = edges[:-1], edges[1:]
    sizes = sum(np.clip(np.minimum(high, b) - np.maximum(low, a), 0.0, None) for a, b in windows)
    x = 0.5 * (low + high)
    m, v = dense(covariance(KERNEL.components[0], x), np.histogram(events, edges)[0], sizes)
    mean, std = cox.regressor_.predict(x, return_std=True, type="link")
    assert np.max(np.abs(mean - m) / np.sqrt(v)) < 0.03
    np.testing.assert_allclose(std, np.sqrt(v), rtol=0.01)
    rate, spread = cox.intensity(x, return_std=True)
    np.testing.assert_allclose(rate, np.exp(mean + 0.5 * std**2), rtol=1e-9)
    np.testing.assert_allclose(spread, rate * np.sqrt(np.expm1(std**2)), rtol=1e-6)
    bands = cox.intensity_quantiles(x, [0.1, 0.9])
    wanted = np.exp(mean[:, None] + std[:, None] * ndtri([0.1, 0.9]))
    np.testing.assert_allclose(bands, wanted, rtol=1e-9)


def exposure(x):
    return 0.2 + 0.04 * x


@pytest.mark.parametrize("seen", [None, exposure], ids=["all", "exposure"])
@pytest.mark.parametrize("windows", [None, [(0.0, 4.3), (7.7, 20.0)]], ids=["whole", "gaps"])
def test_a_free_level_makes_the_mean_number_that_of_the_events(windows, seen):
    events = drawn(windows or ((0.0, 20.0),))
    cox = CoxProcess(domain=(0, 20), windows=windows, exposure=seen, num_basis=50).fit(events)
    total = 0.0
    for a, b in windows or [(0.0, 20.0)]:
        x = np.linspace(a, b, 20_001)
        share = np.ones(len(x)) if seen is None else seen(x)
        total += np.trapezoid(cox.intensity(x) * share, x)
    assert total == pytest.approx(len(events), rel=1e-4)
    if seen is None:
        counts = cox.expected_count(*np.transpose(cox.windows_))
        assert np.sum(counts) == pytest.approx(len(events), rel=1e-5)


def test_gaps_are_places_without_exposure():
    windows = [(0.0, 4.0), (6.0, 10.0)]
    events = drawn(windows)
    settings = {"num_basis": 24, "degree": 4, "optimizer": None, "domain": (0, 10)}  # 20 cells
    gaps = CoxProcess(KERNEL, windows=windows, **settings).fit(events)
    none = CoxProcess(KERNEL, exposure=lambda x: (x < 4) | (x > 6), **settings).fit(events)
    x = np.linspace(0.0, 10.0, 101)
    np.testing.assert_allclose(gaps.intensity(x), none.intensity(x), rtol=1e-7)
    assert gaps.regressor_.elbo_ == pytest.approx(none.regressor_.elbo_, abs=1e-6)
    _, std = gaps.regressor_.predict([2.0, 5.0], return_std=True, type="link")
    assert std[1] > std[0]


def test_twice_the_exposure_is_half_the_intensity():
    events, x = drawn(), np.linspace(0.0, 20.0, 50)
    once = CoxProcess(KERNEL, domain=(0, 20), **FIXED).fit(events)
    twice = CoxProcess(KERNEL, domain=(0, 20), exposure=lambda x: 2.0, **FIXED).fit(events)
    np.testing.assert_allclose(2.0 * twice.intensity(x), once.intensity(x), rtol=1e-5)
    # The level takes the factor up, but for its wide prior: events are as probable as before.
    assert twice.regressor_.elbo_ == pytest.approx(once.regressor_.elbo_, abs=1e-3)


def test_expected_counts_of_parts_add_up_and_have_spread():
    cox = CoxProcess(KERNEL, domain=(0, 20), **FIXED).fit(drawn())
    parts, std = cox.expected_count([0.0, 5.0], [5.0, 20.0], return_std=True)
    whole, _ = cox.expected_count(0.0, 20.0, return_std=True)
    assert np.sum(parts) == pytest.approx(whole, rel=1e-5)
    x = np.linspace(0.0, 5.0, 301)
    mean = cox.regressor_.integrate(0.0, 5.0)
    assert parts[0] == pytest.approx(mean, rel=1e-4)
    cov = cox.regressor_.predict(x, return_cov=True)[1]
    weight = np.full(len(x), x[1])
    weight[[0, -1]] *= 0.5
    assert std[0] == pytest.approx(np.sqrt(weight @ cov @ weight), rel=1e-3)
    _, noisy = cox.expected_count(0.0, 5.0, return_std=True, include_noise=True)
    assert noisy == pytest.approx(np.sqrt(std[0] ** 2 + parts[0]))
    beyond = cox.expected_count(18.0, 25.0)
    assert beyond == pytest.approx(cox.regressor_.integrate(18.0, 25.0))


def test_times_are_numbers_of_seconds():
    events = drawn()
    start = np.datetime64("2024-03-01T00:00:00", "ns")
    times = start + np.rint(events * 86400e9).astype("timedelta64[ns]")
    kernel = Matern52("3 days", 0.8) + Constant()
    ends = (start, start + np.timedelta64(20, "D"))
    cox = CoxProcess(kernel, domain=ends, **FIXED).fit(times)
    ours = CoxProcess(KERNEL, domain=(0, 20), **FIXED).fit(events)
    at = start + np.array([2, 9, 15], "timedelta64[D]")
    wanted = ours.intensity([2.0, 9.0, 15.0])
    np.testing.assert_allclose(cox.intensity(at, per="1 day"), wanted, rtol=1e-4)
    np.testing.assert_allclose(cox.intensity(at) * 86400.0, wanted, rtol=1e-4)
    assert cox.expected_count(at[0], at[1]) == pytest.approx(ours.expected_count(2, 9), rel=1e-4)
    (sample,) = cox.sample(random_state=0)
    assert sample.dtype.kind == "M"
    assert ends[0] <= sample.min() < sample.max() <= ends[1]
    with pytest.raises(ValueError, match="duration"):
        ours.intensity([2.0], per="1 day")


def test_two_inputs_are_a_dense_process_on_fine_bins():
    rng = np.random.default_rng(1)
    events = rng.uniform(0.0, 1.0, (900, 2))
    events = thinned(rng, events, lambda x: np.exp(-4.0 * np.sum((x - 0.4) ** 2, axis=1)), 1.0)
    events = (np.floor(24.0 * events) + 0.5) / 24.0  # as bins have them
    first, second = Matern52(0.8, 1.0, dim=0), Matern52(0.8, dim=1)
    kernel, box = first * second + Constant(), ((0, 1), (0, 1))
    cox = CoxProcess(kernel, domain=box, num_basis=14, optimizer=None).fit(events)
    assert cox.expected_count([0, 0], [1, 1]) == pytest.approx(len(events), rel=1e-5)
    edges = np.linspace(0.0, 1.0, 25)
    counts = np.histogram2d(*events.T, (edges, edges))[0].ravel()
    middle = 0.5 * (edges[1:] + edges[:-1])
    prior = np.kron(covariance(first, middle), covariance(second, middle))
    m, v = dense(prior, counts, np.full(len(counts), 1.0 / len(counts)))
    grid = np.stack([x.ravel() for x in np.meshgrid(middle, middle, indexing="ij")], axis=1)
    mean, std = cox.regressor_.predict(grid, return_std=True, type="link")
    assert np.max(np.abs(mean - m) / np.sqrt(v)) < 0.03
    np.testing.assert_allclose(std, np.sqrt(v), rtol=0.01)
    left = [((0.0, 0.5), (0.0, 1.0)), ((0.5, 1.0), (0.5, 1.0))]
    kept = events[(events[:, 0] <= 0.5) | (events[:, 1] >= 0.5)]
    part = CoxProcess(kernel, windows=left, num_basis=10, optimizer=None).fit(kept)
    counts = [part.expected_count(*np.transpose(each)) for each in left]
    assert sum(counts) == pytest.approx(len(kept), rel=1e-5)
    assert part.windows_ == left
    (sample,) = part.sample(random_state=0)
    assert sample.shape[1] == 2
    assert not np.any((sample[:, 0] > 0.5) & (sample[:, 1] < 0.5))
    assert abs(len(sample) - len(kept)) < 6.0 * np.sqrt(2.0 * len(kept))


def test_samples_are_as_the_events_were_observed():
    windows = [(0.0, 4.3), (7.7, 20.0)]
    events = drawn(windows)
    cox = CoxProcess(KERNEL, windows=windows, exposure=exposure, **FIXED).fit(events)
    sets = cox.sample(300, random_state=0)
    assert all(np.all((x <= 4.3) | (x >= 7.7)) for x in sets)
    early = np.array([np.sum(x < 4.3) for x in sets])
    x = np.linspace(0.0, 4.3, 2001)
    wanted = np.trapezoid(cox.intensity(x) * exposure(x), x)
    assert abs(early.mean() - wanted) < 5.0 * early.std() / np.sqrt(len(sets))
    assert early.std() > np.sqrt(wanted)  # the intensity varies, too
    again = cox.sample(2, random_state=0)
    np.testing.assert_array_equal(again[0], cox.sample(2, random_state=0)[0])


def test_samples_have_the_variance_that_splines_miss():
    kernel = Matern12(0.3, 1.0) + Constant()
    cox = CoxProcess(kernel, domain=(0, 20), num_basis=12, optimizer=None).fit(drawn())
    counts = np.array([len(x) for x in cox.sample(300, random_state=0)])
    wanted = cox.expected_count(0.0, 20.0)
    assert abs(counts.mean() - wanted) < 5.0 * counts.std() / np.sqrt(len(counts))


def test_rates_per_duration_count_every_input_of_time():
    rng = np.random.default_rng(0)
    hours = rng.integers(0, 240, (100, 2))
    times = np.datetime64("2024-01-01", "h") + hours.astype("timedelta64[h]")
    domain = (("2024-01-01", "2024-01-12"),) * 2
    kernel = Matern32("5 days", dim=0) * Matern32("5 days", dim=1) + Constant()
    cox = CoxProcess(kernel, domain=domain, num_basis=6, optimizer=None).fit(times)
    each = cox.intensity(times[:1], per="1 day") / cox.intensity(times[:1])
    assert each[0] == pytest.approx(86_400.0**2)


def test_areas_are_those_of_the_sphere():
    rng = np.random.default_rng(0)
    top = np.sin(np.deg2rad(80.0))
    lat = np.rad2deg(np.arcsin(rng.uniform(-top, top, 3000)))
    place = np.column_stack([rng.uniform(-180.0, 180.0, 3000), lat])  # uniform on the sphere
    kernel = Matern(1, 40.0, 0.1, dim=(0, 1), coordinates="degrees") + Constant()
    settings = {"domain": ((-180, 180), (-80, 80)), "num_basis": (16, 10), "optimizer": None}
    cox = CoxProcess(kernel, **settings).fit(place)
    wanted = 3000.0 / (360.0 * 2.0 * top * 180.0 / np.pi)  # per square degree of arc
    rates = cox.intensity([[0.0, 0.0], [90.0, 70.0], [-120.0, -70.0]])
    np.testing.assert_allclose(rates, wanted, rtol=0.25)
    halves = cox.expected_count([[-180, -80], [-180, 0]], [[180, 0], [180, 80]])
    assert halves.sum() == pytest.approx(3000.0, rel=1e-3)
    assert halves[0] == pytest.approx(np.sum(lat < 0.0), rel=0.05)
    drawn = cox.sample(1, random_state=0)[0]
    assert np.mean(np.abs(drawn[:, 1]) < 30.0) == pytest.approx(0.5 / top, abs=0.05)
    with pytest.raises(ValueError, match="inside the domain"):
        cox.expected_count([-180, -85], [180, 0])
    with pytest.raises(ValueError, match=r"sample\(\)"):
        cox.expected_count([-180, -80], [180, 0], return_std=True)


def test_no_events_are_kept():
    events = np.random.default_rng(0).uniform(0.0, 20.0, 50_000)
    cox = CoxProcess(KERNEL, domain=(0, 20), **FIXED).fit(events)
    assert len(pickle.dumps(cox)) < events.nbytes / 4


def test_the_domain_is_the_range_of_the_events_widened():
    events = np.random.default_rng(0).uniform(3.0, 7.0, 200)
    cox = CoxProcess(KERNEL, num_basis=10, optimizer=None).fit(events)
    more = np.ptp(events) / 199
    assert cox.windows_ == [(events.min() - more, events.max() + more)]
    assert cox.events_ == 200


def test_one_event_is_enough():
    cox = CoxProcess(KERNEL, domain=(0, 20), **FIXED).fit([3.0])
    assert cox.expected_count(0, 20) == pytest.approx(1.0, rel=1e-3)


def test_it_is_cloned_and_pickled():
    cox = clone(CoxProcess(KERNEL, domain=(0, 20), **FIXED)).fit(drawn())
    again = pickle.loads(pickle.dumps(cox))
    np.testing.assert_array_equal(again.intensity([3.0, 9.0]), cox.intensity([3.0, 9.0]))
    np.testing.assert_array_equal(again.sample(1, 0)[0], cox.sample(1, 0)[0])


def test_what_is_wrong_is_said():
    events = drawn()
    with pytest.raises(ValueError, match="0 rows"):
        CoxProcess(domain=(0, 20)).fit([])
    with pytest.raises(ValueError, match=r"outside of what was observed.*rows \[0\]"):
        CoxProcess(domain=(0, 20)).fit([21.0, 3.0])
    with pytest.raises(ValueError, match="Windows 0 and 1 overlap"):
        CoxProcess(windows=[(0, 11), (10, 20)]).fit(events)
    with pytest.raises(ValueError, match="beyond the domain"):
        CoxProcess(domain=(0, 20), windows=[(0, 21)]).fit(events)
    with pytest.raises(ValueError, match="a < b"):
        CoxProcess(domain=(20, 0)).fit(events)
    with pytest.raises(ValueError, match="2 pairs"):
        CoxProcess(domain=(0, 20)).fit(np.ones((3, 2)))
    with pytest.raises(ValueError, match="exposure must be from zero on"):
        CoxProcess(domain=(0, 20), exposure=lambda x: x - 10.0).fit(events)
    with pytest.raises(ValueError, match="exposure is zero where there are events"):
        CoxProcess(domain=(0, 20), exposure=lambda x: x > 10.0, num_basis=20).fit(events)
    with pytest.raises(ValueError, match="one number per row"):
        CoxProcess(domain=(0, 20), exposure=lambda x: [1.0, 2.0]).fit(events)
    with pytest.raises(ValueError, match="NaN"):
        CoxProcess(domain=(0, 20)).fit([1.0, np.nan])
    with pytest.raises(ValueError, match="give the domain"):
        CoxProcess().fit([1.0, 1.0])
    with pytest.raises(ValueError, match="one to three inputs"):
        CoxProcess().fit(np.ones((3, 4)))
    with pytest.raises(TypeError, match=r"exposure must be a function.*got 2\.0"):
        CoxProcess(exposure=2.0).fit(events)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="windows must be a sequence"):
        CoxProcess(windows=5).fit(events)  # pyright: ignore[reportArgumentType]
    with pytest.raises(NotFittedError):
        CoxProcess().intensity([1.0], per="1 day")
    with pytest.raises(ValueError, match="end before they begin"):
        CoxProcess(KERNEL, domain=(0, 20), **FIXED).fit(events).expected_count(7.0, 5.0)
    with pytest.raises(NotFittedError):
        CoxProcess().intensity([1.0])
