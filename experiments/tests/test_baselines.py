"""The baselines under ``experiments/`` beside dense Gaussian processes with their kernels."""

import doctest
from math import comb

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from asvgp.kernels import Matern12, Matern32, Matern52
from experiments.tests.twins import (
    Dense,
    additive,
    arc_cosine,
    data,
    feature_derivatives,
    inner_product,
    kernel_derivatives,
    nodes_between,
    product,
    sphere_quadrature,
)

torch = pytest.importorskip("torch")

from experiments.baselines import (  # noqa: E402
    VFF,
    VISH,
    collapsed,
    harmonics,
    kuu,
    vff,
    vish,
)

MATERN = {0.5: Matern12, 1.5: Matern32, 2.5: Matern52}
ORDERS = sorted(MATERN)


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Everything here is small: threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        yield
    torch.set_num_threads(before)


def double(value):
    return torch.tensor(value, dtype=torch.float64)


def dense_kuu(basis, lengthscale, variance):
    K = basis.kuu(double(lengthscale), double(variance))
    return (K.diagonal.diag() + K.factor @ K.factor.T).numpy()


def explained(basis, x, lengthscale, variance):
    """``Q(x, x)``."""
    K = basis.kuu(double(lengthscale), double(variance))
    features = (basis(torch.tensor(x), double(lengthscale)) / K.scale).numpy()
    return np.einsum("ij,jk,ik->i", features, K.core_inverse().numpy(), features)


# ---------------------------------------------------------------- Fourier features: Kuu


@pytest.mark.parametrize("nu", ORDERS)
def test_fourier_kuu_is_the_inner_product_by_quadrature(nu):
    kernel = MATERN[nu](0.3, 1.7)
    basis = vff.FourierBasis(-0.4, 1.1, 6, nu)
    x, weights = nodes_between(-0.4, 1.1)
    jets = feature_derivatives(basis, x, kernel.order + 1)
    end = feature_derivatives(basis, np.array([-0.4]), kernel.order)[:, 0]
    expected = inner_product(kernel, (jets, end), (jets, end), weights)
    np.testing.assert_allclose(dense_kuu(basis, 0.3, 1.7), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("nu", ORDERS)
@pytest.mark.parametrize("x", [0.0, 1e-3, 0.37, 0.999, 1.0])
def test_fourier_features_reproduce(nu, x):
    """``<phi_m, k(x, .)> = phi_m(x)``, inside, near the ends and at them."""
    kernel = MATERN[nu](0.25, 1.3)
    p = kernel.order
    basis = vff.FourierBasis(0.0, 1.0, 5, nu)
    t, weights = nodes_between(0.0, x, 1.0)  # the kernel has its kink at x
    left, right = t[:50], t[50:]
    jets = np.hstack(
        [
            kernel_derivatives(kernel, left - x, p + 1, -1.0),
            kernel_derivatives(kernel, right - x, p + 1, 1.0),
        ]
    )
    representer = (jets[:, :, None], kernel_derivatives(kernel, np.array([-x]), p, -1.0))
    phi = (feature_derivatives(basis, t, p + 1), feature_derivatives(basis, np.zeros(1), p)[:, 0])
    product = inner_product(kernel, phi, representer, weights)[:, 0]
    np.testing.assert_allclose(product, basis(double([x]))[0].numpy(), atol=1e-9)


@pytest.mark.parametrize("nu", ORDERS)
def test_fourier_features_explain_all_but_the_jumps_at_the_ends(nu):
    """``Q <= k``, and its limit is k less the p + 1 directions that no periodic function has."""
    kernel = MATERN[nu](0.2, 1.3)
    p, a, b = kernel.order, -0.3, 1.2
    x = np.concatenate([np.linspace(a, b, 41), [a + 1e-6, b - 1e-6]])
    outside = np.array([a - 0.1, b + 0.5])
    found = []
    for m in [2, 8, 32, 100, 200, 400]:
        basis = vff.FourierBasis(a, b, m, nu)
        found.append(explained(basis, x, 0.2, 1.3))
        assert (found[-1] <= 1.3 * (1.0 + 1e-10)).all()
        assert (explained(basis, outside, 0.2, 1.3) <= 1.3 * (1.0 + 1e-10)).all()
    assert (np.diff(found, axis=0) > -1e-10).all()

    def at(end):
        side = np.where(end - x > 0.0, 1.0, -1.0)
        up, down = (kernel_derivatives(kernel, end - x, p, s) for s in (1.0, -1.0))
        return np.where(side > 0.0, up, down)

    between = kernel_derivatives(kernel, np.array([a - b]), 2 * p, -1.0)[:, 0]
    here = kernel_derivatives(kernel, np.zeros(1), 2 * p, 1.0)[:, 0]
    orders = np.arange(p + 1)
    signs, total = (-1.0) ** orders, np.add.outer(orders, orders)
    crossed = between[total] * signs
    jumps = 2.0 * here[total] * signs - crossed - crossed.T
    lost = at(a) - at(b)
    limit = 1.3 - np.einsum("ij,ij->j", lost, np.linalg.solve(jumps, lost))
    assert (found[-1] <= limit + 1e-10).all()
    # the gap falls as 1 / m: extrapolate
    np.testing.assert_allclose(2.0 * found[-1] - found[-2], limit, atol=1e-4)
    interior = (x > a + 0.6) & (x < b - 0.6)
    assert (limit[interior] > 1.3 * (1.0 - 0.02)).all()  # three lengthscales from the ends


@pytest.mark.parametrize("nu", ORDERS)
def test_fourier_features_outside_the_domain(nu):
    """Beyond an end, ``Kuf`` is what the kernel makes of the features' derivatives there."""
    kernel = MATERN[nu](0.3, 1.0)
    basis = vff.FourierBasis(0.0, 1.0, 3, nu)
    s = np.array([1e-9, 0.05, 0.4])
    jets = feature_derivatives(basis, np.array([1.0]), round(nu - 0.5))[:, 0].T
    mirrored = jets * (-1.0) ** np.arange(jets.shape[1])
    length = torch.tensor(0.3, dtype=torch.float64)
    np.testing.assert_allclose(
        basis(torch.tensor(1.0 + s), length).numpy(), kernel.transition(s) @ jets.T, atol=1e-12
    )
    np.testing.assert_allclose(
        basis(torch.tensor(-s), length).numpy(), kernel.transition(s) @ mirrored.T, atol=1e-12
    )
    with pytest.raises(ValueError, match="lengthscale"):
        basis(torch.tensor([1.5], dtype=torch.float64))


def test_structures_are_their_dense_twins():
    rng = np.random.default_rng(0)
    parts = [
        kuu.DiagonalPlusLowRank(
            torch.tensor(np.exp(rng.normal(size=m))), torch.tensor(rng.normal(size=(m, r)))
        )
        for m, r in [(4, 1), (3, 2), (2, 0)]
    ]
    dense = [part.diagonal.diag() + part.factor @ part.factor.T for part in parts]
    product = torch.kron(torch.kron(dense[0], dense[1]), dense[2])
    for K, twin in [
        (parts[1], dense[1]),
        (kuu.DiagonalPlusLowRank.stack(parts), torch.block_diag(*dense)),
        (kuu.Kronecker(tuple(parts)), product),
    ]:
        assert len(K) == len(twin)
        core = twin / torch.outer(K.scale, K.scale)
        outer = torch.tensor(np.cov(rng.normal(size=(len(twin), 50))))
        close = torch.testing.assert_close
        close(K.core(), core)
        close(K.core_logdet(), torch.logdet(core))
        close(K.core_inverse(), torch.linalg.inv(core))
        close(K.core_trace(outer), torch.trace(torch.linalg.solve(core, outer)))


# ---------------------------------------------------------------- Fourier features: the model


@pytest.mark.parametrize("nu", ORDERS)
def test_fourier_bound_rises_to_the_evidence(nu):
    X, y = data(60, 1)
    dense = Dense(additive(nu, [0.2], [1.1]), 0.05, X, y)
    fixed = {"lengthscale": 0.2, "variance": 1.1, "noise_variance": 0.05, "train": False}
    bounds = [VFF(m, nu, margin=1.0, **fixed).fit(X, y).bound for m in (5, 20, 80)]
    model = VFF(600, nu, margin=1.0, **fixed).fit(X, y)
    bounds.append(model.bound)
    assert np.all(np.diff(bounds) > -1e-8)
    assert bounds[-1] <= dense.evidence() + 1e-8
    assert dense.evidence() - bounds[-1] < {0.5: 4.0, 1.5: 1e-2, 2.5: 1e-2}[nu]
    new = np.linspace(-0.9, 1.9, 41)[:, None]
    mean, variance = dense.predict(new)
    found = model.predict(new)
    inside = (new[:, 0] > -0.2) & (new[:, 0] < 1.2)
    tolerance = {0.5: 1e-2, 1.5: 1e-4, 2.5: 1e-4}[nu]
    np.testing.assert_allclose(found[0][inside], mean[inside], atol=tolerance)
    np.testing.assert_allclose(found[1][inside], variance[inside], atol=tolerance)
    assert (found[1] > 0.0).all()


def test_fourier_predictions_far_outside_are_the_prior():
    X, y = data(60, 1)
    model = VFF(20, lengthscale=0.2, variance=1.1, train=False).fit(X, y)
    mean, variance = model.predict([50.0, -50.0])
    np.testing.assert_allclose(mean, 0.0, atol=1e-12)
    np.testing.assert_allclose(variance, 1.1)


def test_fourier_additive_is_the_sum():
    X, y = data(60, 3)
    scales, variances = [0.2, 0.25, 0.15], [1.1, 0.4, 0.7]
    dense = Dense(additive(2.5, scales, variances), 0.05, X, y)
    model = VFF(
        60,
        2.5,
        margin=1.0,
        lengthscale=scales,
        variance=variances,
        noise_variance=0.05,
        train=False,
    ).fit(X, y)
    assert model.num_features == 363
    assert dense.evidence() - 0.05 < model.bound <= dense.evidence()
    new = data(30, 3, seed=1)[0]
    for found, expected in zip(model.predict(new), dense.predict(new), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-3)


def test_fourier_kronecker_is_the_product():
    X, y = data(50, 2)
    scales = [0.3, 0.25]
    dense = Dense(product(2.5, scales, 1.2), 0.1, X, y)
    fixed = {"lengthscale": scales, "variance": 1.2, "noise_variance": 0.1, "train": False}
    models = [VFF(m, 2.5, structure="kronecker", margin=1.0, **fixed).fit(X, y) for m in (4, 8, 16)]
    bounds = [model.bound for model in models]
    assert bounds[0] < bounds[1] < bounds[2] <= dense.evidence()
    assert dense.evidence() - bounds[2] < 3.0
    new = data(30, 2, seed=1)[0]
    for found, expected in zip(models[2].predict(new), dense.predict(new), strict=True):
        np.testing.assert_allclose(found, expected, atol=0.02)


def test_one_input_is_the_same_sum_and_product():
    X, y = data(40, 1)
    a, b = (VFF(10, structure=kind).fit(X, y) for kind in ("additive", "kronecker"))
    np.testing.assert_allclose(a.bound, b.bound)
    np.testing.assert_allclose(a.predict(X), b.predict(X), rtol=1e-6)


# ---------------------------------------------------------------- spherical harmonics


def sphere(d, seed=0, n=40):
    x = np.random.default_rng(seed).standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize("d, degree", [(2, 6), (3, 5), (4, 4), (6, 3)])
def test_harmonics_are_orthonormal(d, degree):
    counts = {n: harmonics.multiplicity(d, n) for n in range(degree + 1)}
    basis = harmonics.Harmonics(d, counts)
    x, weights = sphere_quadrature(d, 2 * degree)
    values = basis(torch.tensor(x)).numpy()
    # complete as well: as many as there are polynomials on the sphere of that degree
    assert len(basis) == comb(d + degree - 1, degree) + comb(d + degree - 2, degree - 1)
    np.testing.assert_allclose(
        (values * weights[:, None]).T @ values, np.eye(len(basis)), atol=1e-9
    )


@pytest.mark.parametrize("d, n", [(2, 7), (3, 6), (5, 3), (9, 4)])
def test_addition_theorem(d, n):
    count = harmonics.multiplicity(d, n)
    basis = harmonics.Harmonics(d, {n: count})
    x, v = torch.tensor(sphere(d, 1)), torch.tensor(sphere(d, 2))
    expected = count * harmonics.gegenbauer(d, n, x @ v.T)
    np.testing.assert_allclose((basis(x) @ basis(v).T).numpy(), expected.numpy(), atol=1e-8 * count)


def test_gegenbauer_polynomials_are_scipys():
    from scipy.special import eval_chebyt, eval_gegenbauer

    t = np.linspace(-1.0, 1.0, 21)
    for n in range(8):
        ours = harmonics.gegenbauer(2, n, torch.tensor(t)).numpy()
        np.testing.assert_allclose(ours, eval_chebyt(n, t), atol=1e-12)
        for d in (3, 9):
            alpha = (d - 2) / 2.0
            scipys = eval_gegenbauer(n, alpha, t) / eval_gegenbauer(n, alpha, 1.0)
            ours = harmonics.gegenbauer(d, n, torch.tensor(t)).numpy()
            np.testing.assert_allclose(ours, scipys, atol=1e-12)
            above, below = (
                harmonics.gegenbauer(d, n, torch.tensor(t + h)).numpy() for h in (1e-5, -1e-5)
            )
            slope = harmonics.gegenbauer_derivative(d, n, torch.tensor(t)).numpy()
            np.testing.assert_allclose(slope, (above - below) / 2e-5, atol=1e-5)


@pytest.mark.parametrize("d", [2, 3, 9])
def test_mercer_expansion_of_the_arc_cosine_kernel(d):
    values = harmonics.funk_hecke(vish.arc_cosine, d, 60)
    np.testing.assert_allclose(values[3::2], 0.0, atol=1e-13)
    assert (values[[0, 1, *range(2, 20, 2)]] > 0.0).all()
    angle = np.linspace(0.0, np.pi, 30)
    total = sum(
        value
        * harmonics.multiplicity(d, n)
        * harmonics.gegenbauer(d, n, torch.tensor(np.cos(angle))).numpy()
        for n, value in enumerate(values)
    )
    np.testing.assert_allclose(total, vish.arc_cosine(angle), atol=2e-5)


def test_degrees_beyond_rounding_are_refused():
    X, y = data(5, 8)
    with pytest.raises(ValueError, match="degree 30 on, with 8 inputs: lower degrees"):
        VISH(max_degree=40).fit(X, y)


def test_counts_of_harmonics():
    assert vish.harmonic_counts(9, max_degree=4) == {0: 1, 1: 9, 2: 44, 4: 450}
    assert vish.harmonic_counts(9, max_degree=3) == {0: 1, 1: 9, 2: 44}
    assert vish.harmonic_counts(9, num_features=610) == {0: 1, 1: 9, 2: 44, 4: 450, 6: 106}
    assert vish.harmonic_counts(3, num_features=4) == {0: 1, 1: 3}


# ---------------------------------------------------------------- spherical harmonics: the model


@pytest.mark.parametrize("D, degrees, gap", [(1, (4, 12, 60), 0.02), (2, (2, 6, 24), 0.2)])
def test_harmonic_bound_rises_to_the_evidence(D, degrees, gap):
    X, y = data(60, D)
    X = X - 0.5
    weights = np.array([1.7, 0.8])[:D]
    dense = Dense(arc_cosine(weights, 2.0), 0.05, X, y)
    fixed = {"weights": weights, "variance": 2.0, "noise_variance": 0.05, "train": False}
    models = [VISH(max_degree=n, **fixed).fit(X, y) for n in degrees]
    bounds = [model.bound for model in models]
    assert bounds[0] < bounds[1] < bounds[2] <= dense.evidence()
    assert dense.evidence() - bounds[2] < gap
    new = data(30, D, seed=1)[0] * 2.0 - 1.0
    mean, variance = models[2].predict(new)
    expected = dense.predict(new)
    np.testing.assert_allclose(mean, expected[0], atol=1e-2)
    np.testing.assert_allclose(variance, expected[1], atol=1e-2)
    assert (variance > 0.0).all()


def test_some_harmonics_of_a_degree_lie_between():
    X, y = data(50, 3)
    fixed = {"weights": 1.0, "variance": 1.0, "noise_variance": 0.1, "train": False}
    # degrees 0, 1, 2 have 1, 4, 9 harmonics, degree 4 has 25
    bounds = [VISH(m, **fixed).fit(X, y).bound for m in (14, 20, 30, 39)]
    assert np.all(np.diff(bounds) > 0.0)
    np.testing.assert_allclose(bounds[-1], VISH(max_degree=4, **fixed).fit(X, y).bound)


def test_harmonics_explain_no_more_than_the_kernel():
    X, y = data(1, 2)
    # with the noise far above the signal, the posterior variance is the prior's: k - Q + Q
    model = VISH(max_degree=12, weights=1.3, noise_variance=1e9, variance=1.0, train=False)
    model.fit(X, y)
    new = np.random.default_rng(2).normal(size=(200, 2)) * 3.0
    z, squares = model._zonal(torch.tensor(new), torch.tensor([1.3, 1.3], dtype=torch.float64))
    harmonic = z @ model.harmonics.transform.T
    Q = (harmonic.square() @ model.eigenvalues).numpy()
    k = squares.numpy()
    assert (k - Q >= 0.0).all()
    assert (k - Q <= 0.001 * k).all()
    # the addition theorem again: every place on the sphere is explained alike
    np.testing.assert_allclose(Q / k, (Q / k)[0], rtol=1e-10)


# ---------------------------------------------------------------- both models


def models(**options):
    return {
        "additive": VFF(6, **options),
        "kronecker": VFF(3, 2.5, structure="kronecker", **options),
        "harmonics": VISH(max_degree=6, **options),
    }


KINDS = ["additive", "kronecker", "harmonics"]


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_against_finite_differences(kind, monkeypatch):
    X, y = data(40, 2)
    caught = {}
    right = collapsed.maximise

    def catch(function, start, rows, max_iterations):
        if not caught:  # VISH's second call is of the variances alone
            caught["function"], caught["start"] = function, np.log(start)
        return right(function, start, rows, max_iterations)

    monkeypatch.setattr(vff, "maximise", catch)
    monkeypatch.setattr(vish, "maximise", catch)
    monkeypatch.setattr(vish, "CHUNK_BYTES", 8 * 40 * 13)
    models(train=False)[kind].fit(X, y)
    function = caught["function"]
    place = caught["start"] + 0.3 * np.sin(np.arange(len(caught["start"])))
    _, gradient = function(place)
    for i in range(len(place)):
        step = 1e-5 * np.eye(len(place))[i]
        numeric = (function(place + step)[0] - function(place - step)[0]) / 2e-5
        np.testing.assert_allclose(gradient[i], numeric, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_training_raises_the_bound_and_is_deterministic(kind):
    X, y = data(120, 2)
    before = models(train=False)[kind].fit(X, y)
    a, b = (models()[kind].fit(X, y) for _ in range(2))
    assert before.iterations == 0 < a.iterations
    assert a.converged
    assert not models(max_iterations=2)[kind].fit(X, y).converged
    assert a.bound > before.bound + 1.0
    assert a.bound == b.bound
    assert a.noise_variance == a.hyperparameters["noise_variance"] > 0.0
    np.testing.assert_array_equal(a.predict(X), b.predict(X))


@pytest.mark.parametrize("kind", ["additive", "harmonics"])
def test_threads_do_not_matter(kind):
    """To the last digit, and both packages have their threads again afterwards."""
    X, y = data(3000, 2)
    found = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            with threadpool_limits(threads):
                model = VFF(60) if kind == "additive" else VISH(max_degree=14)
                model.max_iterations = 3
                model.fit(X, y)
                found.append((model.bound, model.predict(X)))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert found[0][0] == found[1][0]
    np.testing.assert_array_equal(found[0][1], found[1][1])


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_do_not_matter(kind, monkeypatch):
    X, y = data(50, 2)
    whole = models(train=False)[kind].fit(X, y)
    expected = whole.predict(X)
    for module in (vff, vish):
        monkeypatch.setattr(module, "CHUNK_BYTES", 8 * 50 * 7)
    parts = models(train=False)[kind].fit(X, y)
    assert parts._chunk() < 15
    np.testing.assert_allclose(parts.bound, whole.bound, rtol=1e-12)
    np.testing.assert_allclose(parts.predict(X), expected, rtol=1e-8)


def test_training_on_some_rows():
    X, y = data(300, 2)
    some = VISH(max_degree=4, train_rows=100).fit(X, y)
    everything = VISH(max_degree=4).fit(X, y)
    assert some.hyperparameters["variance"] != everything.hyperparameters["variance"]
    fixed = VISH(max_degree=4, train=False, **some.hyperparameters).fit(X, y)
    np.testing.assert_allclose(some.bound, fixed.bound)
    assert some.bound <= everything.bound + 1e-3


def test_variances_are_trained_on_all_rows():
    """However the part differs from the whole: here by noise ten times as large."""
    X, y = data(300, 2)
    chosen = np.random.default_rng(0).choice(300, 60, replace=False)  # as the model draws them
    y[chosen] += 3.0 * np.random.default_rng(1).standard_normal(60)
    some = VISH(max_degree=4, train_rows=60).fit(X, y)
    found = some.hyperparameters
    for key in ("variance", "noise_variance"):
        for factor in (0.97, 1.03):
            other = found | {key: factor * found[key]}
            assert VISH(max_degree=4, train=False, **other).fit(X, y).bound < some.bound


@pytest.mark.parametrize("kind", KINDS)
def test_observations_scatter_by_both_variances(kind):
    """With many rows f is known well, and new observations scatter by the noise."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (1200, 2))
    y = np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(1200)
    model = models()[kind].fit(X[:800], y[:800])
    assert model.noise_variance == pytest.approx(0.09, rel=0.15)
    mean, variance = model.predict(X[800:])
    assert np.median(variance) < 0.1 * model.noise_variance  # of f alone
    z = (y[800:] - mean) / np.sqrt(variance + model.noise_variance)
    assert np.mean(np.abs(z) < 1.96) == pytest.approx(0.95, abs=0.03)
    assert np.mean(z**2) == pytest.approx(1.0, abs=0.25)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [0.0, 2.5])
def test_constant_outputs(kind, value):
    X, _ = data(30, 2)
    model = models()[kind].fit(X, np.full(30, value))
    mean, variance = model.predict(X)
    assert np.isfinite(model.bound)
    assert (variance > 0.0).all()
    assert (np.abs(mean - value) < 3.0 * np.sqrt(variance + model.noise_variance)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_one_row(kind):
    options = {} if kind == "harmonics" else {"domain": [[0.0, 1.0], [0.0, 1.0]]}
    model = models(train=False)[kind]
    vars(model).update(options)
    mean, variance = model.fit([[0.5, 0.5]], [1.0]).predict([[0.5, 0.5]])
    assert 0.5 < mean[0] < 1.0
    assert variance[0] > 0.0


def test_unusable_data_and_settings_are_refused():
    X, y = data(20, 2)
    with pytest.raises(ValueError, match=r"input 0 has the one value .* in all 1 rows.*domain="):
        VFF(3).fit(X[:1], y[:1])
    with pytest.raises(ValueError, match="beyond its domain"):
        VFF(3, domain=[[0.0, 0.5], [0.0, 1.0]]).fit(X, y)
    with pytest.raises(ValueError, match="each of the 2 inputs"):
        VFF(3, domain=[0.0, 1.0]).fit(X, y)
    for model in (VFF(3), VISH(5)):
        with pytest.raises(ValueError, match="no rows"):
            model.fit(X[:0], y[:0])
        with pytest.raises(ValueError, match="y must have shape"):
            model.fit(X, y[:-1])
        with pytest.raises(ValueError, match="y has NaN or infinity in 1 rows, the first is row 3"):
            model.fit(X, np.where(np.arange(20) == 3, np.nan, y))
        with pytest.raises(ValueError, match="X has NaN"):
            model.fit(np.where(np.arange(20)[:, None] == 3, np.inf, X), y)
        with pytest.raises(ValueError, match="X has 1 inputs, the model 2"):
            model.fit(X, y).predict(X[:, 0])
    with pytest.raises(ValueError, match="positive and finite"):
        VFF(3, lengthscale=-1.0).fit(X, y)
    with pytest.raises(ValueError, match="positive and finite"):
        VISH(3, variance=0.0).fit(X, y)
    for wrong in [{"num_frequencies": 0}, {"nu": 1.0}, {"structure": "sum"}, {"margin": -1.0}]:
        with pytest.raises(ValueError, match=next(iter(wrong))):
            VFF(**wrong)
    for wrong in [
        {},
        {"num_features": 3, "max_degree": 2},
        {"num_features": 0},
        {"max_degree": -1},
    ]:
        with pytest.raises(ValueError, match=r"max_degree|num_features"):
            VISH(**wrong)
    with pytest.raises(ValueError, match="train_rows"):
        VISH(3, train_rows=0)


def test_a_bound_that_is_not_finite_is_an_error():
    def nowhere(logs):
        return np.nan, np.zeros_like(logs)

    with pytest.raises(FloatingPointError, match="the bound is nan"):
        collapsed.maximise(nowhere, np.ones(2), 1, 10)


@pytest.mark.parametrize("module", [vff, vish])
def test_examples(module):
    assert doctest.testmod(module).failed == 0
