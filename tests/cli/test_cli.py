"""Every command end to end on real files, beside the Python interface's numbers."""

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
import pytest
from click import Context
from numpy.testing import assert_allclose

import asvgp
from asvgp import GPRegressor
from asvgp.cli.app import COMMANDS, app
from asvgp.kernels.text import PARTS, parse_kernel
from tests.cli.command_line import ROLES, call, column, direct, power, write


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
def test_fit_from_every_kind_of_file(files, tmp_path, ending):
    output = tmp_path / "model.asvgp"
    result = call("fit", files / f"power.{ending}", *ROLES, "--num-basis", 60, "-o", output)
    twin, gp = direct(num_basis=60), asvgp.load(output)
    assert gp.elbo_ == pytest.approx(twin.elbo_, rel=1e-12)
    assert gp.progress == "auto"
    assert "power from time" in result.stdout
    assert "Observations      1,000" in result.stdout
    assert result.stderr.startswith(f"Wrote {output}")
    assert [path.name for path in tmp_path.iterdir()] == ["model.asvgp"]


def test_fit_with_all_that_can_be_said(files, tmp_path):
    data = power()
    weighted = data.append_column("w", pa.array(np.linspace(0.5, 2.0, len(data))))
    write(weighted, tmp_path / "w.parquet")
    result = call(
        *("fit", tmp_path / "w.parquet", "--target", "power", "--input", "hours", "--weight", "w"),
        *("--kernel", "matern52(3, variance=2) + constant", "--num-basis", "50", "--degree", "3"),
        *("--domain", "-10,600", "--noise", "0.02", "--fixed", "--objective", "evidence"),
        *("--memory-limit", "1GiB", "--json", "--quiet", "-o", tmp_path / "m.asvgp"),
    )
    kernel = asvgp.Matern52(3.0, variance=2.0) + asvgp.Constant()
    settings = {"num_basis": 50, "degree": 3, "noise_variance": 0.02, "objective": "evidence"}
    twin = GPRegressor(kernel, domain=(-10, 600), optimizer=None, **settings)
    hours, y = column(data, "hours"), column(data, "power")
    twin.fit(hours, y, sample_weight=column(weighted, "w"))
    facts = json.loads(result.stdout)
    assert facts["elbo"] == pytest.approx(twin.elbo_, rel=1e-12)
    assert facts["domain"] == [-10.0, 600.0]
    assert facts["num_basis"] == 50
    assert facts["objective"] == "evidence"
    assert result.stderr == ""


def test_fit_of_averages_with_known_noise_in_a_time_zone(tmp_path):
    data = power().append_column("v", pa.array(np.full(1000, 0.01)))
    zoned = data.column("time").cast(pa.timestamp("us", "Europe/Berlin"))
    write(data.set_column(0, "time", zoned), tmp_path / "a.parquet")
    result = call(
        *("fit", tmp_path / "a.parquet", *ROLES, "--noise-variance", "v", "--width", "30 min"),
        *("--degree", 2, "-o", tmp_path / "m.asvgp"),
    )
    with pytest.warns(UserWarning, match="inside the intervals") as told:
        twin = GPRegressor(degree=2).fit(
            *(column(data, "time"), column(data, "power")),
            noise_variance=np.full(1000, 0.01),
            width=np.timedelta64(30, "m"),
        )
    assert f"warning: {told[0].message}\n" in result.stderr
    gp = asvgp.load(tmp_path / "m.asvgp")
    assert gp.elbo_ == pytest.approx(twin.elbo_, rel=1e-10)
    assert gp.noise_variance_ == 1.0
    # Clocks in Berlin are an hour ahead.
    arguments = ("--at", "2024-01-05T13:00", "-o", "-")
    shown = call("predict", tmp_path / "m.asvgp", *arguments).stdout
    time, mean, _ = shown.splitlines()[1].split(",")
    assert time == "2024-01-05 13:00:00+0100"
    assert float(mean) == pytest.approx(twin.predict(np.array(["2024-01-05T12"], "M8[h]"))[0])
    offset = call("predict", tmp_path / "m.asvgp", "--at", "2024-01-05T12:00Z", "-o", "-").stdout
    assert offset == shown


def test_fit_of_several_files_and_targets(tmp_path):
    data = power()
    data = data.append_column("twice", pa.array(2.0 * column(data, "power")))
    parts = [write(data[:400], tmp_path / "a.csv"), write(data[400:], tmp_path / "b.csv")]
    call(
        *("fit", *parts, "--target", "power", "--target", "twice", "--input", "hours"),
        *("--num-basis", 60, "-o", tmp_path / "m.asvgp"),
    )
    y = np.stack([column(data, "power"), column(data, "twice")], axis=1)
    twin = GPRegressor(num_basis=60).fit(column(data, "hours"), y)
    call("predict", tmp_path / "m.asvgp", parts[0], "--level", 0.5, "-o", tmp_path / "o.parquet")
    found = pa.parquet.read_table(tmp_path / "o.parquet")
    mean = twin.predict(column(data, "hours")[:400])
    assert_allclose(column(found, "mean_twice"), mean[:, 1], atol=1e-9)
    inside = (y[:400, 0] - column(found, "lower_power")) * (
        column(found, "upper_power") - y[:400, 0]
    )
    assert len(inside) == 400
    assert np.any(inside > 0.0)


def test_fit_of_an_array(tmp_path):
    data = power()
    table = np.stack([column(data, "power"), column(data, "hours")], axis=1)
    np.save(tmp_path / "a.npy", table)
    call("fit", tmp_path / "a.npy", "--target", 0, "--num-basis", 60, "-o", tmp_path / "m.asvgp")
    np.save(tmp_path / "x.npy", table[:50, 1:])
    call("predict", tmp_path / "m.asvgp", tmp_path / "x.npy", "-o", tmp_path / "o.csv")
    twin = GPRegressor(num_basis=60).fit(table[:, 1:], table[:, 0])
    found = pa.csv.read_csv(tmp_path / "o.csv")
    assert_allclose(column(found, "mean"), twin.predict(table[:50, 1:]), rtol=1e-9)
    call("predict", tmp_path / "m.asvgp", "--at", "3:4:1", "-o", tmp_path / "o.csv")
    assert column(pa.csv.read_csv(tmp_path / "o.csv"), "x").tolist() == [3, 4]


def test_predict_writes_every_kind_of_table(files, tmp_path):
    twin, new = direct(num_basis=60), power(100, seed=9)
    mean, std = twin.predict(column(new, "time"), return_std=True, include_noise=True)
    for ending in ("csv", "parquet", "feather", "csv.gz", "tsv"):
        output = tmp_path / f"out.{ending}"
        result = call(
            *("predict", files / "power.asvgp", files / "new.csv", "--keep", "site"),
            *("--level", 0.95, "--include-noise", "--json", "-o", output),
        )
        facts = json.loads(result.stdout)
        assert facts["rows"] == 100
        assert facts["columns"] == ["time", "site", "mean", "std", "lower", "upper"]
        source = asvgp.scan(output)
        rows = next(iter(source.batches(facts["columns"])))
        assert_allclose(np.asarray(rows["mean"]), mean, rtol=1e-12)
        assert_allclose(np.asarray(rows["std"]), std, rtol=1e-12)
        assert_allclose(np.asarray(rows["upper"]), mean + 1.959963984540054 * std, rtol=1e-12)
        assert rows["site"].to_pylist() == ["north", "south"] * 50
    assert len(list(tmp_path.iterdir())) == 5


def test_predict_components_and_all_columns(files, tmp_path):
    model, output = tmp_path / "m.asvgp", tmp_path / "out.parquet"
    call(
        *("fit", files / "power.csv", *ROLES, "--num-basis", 60),
        *("--kernel", "matern32(10d) + sho(period=1d, quality=100)", "--fixed", "--noise", 0.01),
        *("-o", model),
    )
    call("predict", model, files / "new.csv", "--components", "--keep", "*", "-o", output)
    found = pa.parquet.read_table(output)
    assert found.schema.names[:4] == ["time", "hours", "power", "site"]
    gp, times = asvgp.load(model), column(power(100), "time")
    _, _, parts = gp.predict(times, return_std=True, components=True)
    assert_allclose(column(found, "mean_sho"), parts[1].mean, rtol=1e-12)
    total = column(found, "mean_sho") + column(found, "mean_matern32")
    assert_allclose(total, column(found, "mean"), atol=1e-12)


def test_predict_places_on_a_line_and_on_a_grid(files, tmp_path):
    arguments = ("--at", "2024-01-25T00:00:2024-01-26:6h", "-o", "-")
    lines = call("predict", files / "power.asvgp", *arguments).stdout.splitlines()
    times = np.datetime64("2024-01-25", "h") + np.arange(0, 25, 6)
    assert lines[0] == '"time","mean","std"'
    assert [np.datetime64(line[:19]) for line in lines[1:]] == list(times)
    assert_allclose(
        [float(line.split(",")[1]) for line in lines[1:]], direct(num_basis=60).predict(times)
    )
    call(
        *("predict", files / "field.asvgp", "--grid", "lat=0:1:0.5", "--grid", "lon=0.1:0.2:0.1"),
        *("-o", tmp_path / "map.parquet"),
    )
    found = pa.parquet.read_table(tmp_path / "map.parquet")
    assert column(found, "lat").tolist() == [0.0, 0.5, 1.0] * 2
    gp = asvgp.load(files / "field.asvgp")
    expected = gp.predict((np.array([0.1, 0.2]), np.array([0.0, 0.5, 1.0]))).ravel()
    assert_allclose(column(found, "mean"), expected, rtol=1e-12)


def test_predict_from_columns_of_other_names(files, tmp_path):
    new = power(20).rename_columns(["when", "hours", "power", "site"])
    write(new, tmp_path / "other.csv")
    call(
        *("predict", files / "power.asvgp", tmp_path / "other.csv", "--input", "when"),
        *("-o", tmp_path / "out.csv"),
    )
    found = pa.csv.read_csv(tmp_path / "out.csv")
    assert found.schema.names == ["when", "mean", "std"]
    expected = direct(num_basis=60).predict(column(new, "when"))
    assert_allclose(column(found, "mean"), expected, rtol=1e-9)


def test_update_is_a_fit_to_all_data(files, tmp_path):
    data, model = power(), tmp_path / "m.asvgp"
    early, late = write(data[:600], tmp_path / "a.csv"), write(data[600:], tmp_path / "b.parquet")
    domain = ("--domain", "2024-01-01,2024-02-01")
    call("fit", early, *ROLES, *domain, "--num-basis", 60, "-o", model)
    before = model.read_bytes()
    call("update", model, late, "-o", tmp_path / "n.asvgp")
    assert model.read_bytes() == before
    facts = json.loads(call("update", model, late, "--json").stdout)
    ends = np.datetime64("2024-01-01"), np.datetime64("2024-02-01")
    twin = direct(num_basis=60, domain=ends)
    assert facts["observations"] == 1000
    assert facts["targets"] == ["power"]
    assert facts["elbo"] == pytest.approx(twin.elbo_, rel=1e-6)
    assert asvgp.load(tmp_path / "n.asvgp").elbo_ == facts["elbo"]
    assert asvgp.load(model).elbo_ == facts["elbo"]


def test_merge_adds_models(files, tmp_path):
    data, models = power(), []
    for name, rows in (("a", slice(0, 300)), ("b", slice(300, 700)), ("c", slice(700, None))):
        path = write(data[rows], tmp_path / f"{name}.parquet")
        models.append(tmp_path / f"{name}.asvgp")
        call(
            *("fit", path, "--target", "power", "--input", "hours", "--domain", "0,500"),
            *("--num-basis", 60, "-o", models[-1]),
        )
    facts = json.loads(call("merge", *models, "--json", "-o", tmp_path / "all.asvgp").stdout)
    twin = GPRegressor(num_basis=60, domain=(0, 500))
    twin.fit(column(data, "hours"), column(data, "power"))
    assert facts["observations"] == 1000
    assert facts["elbo"] == pytest.approx(twin.elbo_, abs=1e-2)  # trained from another start


def test_merge_of_times_on_a_common_domain(tmp_path):
    data, models = power(), []
    begin, end = (str(column(data, "time")[i].astype("M8[s]")) for i in (0, -1))
    for name, rows in (("a", slice(0, 400)), ("b", slice(400, None)), ("all", slice(None))):
        path = write(data[rows], tmp_path / f"{name}.parquet")
        models.append(tmp_path / f"{name}.asvgp")
        options = ("--domain", f"{begin},{end}", "--num-basis", 60, "-o", models[-1])
        call("fit", path, *ROLES, *options)
    call("merge", *models[:2], "-o", tmp_path / "merged.asvgp")
    merged, whole = asvgp.load(tmp_path / "merged.asvgp"), asvgp.load(models[-1])
    assert_allclose(merged.stats_.moments, whole.stats_.moments, rtol=1e-9, atol=1e-9)
    assert merged.elbo_ == pytest.approx(whole.elbo_, rel=1e-6)


@pytest.mark.parametrize("ending", ["nc", "zarr"])
def test_grids_of_netcdf_and_zarr(tmp_path, ending):
    import xarray as xr

    rng = np.random.default_rng(3)
    lat, lon = np.linspace(50.0, 60.0, 12), np.linspace(0.0, 10.0, 15)
    warm = np.sin(lat)[:, None] * np.cos(lon) + 0.1 * rng.standard_normal((12, 15))
    data = xr.Dataset({"t2m": (("lat", "lon"), warm)}, {"lat": lat, "lon": lon})
    path, model = tmp_path / f"warm.{ending}", tmp_path / "warm.asvgp"
    if ending == "nc":
        data.to_netcdf(path)
    else:
        data.to_zarr(path, zarr_format=2, consolidated=True)
    kernel = "matern32(2, dim=lat) * matern32(2, dim=lon) + constant"
    call("fit", path, "--target", "t2m", "--kernel", kernel, "--num-basis", 8, "-o", model)
    twin = GPRegressor(parse_kernel(kernel), num_basis=8).fit({"lat": lat, "lon": lon}, warm)
    assert asvgp.load(model).elbo_ == pytest.approx(twin.elbo_, rel=1e-9)
    call("predict", model, path, "-o", tmp_path / "out.parquet")
    out = pa.parquet.read_table(tmp_path / "out.parquet")
    assert out.schema.names == ["lat", "lon", "mean", "std"]
    assert_allclose(column(out, "mean"), twin.predict((lat, lon)).ravel(), rtol=1e-6, atol=1e-8)
    call("update", model, path, "-o", tmp_path / "twice.asvgp")
    assert asvgp.load(tmp_path / "twice.asvgp").stats_.count == 360


def test_info_in_words_and_for_machines(files, tmp_path):
    words = call("info", files / "power.asvgp").stdout
    gp = asvgp.load(files / "power.asvgp")
    assert f"{gp.elbo_:.6g}" in words
    facts = json.loads(call("info", files / "power.asvgp", "--json").stdout)
    assert facts["elbo"] == gp.elbo_
    assert facts["inputs"] == ["time"]
    assert facts["trained"] is True
    assert facts["domain"][0].startswith("2024-01-01")
    data = power()
    seen = GPRegressor(num_basis=20).partial_fit(column(data, "hours"), column(data, "power"))
    seen.save(tmp_path / "seen.asvgp")
    assert "not trained yet" in call("info", tmp_path / "seen.asvgp").stdout
    assert json.loads(call("info", tmp_path / "seen.asvgp", "--json").stdout)["trained"] is False


@pytest.mark.parametrize(
    "model, kind, arguments",
    [
        ("power", "auto", ("--forecast", "2d", "--include-noise")),
        ("power", "components", ("--interval", "2024-01-03,2024-01-08")),
        ("power", "series", ("--interval", "2024-01-10,2024-01-15", "--forecast", "1d")),
        ("power", "check", ()),
        ("power", "residuals", ("--held-out",)),
        ("power", "bound", ()),
        ("field", "auto", ()),
    ],
)
def test_plot_draws(files, tmp_path, model, kind, arguments):
    pytest.importorskip("matplotlib")
    output = tmp_path / "picture.png"
    call(
        *("plot", files / f"{model}.asvgp", files / f"{model}.parquet", "--kind", kind),
        *(*arguments, "--dpi", 40, "-o", output),
    )
    assert output.read_bytes().startswith(b"\x89PNG")
    assert len(output.read_bytes()) > 3000


def test_plot_of_the_model_alone(files, tmp_path):
    pytest.importorskip("matplotlib")
    call("plot", files / "power.asvgp", "-o", tmp_path / "picture.svg")
    assert "<svg" in (tmp_path / "picture.svg").read_text()
    assert (
        "DATA"
        in call("plot", files / "power.asvgp", "--kind", "check", "-o", "a.png", code=2).stderr
    )


def test_report_writes_a_page(files, tmp_path):
    pytest.importorskip("asvgp.report")
    output = tmp_path / "report.html"
    call("report", files / "power.asvgp", files / "power.parquet", "-o", output)
    assert "<html" in output.read_text().lower()
    said = call("report", files / "field.asvgp", "-o", output, "--json")
    page = output.read_text()
    assert "height" in page
    answer = json.loads(said.stdout)
    assert answer["output"] == str(output)
    assert f">{answer['verdict']}</p>" in page
    found = {one["question"]: one for one in answer["findings"]}
    assert {*found} == {*re.findall(r"<h3>([^<]*\?)</h3>", page)}
    assert found["Are the bands as wide as they should be?"]["verdict"] == "Not checked"
    assert found["Are the bands as wide as they should be?"]["number"] is None
    assert found["Are data missing?"]["number"] == 0.0
    explained = found["How much does the model explain?"]
    assert f"{100 * explained['number']:.3g} %" in explained["words"]


def test_demo_prints_its_table(tmp_path):
    numbers = json.loads(call("demo", "--points", 3000, "--no-picture", "--json").stdout)
    assert numbers["observations"] >= 3000
    assert numbers["held-out coverage of the 95 % band"] == pytest.approx(0.95, abs=0.07)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples_that_can_be_read(name):
    """All that the examples say is understood: commands, options and their values."""
    text = call(name, "--help").stdout
    assert "Examples:" in text
    command = app.get_command(Context(app), name)
    assert command is not None
    known = {option for parameter in command.params for option in parameter.opts}
    for line in text.partition("Examples:")[2].splitlines():
        said = [word for word in line.split() if word.startswith("-") and word != "-"]
        assert set(said) <= known, line


def test_help_of_fit_lists_all_kernels():
    words = call("fit", "--help").stdout.replace(",", " ").replace(".", " ").split()
    assert set(PARTS) <= set(words)


def test_completion_of_shells_and_columns(files):
    from click.shell_completion import ShellComplete

    for shell in ("bash", "zsh", "fish"):
        assert "_ASVGP_COMPLETE" in call("completion", shell).stdout
    complete = ShellComplete(app, {}, "asvgp", "_ASVGP_COMPLETE").get_completions
    words = ["fit", str(files / "power.csv"), "--target"]
    assert [item.value for item in complete(words, "po")] == ["power"]
    words = ["predict", str(files / "power.asvgp"), str(files / "new.csv"), "--keep"]
    assert [item.value for item in complete(words, "s")] == ["site"]
    assert next(item.value for item in complete(["fit", "--kernel"], "mat")) == "matern12"
    assert complete(["fit", "nothing.csv", "--target"], "") == []


def test_warnings_are_plain_lines(tmp_path):
    data = power()
    y = column(data, "power").copy()
    y[:3] = np.nan
    write(data.set_column(2, "power", pa.array(y)), tmp_path / "a.parquet")
    output = tmp_path / "m.asvgp"
    result = call("fit", tmp_path / "a.parquet", *ROLES, "--num-basis", 60, "-o", output)
    assert (
        "warning: 3 of 1000 rows have power = NaN and are left out as missing.\n" in result.stderr
    )


def test_progress_shows_rate_and_what_is_left(files, tmp_path, monkeypatch):
    clock = iter(range(10**6))
    arguments = (
        "predict",
        files / "power.asvgp",
        files / "power.parquet",
        "-o",
        tmp_path / "o.csv",
    )
    with monkeypatch.context() as patch:
        patch.setattr("asvgp.runtime.progress.time.perf_counter", lambda: float(next(clock)))
        shown = call(*arguments, "--progress").stderr
    assert "prediction: 1,000 of 1,000, " in shown
    assert "million per second, 0 s left" in shown
    assert call(*arguments).stderr.startswith("Wrote ")
    assert call(*arguments, "--quiet").stderr == ""


@pytest.mark.parametrize("command", ["plot", "report"])
def test_progress_of_reading_what_is_compared(files, tmp_path, monkeypatch, command):
    clock = iter(range(10**6))
    kind = {"plot": ("--kind", "check", "-o", tmp_path / "o.png")}
    output = kind.get(command, ("-o", tmp_path / "o.html"))
    with monkeypatch.context() as patch:
        patch.setattr("asvgp.runtime.progress.time.perf_counter", lambda: float(next(clock)))
        arguments = (files / "power.asvgp", files / "power.parquet", *output)
        assert "reading: 1,000 of 1,000, " in call(command, *arguments, "--progress").stderr


def test_debug_shows_where_an_error_came_from(files, tmp_path):
    arguments = ("fit", files / "power.csv", "--target", "time", "-o", tmp_path / "m.asvgp")
    assert "must hold numbers" in call(*arguments, "--input", "hours", code=1).stderr
    from click.testing import CliRunner

    words = [str(word) for word in (*arguments, "--input", "hours", "--debug")]
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, TypeError)


def test_json_says_in_what_unit(files):
    facts = json.loads(call("info", files / "power.asvgp", "--json").stdout)
    by_name = {(row["component"], row["name"]): row for row in facts["hyperparameters"]}
    length, noise = by_name["Matern32", "lengthscale"], by_name["noise", "variance"]
    gp = asvgp.load(files / "power.asvgp")
    assert length["estimate"] == pytest.approx(float(gp.kernel_.components[0].lengthscale))
    assert length["unit"] == "seconds"
    assert asvgp.times.as_duration(length["in_words"]) == pytest.approx(length["estimate"], 1e-4)
    assert length["in_words"] in call("info", files / "power.asvgp").stdout
    assert noise["unit"] is None
    assert facts["kernel_choice"] == gp.summary().kernel_choice != ""
    assert facts["time_origin"] == {"time": str(column(power(), "time").min())[:10]}
    assert json.loads(call("info", files / "field.asvgp", "--json").stdout)["time_origin"] is None


def test_the_summary_is_easy_to_read(files):
    text = call("info", files / "power.asvgp").stdout
    assert ".000000000" not in text
    for line in text.splitlines():
        assert " [" in line or "[" not in line, line


def test_update_says_how_many_rows(files, tmp_path):
    result = call("update", files / "power.asvgp", files / "new.csv", "-o", tmp_path / "n.asvgp")
    assert "100 rows added, now 1,100.\n" in result.stderr
    options = ("-o", tmp_path / "n.asvgp", "--json")
    facts = json.loads(call("update", files / "power.asvgp", files / "new.csv", *options).stdout)
    assert (facts["added"], facts["observations"]) == (100, 1100)


def test_a_large_file_says_how_it_would_be_small(tmp_path, monkeypatch):
    from asvgp.cli import session

    x = np.arange(3000.0)
    noise = np.random.default_rng(0).standard_normal(3000)
    data = {"x": x, "rough": noise.cumsum(), "smooth": np.sin(x / 300) + 0.1 * noise}
    write(pa.table(data), tmp_path / "d.parquet")
    monkeypatch.setattr(session, "LARGE", 30_000)
    fit = ("fit", tmp_path / "d.parquet", "--input", "x", "-o", tmp_path / "m.asvgp")
    fit = (*fit, "--degree", 2, "--target")

    def size():
        return (tmp_path / "m.asvgp").stat().st_size

    said, full = call(*fit, "smooth", "--noise", 0.01, "--full").stderr, size()
    assert "Without --full" in said
    said, small = call(*fit, "smooth", "--noise", 0.01).stderr, size()
    assert "--full" not in said
    assert small < 0.5 * full
    said, small = call(*fit, "rough", "--noise", 0.01).stderr, size()
    assert small > 30_000
    wanted = re.search(r"The automatic grid has .* --num-basis (\d+)", said)
    assert wanted is not None
    said = call(*fit, "rough", "--noise", 0.01, "--num-basis", wanted[1]).stderr
    assert "--num-basis" not in said
    assert size() < small
