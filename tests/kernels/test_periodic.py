"""Periodic kernels: sums around the circle, splines on it, and products with a Matérn."""

import mpmath as mp
import numpy as np
import pytest
from numpy.polynomial import legendre
from scipy.interpolate import BSpline

import asvgp
from asvgp import SHO, Constant, Matern12, Matern32, Matern52, Periodic
from asvgp.basis import Grid
from asvgp.data.columns import Table, match
from asvgp.kernels import CircleForm, Product, Sum, check_units, in_time
from asvgp.kernels.algebra import renamed
from asvgp.kernels.text import parse_kernel
from asvgp.plot.view import term_name
from asvgp.saving.encoding import Decoder, Encoder
from asvgp.times import Duration

DAY = 86400.0
NUS = (0.5, 1.5, 2.5)
DAILY = Periodic("1 day", "6 hours") * Matern32("20 days")
each_nu = pytest.mark.parametrize("nu", NUS)
# Lengthscales in periods, from far too short to all but constant.
each_share = pytest.mark.parametrize("share", [1e-3, 0.05, 0.3, 1.0, 20.0, 1e4])


def matern(nu, z):
    """The Matérn covariance in mpmath, by the decay length."""
    z = abs(z)
    polynomial = {0.5: 1, 1.5: 1 + z, 2.5: 1 + z + z**2 / 3}[nu]
    return polynomial * mp.exp(-z)


def around(nu, lag, period, lengthscale):
    """The sum over all integers j of k(lag + j period), in mpmath."""
    rate = mp.sqrt(2 * mp.mpf(nu)) / mp.mpf(lengthscale)
    lag, period = mp.mpf(lag), mp.mpf(period)
    if lengthscale > 50 * period:  # Poisson: a few harmonics instead of a million terms
        n = int(2 * nu)
        density = {1: 2 * rate, 3: 4 * rate**3, 5: mp.mpf(16) / 3 * rate**5}[n]
        total = mp.mpf(0)
        for j in range(-400, 401):
            omega = 2 * mp.pi * j / period
            total += density / (rate**2 + omega**2) ** ((n + 1) // 2) * mp.cos(omega * lag)
        return total / period
    count = int(60 * lengthscale / period) + 3
    return mp.fsum(matern(nu, rate * (lag + j * period)) for j in range(-count, count + 1))


@each_nu
@pytest.mark.parametrize("share", [1e-3, 0.05, 0.3, 1.0, 20.0])
def test_covariance_is_the_sum_around_the_circle(nu, share):
    period = 2.5
    kernel = Periodic(period, share * period, 3.0, nu)
    lags = np.array([0.0, 1e-4, 0.3, 1.25, 2.2, 2.5])
    with mp.workdps(40):
        whole = around(nu, 0, period, share * period)
        expected = [float(3 * around(nu, lag, period, share * period) / whole) for lag in lags]
    values = kernel.covariance(lags)
    np.testing.assert_allclose(values, expected, rtol=2e-14 / min(share, 1.0))
    np.testing.assert_allclose(kernel.covariance(-lags), values, rtol=1e-15)
    np.testing.assert_allclose(kernel.covariance(lags + 100 * period), values, atol=1e-9)


@each_nu
@pytest.mark.parametrize("share", [0.05, 0.3, 2.0])
def test_centred_covariances_are_those_about_the_mean(nu, share):
    plain, centred = (Periodic(2.5, 2.5 * share, 3.0, nu, centred=c) for c in (False, True))
    phases = np.arange(0.0, 2.5, 2.5 / 4096)
    mean = plain.covariance(phases).mean()
    lags = np.array([0.0, 0.3, 1.25, 2.2, 102.2])
    expected = 3.0 * (plain.covariance(lags) - mean) / (3.0 - mean)
    tolerance = 1e-5 + 1e-3 * (nu == 0.5)  # a mean over a kink
    np.testing.assert_allclose(centred.covariance(lags), expected, atol=tolerance)
    assert centred.covariance(phases).mean() == pytest.approx(3e-6, abs=1e-6 + 1e-5 * (nu == 0.5))
    up, down = (centred.replace(lengthscale=2.5 * share * np.exp(h)) for h in (1e-4, -1e-4))
    slope = (up.covariance(lags) - down.covariance(lags)) / 2e-4
    np.testing.assert_allclose(centred.slopes(lags)[0], slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("nu", [1.5, 2.5])  # harmonics fall fast enough to be summed
def test_a_very_long_lengthscale_is_nearly_a_constant(nu):
    kernel = Periodic(1.0, 1e3, nu=nu)
    with mp.workdps(40):
        whole = around(nu, 0, 1.0, 1e3)
        expected = [float(around(nu, lag, 1.0, 1e3) / whole) for lag in (0.1, 0.5)]
    np.testing.assert_allclose(kernel.covariance([0.1, 0.5]), expected, rtol=1e-14)


@each_nu
@each_share
def test_covariance_matrices_are_positive_definite(nu, share):
    x = np.sort(np.random.default_rng(0).uniform(0.0, 30.0, 60))
    kernel = Periodic(7.0, 7.0 * share, nu=nu)
    for each in (kernel, kernel * Matern52(20.0)):
        matrix = each(x)
        np.testing.assert_allclose(np.diag(matrix), 1.0, rtol=1e-14)
        assert np.linalg.eigvalsh(matrix).min() > -1e-12


def cyclic(nu, share, cells, degree):
    """Cyclic splines at some phases and K by the circle's form, in units of the spacing."""
    kernel = Periodic(2.5, 2.5 * share, 3.0, nu)
    form = kernel.circle(2.5 / cells)
    flat = BSpline(np.arange(-degree, cells + degree + 1.0), np.eye(cells + degree), degree)
    wrap = np.zeros((cells + degree, cells))
    wrap[np.arange(cells + degree), np.arange(cells + degree) % cells] = 1.0
    nodes, weights = legendre.leggauss(degree + 1)
    x = (np.arange(cells)[:, None] + (nodes + 1.0) / 2.0).ravel()
    derivatives = [flat.derivative(i)(x) if i else flat(x) for i in range(len(form.operator))]
    applied = np.einsum("i,ixm->xm", form.operator, derivatives) @ wrap
    K = applied.T @ (np.tile(weights / 2.0, cells)[:, None] * applied) / np.exp(form.log_density)
    return kernel, lambda t: flat(np.mod(t, 2.5) / 2.5 * cells) @ wrap, K


@each_nu
@pytest.mark.parametrize("share", [0.1, 0.3, 2.0])
def test_splines_on_the_circle_have_the_covariance(nu, share):
    # Enough cells to resolve the shortest lengthscale, few enough for K's condition.
    cells, degree = {0.5: (800, 1), 1.5: (100, 3), 2.5: (50, 5)}[nu]
    kernel, functions, K = cyclic(nu, share, cells, degree)
    lags = np.array([0.0, 0.25, 0.8, 1.25, 2.0])
    values = functions(lags) @ np.linalg.solve(K, functions(np.zeros(1)).T)
    np.testing.assert_allclose(values[:, 0], kernel.covariance(lags), atol=3e-4)


@each_nu
@pytest.mark.parametrize("share", [1e-2, 0.3, 1.0, 20.0])
def test_the_circle_s_derivatives(nu, share):
    """By differences in high precision, S(0) included."""
    period, spacing = 2.5, 0.1
    form = Periodic(period, share * period, 3.0, nu).circle(spacing)
    assert isinstance(form, CircleForm)
    p = int(nu)

    def log_density(log_length):
        length = mp.exp(log_length)
        rate = mp.sqrt(2 * mp.mpf(nu)) * mp.mpf(spacing) / length
        scale = mp.factorial(p) ** 2 / mp.factorial(2 * p) * (2 * rate) ** (2 * p + 1)
        return mp.log(3 * scale / around(nu, 0, period, length))

    def operator(log_length, i):
        rate = mp.sqrt(2 * mp.mpf(nu)) * mp.mpf(spacing) / mp.exp(log_length)
        return mp.binomial(p + 1, i) * rate ** (p + 1 - i)

    with mp.workdps(50):
        at, step = mp.log(mp.mpf(share * period)), mp.mpf(10) ** -15
        slope = (log_density(at + step) - log_density(at - step)) / (2 * step)
        assert form.log_density == pytest.approx(float(log_density(at)), rel=1e-13, abs=1e-13)
        assert form.d_log_density == pytest.approx([float(slope), 1.0], rel=1e-12, abs=1e-12)
        for i in range(p + 2):
            slope = (operator(at + step, i) - operator(at - step, i)) / (2 * step)
            assert form.operator[i] == pytest.approx(float(operator(at, i)), rel=1e-13)
            assert form.d_operator[:, i] == pytest.approx([float(slope), 0.0], rel=1e-12)


def test_there_is_no_markov_form():
    for method in (Periodic(1.0).markov, lambda: Periodic(1.0).transition([0.0])):
        with pytest.raises(TypeError, match="no Markov form"):
            method()


def test_the_period_is_a_scale_that_is_not_trained():
    kernel = Periodic(24.0, dim="t")
    assert kernel.parameters == ("lengthscale", "variance")
    assert kernel.unset == ("lengthscale",)
    assert kernel.lengthscale == pytest.approx(7.2)
    assert kernel.replace(period=48.0).lengthscale == pytest.approx(14.4)
    assert kernel.replace(lengthscale=3.0).unset == ()
    assert kernel.replace_free({"lengthscale": 3.0}).period == 24.0
    assert [Periodic(1.0, nu=nu).order for nu in NUS] == [0, 1, 2]
    assert kernel != kernel.replace(period=25.0)
    assert kernel.limits(Grid(0.0, 1.0, 10), 1.0, 2.0)["lengthscale"] == (0.12, 480.0)
    starts = [each.lengthscale for each in kernel.candidates([5.0], [], 2.0)]
    assert starts == pytest.approx([7.2, 2.4, 24.0])
    assert len(kernel.replace(lengthscale=3.0).candidates([5.0, 6.0], [], 2.0)) == 1
    assert (kernel.resolved_length, kernel.memory) == pytest.approx((6.0, 7.2))
    with pytest.raises(ValueError, match="no hyperparameter 'period'"):
        Periodic(24.0, fixed="period")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"period": -1.0}, "period must be positive and finite, got -1.0"),
        ({"period": "often"}, "period must be a positive number or duration, got 'often'"),
        ({"period": None}, "period must be a positive number or duration, got None"),
        ({"period": 1.0, "lengthscale": 0.0}, "lengthscale must be positive"),
        ({"period": 1.0, "nu": 1.0}, "nu must be one of 0.5, 1.5, 2.5, got 1.0"),
        ({"period": 1.0, "nu": "rough"}, "nu must be one of 0.5, 1.5, 2.5, got 'rough'"),
        ({"period": 1.0, "centred": 2.0}, "centred must be True or False, got 2.0"),
    ],
)
def test_bad_settings_are_named(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Periodic(**arguments)


def test_durations():
    assert [Periodic(text).period / DAY for text in ("1 day", "1 week", "1 year")] == [1, 7, 365.25]
    assert isinstance(Periodic("1 day").period, Duration)
    kernel = Periodic(DAY, DAY / 4)
    assert repr(in_time(kernel)) == (
        "Periodic(period='1 day', lengthscale='6 hours', variance=1.0, nu=1.5)"
    )
    check_units(Periodic("1 day"), {0})
    check_units(Periodic("1 day") * Matern32(), {0})
    check_units(DAILY + Periodic("1 week"), {0})
    with pytest.raises(ValueError, match="period has no unit"):
        check_units(kernel, {0})
    with pytest.raises(ValueError, match="period is a duration"):
        check_units(Periodic("1 day"), set())
    with pytest.raises(ValueError, match=r"lengthscale='7\.2 hours'"):
        check_units(Periodic("1 day"), {0}, untrained=True)
    fixed = Periodic("1 day", fixed="lengthscale", dim=0) * Matern32("2 days", dim=0)
    with pytest.raises(ValueError, match=r"lengthscale='7\.2 hours'"):
        check_units(fixed, {0})
    mixed = Periodic("1 day", dim="t") * Matern32("2 days", dim="t") * Matern32(3.0, dim="lon")
    check_units(mixed, {"t"})
    plain = Periodic(DAY, dim="t") * Matern32(2 * DAY, dim="t") * Matern32(3.0, dim="lon")
    assert "period='1 day'" in repr(in_time(plain, {"t"}))
    assert "lengthscale=3.0" in repr(in_time(plain, {"t"}))


@pytest.mark.parametrize(
    "kernel",
    [
        Periodic(24.0),
        Periodic("1 day", nu=0.5, dim="t", fixed="variance"),
        Periodic("1 week", "1 day", 2.0, 2.5, bounds={"variance": (1.0, 3.0)}),
        DAILY,
        Periodic("1 day", centred=True) * Matern32("20 days") + Periodic(7.0, centred=True),
        Matern12(3.0, 2.0, fixed="lengthscale") * Periodic(1.0),
        Periodic(24.0, dim="t", bounds={"lengthscale": (1.0, 9.0)})
        * Matern32(500.0, dim="t", fixed=("lengthscale", "variance"))
        * Matern32(dim="lon", variance=3.0, bounds={"variance": (1.0, 5.0)}),
        Matern32("3 days") + DAILY + Periodic("1 week") + Constant(),
    ],
    ids=repr,
)
def test_text_and_files_carry_everything(kernel):
    assert repr(parse_kernel(repr(kernel))) == repr(kernel)
    assert parse_kernel(repr(kernel)).parameters == kernel.parameters
    copy = Decoder({})(Encoder()(kernel, "kernel"))
    assert copy == kernel
    for name in ("unset", "fixed", "bounds"):
        pairs = zip(copy.components, kernel.components, strict=True)
        assert all(getattr(a, name) == getattr(b, name) for a, b in pairs)


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("periodic(1d)", Periodic("1 day")),
        ("periodic(period=1 week, nu=0.5)", Periodic("1 week", nu=0.5)),
        ("periodic(1d) * matern32(20 days)", Periodic("1 day") * Matern32("20 days")),
        (
            "matern32(dim=lon) * Periodic(24, dim=t) * matern12(9, dim=t)",
            Matern32(dim="lon") * Periodic(24.0, dim="t") * Matern12(9.0, dim="t"),
        ),
    ],
)
def test_command_lines_know_it(text, kernel):
    assert parse_kernel(text) == kernel


def test_text_without_a_period_is_explained():
    with pytest.raises(ValueError, match="'period'"):
        parse_kernel("periodic")


def test_products_over_the_same_input():
    assert DAILY.parameters == ("phase_lengthscale", "lengthscale", "variance")
    assert DAILY.listed == (DAY / 4, 20 * DAY, 1.0)
    assert DAILY.values.tolist() == [DAY / 4, 20 * DAY, 1.0]
    assert (Matern32() * Periodic(1.0, variance=4.0)).parameters == (
        *("lengthscale", "phase_lengthscale", "variance"),
    )
    kernel = Periodic(24.0, dim="t", fixed="lengthscale") * Matern32(
        500.0, 2.0, dim="t", bounds={"lengthscale": (100.0, 900.0)}
    )
    names = ("phase_lengthscale[t]", "lengthscale[t]", "variance")
    assert kernel.parameters == names
    assert kernel.unset == names[:1]
    assert kernel.fixed == names[:1]
    assert kernel.bounds == {"lengthscale[t]": (100.0, 900.0)}
    moved = kernel.replace_free(dict.fromkeys(names, 1.0))
    assert moved.values.tolist() == pytest.approx([7.2, 100.0, 1.0])
    assert moved.factors[0].period == 24.0
    limits = kernel.limits({"t": Grid(0.0, 100.0, 100)}, 1.0, 2.0)
    assert limits["phase_lengthscale[t]"] == (0.12, 480.0)
    assert limits["lengthscale[t]"] == (0.01, 1e4)
    assert limits["variance"] == (1e-10, 2e3)


def test_candidates_of_products():
    kernel = Periodic(24.0) * Matern32(500.0)
    options = kernel.candidates([50.0, 200.0], [], 3.0)
    assert [each.values.tolist() for each in options[:3]] == [
        pytest.approx([x, 50.0, 3.0]) for x in (7.2, 2.4, 24.0)
    ]
    assert len(options) == 6
    assert kernel.candidates([{None: 9.0}], [], 3.0)[0].values[1] == 9.0
    total = Matern32() + kernel + Periodic(168.0)
    assert all(isinstance(each, Sum) for each in total.candidates([5.0, 10.0], [], 2.0))


def test_names_follow_when_another_factor_joins():
    periodic = Periodic(24.0, dim="t", fixed="lengthscale", bounds={"variance": (0.5, 2.0)})
    kernel = periodic * Matern32(dim="lon", bounds={"lengthscale": (0.5, 2.0)})
    assert kernel.fixed == ("lengthscale[t]",)
    kernel = kernel * Matern32(9.0, 3.0, dim="t")
    assert kernel.parameters == (
        *("phase_lengthscale[t]", "lengthscale[lon]", "lengthscale[t]", "variance"),
    )
    assert kernel.fixed == ("phase_lengthscale[t]",)
    assert kernel.bounds == {"variance": (1.5, 6.0), "lengthscale[lon]": (0.5, 2.0)}
    assert kernel.inputs == ("t", "lon")


def test_covariances_of_products():
    rng = np.random.default_rng(0)
    x, z = rng.uniform(0.0, 90.0, 20), rng.uniform(0.0, 5.0, 20)
    periodic, slow, other = Periodic(24.0, 5.0), Matern32(40.0), Matern12(2.0, 3.0)
    expected = periodic(x) * slow(x)
    np.testing.assert_allclose((periodic * slow)(x), expected, rtol=1e-14)
    np.testing.assert_allclose((periodic * slow)(x[:, None]), expected, rtol=1e-14)
    np.testing.assert_allclose((periodic * slow + other)(x), expected + other(x), rtol=1e-14)
    np.testing.assert_allclose(
        (periodic * slow).covariance(x), periodic.covariance(x) * slow.covariance(x), rtol=1e-14
    )
    kernel = periodic.replace(dim=0) * other.replace(dim=1) * slow.replace(dim=0)
    np.testing.assert_allclose(kernel(np.stack([x, z], axis=1)), expected * other(z), rtol=1e-13)
    np.testing.assert_allclose(
        kernel.covariance([[3.0, 0.5]]),
        periodic.covariance([3.0]) * slow.covariance([3.0]) * other.covariance([0.5]),
    )


@pytest.mark.parametrize(
    ("product", "message"),
    [
        (lambda: Periodic(1.0) * Periodic(7.0), "only a Periodic and a Matérn kernel can be"),
        (lambda: Matern32() * Matern32(), r"needs an input.*Periodic\('1 day'\) \* Matern32"),
        (lambda: Periodic(1.0) * SHO(3.0), "only a Periodic and a Matérn kernel can be"),
        (lambda: Periodic(1.0) * Matern32(dim=1), "needs an input"),
        (lambda: Periodic(1.0) * Matern32() * Matern32(dim=1), "needs an input"),
        (
            lambda: Periodic(1.0, dim=0) * SHO(dim=0),
            "over input 0 twice.*Only a Periodic and a Mat",
        ),
        (lambda: Periodic(1.0, dim=0) * Periodic(2.0, dim=0), "over input 0 twice"),
        (
            lambda: Periodic(1.0, dim="a") * Matern32(dim="a") * Matern12(dim="a"),
            r"over input 'a' 3 times.*Periodic\('1 day', dim='a'\)",
        ),
    ],
)
def test_other_products_say_what_is_allowed(product, message):
    with pytest.raises(ValueError, match=message):
        product()


def test_columns_and_labels():
    kernel = Periodic(24.0, dim="t", fixed="lengthscale") * Matern32(9.0, dim="t")
    numbered = kernel.over([1, 1])
    assert numbered.fixed == ("phase_lengthscale[1]",)
    assert renamed(numbered, ("lon", "t")) == kernel
    assert term_name(DAILY) == "Periodic × Matern32"
    assert term_name(kernel) == "Periodic(t) × Matern32(t)"
    assert term_name(Periodic("1 day")) == "Periodic, period 1 day"
    for given in (kernel.over([0, 0]), kernel.over([None, None])):
        layout = match(given, Table(np.zeros(5)))
        assert layout.single
        assert isinstance(layout.kernel, Product)
        assert layout.kernel.parameters == ("phase_lengthscale", "lengthscale", "variance")
        assert layout.relabelled(layout.kernel) == given
    with pytest.raises(TypeError, match="dim must be"):
        match(kernel.over([None, None]), Table(np.zeros((5, 2))))


def test_it_is_public():
    assert asvgp.Periodic is Periodic
    assert "Periodic" in dir(asvgp)
