"""Likelihoods and data that come in pieces: one read where sums suffice, several where not."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

from asvgp import (
    Bernoulli,
    Binomial,
    Constant,
    Exponential,
    GPRegressor,
    Linear,
    Matern32,
    NegativeBinomial,
    Poisson,
    StudentT,
    Weibull,
    scan,
)
from asvgp.sources import blocks

N = 1500
# An intercept with a prior of its own: else it would depend on the sites.
KERNEL = Matern32(2.0, dim="x") + Constant(variance=9.0)
FIXED = {"num_basis": 30, "domain": (0.0, 10.0), "optimizer": None}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    x = rng.uniform(0.0, 10.0, N)
    f, effort, tries = np.sin(x), rng.uniform(0.5, 3.0, N), rng.integers(1, 6, N)
    share = 1.0 / (1.0 + np.exp(-f))
    seen = rng.uniform(size=N) < 0.8
    return pd.DataFrame(
        {
            "x": x,
            "count": rng.poisson(effort * np.exp(f)),
            "effort": effort,
            "log_effort": np.log(effort),
            "class": (rng.uniform(size=N) < share) * 1.0,
            "hits": rng.binomial(tries, share),
            "tries": tries,
            "time": rng.exponential(np.exp(-f)),
            "seen": seen * 1,
            "value": f + 0.1 * rng.standard_t(3, N),
            "often": rng.integers(0, 3, N),
        }
    )


@pytest.fixture
def short_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "block_rows", lambda columns: 256)


# A family that needs one read, the target, and the columns beside it.
ONE_READ = {
    "poisson": (Poisson(), "count", {"exposure": "effort"}),
    "poisson-offset": (Poisson(), "count", {"offset": "log_effort", "sample_weight": "often"}),
    "bernoulli": (Bernoulli(), "class", {"sample_weight": "often"}),
    "binomial": (Binomial(), "hits", {"trials": "tries"}),
    "exponential": (Exponential(), "time", {"event": "seen"}),
    "weibull": (Weibull(1.3), "time", {"event": "seen", "offset": "log_effort"}),
    "negative binomial": (NegativeBinomial(2.0), "count", {"sample_weight": "often"}),
}
each_case = pytest.mark.parametrize("case", list(ONE_READ))


def chunks(table, length=N):
    return (table[i : min(i + 400, length)] for i in range(0, length, 400))


def arrays(table, target, names):
    """Return X, y and what belongs to them as arrays."""
    return (table[["x"]], table[target].to_numpy()), {
        name: table[column].to_numpy() for name, column in names.items()
    }


def regressor(family, **settings):
    return GPRegressor(KERNEL, likelihood=family, **(FIXED | settings))


def whole(table, case, **settings):
    family, target, names = ONE_READ[case]
    rows, beside = arrays(table, target, names)
    return regressor(family, **settings).fit(*rows, **beside)


def assert_same(gp, other, X):
    """The same model, to rounding."""
    assert gp.stats_.count == other.stats_.count
    np.testing.assert_allclose(gp.stats_.constants, other.stats_.constants, rtol=1e-11)
    assert gp.elbo_ == pytest.approx(other.elbo_, rel=1e-11)
    for mine, theirs in zip(
        gp.predict(X, return_std=True, type="link"),
        other.predict(X, return_std=True, type="link"),
        strict=True,
    ):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-9)


@each_case
@pytest.mark.parametrize("kind", ["frame", "dict", "parquet", "csv", "frames", "iterator"])
@pytest.mark.filterwarnings("ignore:.* rows have")
def test_sources_give_the_fit_of_arrays(case, kind, table, tmp_path, short_blocks):
    family, target, names = ONE_READ[case]
    data: object = table
    if kind == "dict":
        data = {name: table[name].to_numpy() for name in table}
    elif kind == "parquet":
        data = tmp_path / "rows.parquet"
        table.to_parquet(data, row_group_size=300)
    elif kind == "csv":
        data = tmp_path / "rows.csv"
        table.to_csv(data, index=False, float_format="%.17g")
    elif kind in ("frames", "iterator"):
        parts = [table[i : i + 400] for i in range(0, N, 400)]
        data = iter(parts) if kind == "iterator" else lambda: iter(parts)
    given = {("weight" if name == "sample_weight" else name): c for name, c in names.items()}
    gp = regressor(family).fit(scan(data, target, **given))
    assert_same(gp, whole(table, case), table["x"].to_numpy())
    assert gp.optimization_.reads == 1
    again = regressor(family).fit(scan(table), target, **names)  # named in fit, not in scan
    assert_same(again, gp, table["x"].to_numpy())


@each_case
@pytest.mark.filterwarnings("ignore:.* rows have")
def test_permuted_chunked_merged_and_forgotten(case, table):
    family, target, names = ONE_READ[case]
    gp = whole(table, case)
    order = np.random.default_rng(0).permutation(N)
    assert_same(whole(table.iloc[order], case), gp, table["x"].to_numpy())

    parts = [table[i : i + 400] for i in range(0, N, 400)]
    chunked, merged = regressor(family), regressor(family)
    for number, part in enumerate(parts):
        rows, beside = arrays(part, target, names)
        chunked.partial_fit(*rows, **beside)
        if number:
            merged.merge(regressor(family).partial_fit(*rows, **beside))
        else:
            merged.partial_fit(*rows, **beside)
    assert_same(chunked, gp, table["x"].to_numpy())
    assert_same(merged, gp, table["x"].to_numpy())

    rows, beside = arrays(parts[1], target, names)
    without = whole(pd.concat([parts[0], *parts[2:]]), case)
    assert_same(chunked.forget(*rows, **beside), without, table["x"].to_numpy())


def test_a_growing_domain_is_that_of_all_data(table):
    """Without a domain it grows, by whole cells: other cells, but the same rates."""
    order = table.sort_values("x")
    gp = GPRegressor(KERNEL, likelihood=Poisson(), num_basis=40)
    for part in (order[:500], order[500:1000], order[1000:]):
        gp.partial_fit(part[["x"]], part["count"], exposure=part["effort"])
    at_once = GPRegressor(KERNEL, likelihood=Poisson(), num_basis=40)
    at_once.fit(table[["x"]], table["count"], exposure=table["effort"])
    mean, std = at_once.predict(table[["x"]], return_std=True)
    assert np.max(np.abs(gp.predict(table[["x"]]) - mean) / std) < 0.3


def test_forgetting_what_was_never_added_is_refused(table):
    gp = whole(table, "poisson")
    x, y, e = table["x"][:50], table["count"][:50], table["effort"][:50]
    with pytest.raises(ValueError, match="never added"):
        gp.forget(pd.DataFrame({"x": x}), y + 1000.0, exposure=e)
    with pytest.raises(ValueError, match="never added"):
        gp.forget(pd.DataFrame({"x": x}), y, exposure=100.0 * e)
    assert gp.stats_.count == N


def test_one_number_for_all_rows(table):
    by_column = regressor(Poisson()).fit(table[["x"]], table["count"], exposure=np.full(N, 2.0))
    gp = regressor(Poisson()).fit(scan(table, "count", "x", exposure=2.0))
    assert_same(gp, by_column, table["x"].to_numpy())
    array = table[["x", "count", "effort"]].to_numpy()
    by_number = GPRegressor(Matern32(2.0) + Constant(variance=9.0), likelihood=Poisson(), **FIXED)
    by_number.fit(scan(array, 1, 0, exposure=2))  # a column, as those of arrays have numbers
    rows, beside = arrays(table, "count", {"exposure": "effort"})
    expected = regressor(Poisson()).fit(*rows, **beside)
    assert by_number.elbo_ == pytest.approx(expected.elbo_, rel=1e-11)


# ---------------------------------------------------------------- predictions


def test_predictions_of_sources_take_columns(table, tmp_path):
    gp = regressor(Poisson()).fit(scan(table, "count", exposure="effort"))
    effort, path = table["effort"].to_numpy(), tmp_path / "new.parquet"
    table.to_parquet(path)
    mean, std = gp.predict(table["x"].to_numpy(), return_std=True, exposure=effort)
    found = gp.predict(table, exposure="effort")
    np.testing.assert_allclose(found["mean"], mean, rtol=1e-12)
    np.testing.assert_allclose(found["std"], std, rtol=1e-12)
    found = gp.predict(path, offset="log_effort").read_all()
    np.testing.assert_allclose(found["mean"].to_numpy(), mean, rtol=1e-12)
    found = gp.predict(path, exposure=2.0).read_all()
    np.testing.assert_allclose(found["mean"].to_numpy(), 2.0 * mean / effort, rtol=1e-12)
    bands = gp.predict_quantiles(path, exposure="effort", include_noise=True)
    wanted = gp.predict_quantiles(table["x"].to_numpy(), exposure=effort, include_noise=True)
    np.testing.assert_array_equal(bands, wanted)
    draws = gp.sample_y(table, 2, 0, exposure="effort")
    np.testing.assert_allclose(
        draws, gp.sample_y(table["x"].to_numpy(), 2, 0, exposure=effort), rtol=1e-12
    )
    density = gp.log_predictive_density(path, "count", exposure="effort")
    y = table["count"].to_numpy()
    np.testing.assert_allclose(
        density,
        gp.log_predictive_density(table["x"].to_numpy(), y, exposure=effort),
        rtol=1e-11,
    )
    score = gp.score(path, "count", exposure="effort")
    assert score == pytest.approx(gp.score(table[["x"]].to_numpy(), y, exposure=effort))
    left = gp.leave_one_out(path, "count", exposure="effort")
    np.testing.assert_allclose(
        left.mean, gp.leave_one_out(table["x"].to_numpy(), y, exposure=effort).mean, rtol=1e-11
    )


def test_predictions_of_columns_that_are_not_there(table):
    gp = regressor(Poisson()).fit(scan(table, "count", exposure="effort"))
    with pytest.raises(ValueError, match="no column 'efort'"):
        gp.predict(table, exposure="efort")
    with pytest.raises(ValueError, match="have no names"):
        gp.predict(scan(table[["x"]].to_numpy()), exposure="effort")


# ---------------------------------------------------------------- several reads


@pytest.mark.parametrize("kind", ["frame", "parquet", "csv", "function"])
def test_rows_are_read_again(kind, table, tmp_path, short_blocks):
    data: object = table
    if kind == "parquet":
        data = tmp_path / "rows.parquet"
        table.to_parquet(data)
    elif kind == "csv":
        data = tmp_path / "rows.csv"
        table.to_csv(data, index=False, float_format="%.17g")
    elif kind == "function":
        data = partial(chunks, table)
    for family, target, names in (
        (StudentT(scale=0.1), "value", {}),
        (NegativeBinomial(2.0), "count", {"exposure": "effort"}),
    ):
        rows, beside = arrays(table, target, names)
        expected = regressor(family).fit(*rows, **beside)
        gp = regressor(family).fit(scan(data, target, "x", **names))
        assert_same(gp, expected, table["x"].to_numpy())
        assert gp.optimization_.reads == expected.optimization_.reads > 2


def test_every_read_is_counted(table, short_blocks):
    opened = []

    def data():
        opened.append(1)
        return chunks(table)

    gp = regressor(StudentT(scale=0.1)).fit(scan(data, "value", "x"))
    assert gp.optimization_.reads == len(opened)
    opened.clear()
    one = regressor(Bernoulli()).fit(scan(data, "class", "x"))
    assert one.optimization_.reads == len(opened) == 1


def test_progress_says_which_read(table, short_blocks, capsys, monkeypatch):
    monkeypatch.setattr("asvgp.runtime.progress.time.perf_counter", iter(range(10**9)).__next__)
    gp = regressor(StudentT(scale=0.1), progress=True)
    gp.fit(scan(partial(chunks, table), "value", "x"))
    assert f"read 3: 256 of {N:,}" in capsys.readouterr().err


@pytest.mark.parametrize("domain", [(0.0, 10.0), None])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_an_iterator_is_refused_before_the_work(method, domain, table, short_blocks):
    def parts():
        yield table[:600]
        yield table[600:1000]
        pytest.fail("it was read on")

    gp = regressor(StudentT(), domain=domain)
    with pytest.raises(ValueError, match=r"reads the rows .*Poisson, binomial .* one read only"):
        getattr(gp, method)(scan(parts(), "value", "x"))


def test_linear_effects_and_offsets_need_more_reads(table, short_blocks):
    kernel = KERNEL + Linear("effort", variance=4.0)
    gp = GPRegressor(kernel, likelihood=Poisson(), **FIXED)
    data = iter([table[:600], table[600:]])
    with pytest.raises(ValueError, match="reads the rows several times"):
        gp.fit(scan(data, "count"))
    reads = gp.fit(scan(lambda: iter([table[:600], table[600:]]), "count")).optimization_.reads
    assert reads > 2
    classes = regressor(Bernoulli()).partial_fit(table[["x"]], table["class"])
    with pytest.raises(ValueError, match="with the offset of these"):
        classes.partial_fit(table[["x"]], table["class"], offset=table["effort"])


def test_a_source_that_changes_between_reads_is_noticed(table, short_blocks):
    lengths = iter([N, N, N, N - 1])

    def data():
        return chunks(table, next(lengths))

    with pytest.raises(ValueError, match=r"1,500 rows .* in the first, 1,499 in read 4"):
        regressor(StudentT(scale=0.1)).fit(scan(data, "value", "x"))


def test_rows_without_targets_and_weights_are_left_out_of_every_read(table, short_blocks):
    gaps = table.assign(value=table["value"].where(table["often"] != 1))
    gp = regressor(StudentT(scale=0.1))
    with pytest.warns(UserWarning, match="left out as missing"):
        gp.fit(scan(gaps, "value", "x", weight="often"))
    there = gaps[gaps["often"] == 2]
    expected = regressor(StudentT(scale=0.1)).fit(
        there[["x"]], there["value"], sample_weight=there["often"]
    )
    assert_same(gp, expected, table["x"].to_numpy())


# ---------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    "given, match",
    [
        ({"exposure": "efort"}, "no column 'efort'.*Did you mean 'effort'"),
        ({"exposure": "log_effort"}, "exposure must contain positive"),
        ({"trials": "tries"}, "trials has no meaning for Poisson"),
    ],
)
def test_columns_that_do_not_go_with_the_family(given, match, table, short_blocks):
    with pytest.raises(ValueError, match=match):
        regressor(Poisson()).fit(scan(table, "count", **given))


def test_arrays_beside_a_source_are_refused(table):
    message = "exposure must be the name of a column, or one number for all rows"
    with pytest.raises(TypeError, match=message):
        regressor(Poisson()).fit(scan(table, "count"), exposure=table["effort"].to_numpy())
    with pytest.raises(TypeError, match=message):
        scan(table, "count", exposure=table["effort"])


def test_rows_with_bad_values_are_counted_from_the_first(table, short_blocks):
    bad = table.assign(count=table["count"].where(table.index != 1000, -1))
    with pytest.raises(
        ValueError, match=r"From row 768 .*must contain non-negative counts.* row 232"
    ):
        regressor(Poisson()).fit(scan(bad, "count", exposure="effort"))


def test_exposure_is_not_an_input_by_default(table):
    kernel = Matern32() + Constant(variance=9.0)
    gp = GPRegressor(kernel, likelihood=Poisson(), num_basis=20)
    gp.fit(scan(table[["x", "count", "effort"]], "count", exposure="effort"))
    assert list(gp.feature_names_in_) == ["x"]


def test_gaussian_noise_takes_none_of_it(table):
    with pytest.raises(ValueError, match="exposure is for likelihoods that are not Gaussian"):
        GPRegressor(Matern32(), num_basis=20).fit(scan(table, "value", "x", exposure="effort"))
