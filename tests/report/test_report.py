"""The report: a page that stands alone, says what the model says, and can be explored."""

import base64
import json
import re
import sys
import warnings
from functools import cache
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from asvgp import SHO, Constant, GPRegressor, Linear, Matern12, Matern32, Matern52, scan
from asvgp.plot.view import View
from asvgp.report import charts, write_report
from asvgp.report.curves import curve, nodes
from asvgp.report.sums import cell_means, remainder
from asvgp.report.text import at, fixed, shown
from asvgp.report.usage import python
from tests.plot.pictures import field_model, line_model, mixed_model

VOID = {"meta", "input", "line", "polyline", "polygon", "circle", "br"}
NASTY = '</script><script>alert("x")</script>&<b>\'"'


class Page(HTMLParser):
    """Elements, text by element, and whether tags are balanced."""

    def __init__(self, text):
        super().__init__()
        self.stack, self.elements, self.texts, self.content = [], [], [], {}
        self.feed(text)
        self.close()
        assert not self.stack, f"never closed: {self.stack}"

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append((tag, dict(attrs)))

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.stack, f"</{tag}> closes nothing"
        assert self.stack.pop()[0] == tag, f"</{tag}> in the wrong place"

    def handle_data(self, data):
        tag, attrs = self.stack[-1] if self.stack else ("", {})
        if tag not in ("script", "style"):
            self.texts.append(data)
        elif attrs.get("type") == "application/json":
            self.content[attrs["id"]] = json.loads(data)

    @property
    def text(self):
        return " ".join(self.texts)

    def named(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


@cache
def timed_model():
    rng = np.random.default_rng(5)
    t = pd.date_range("2023-12-28", periods=4000, freq="10min", tz="Europe/London")
    hours = np.arange(4000) / 6.0
    y = 400.0 + np.sin(hours * 2 * np.pi / 24) + 0.1 * rng.standard_normal(4000)
    X, y = pd.DataFrame({"when": t}), pd.Series(y, name="CO₂ <ppm>")
    kernel = Matern32("2 days") + SHO("1 day", quality=30.0) + Constant()
    gp = GPRegressor(kernel, num_basis=400, optimizer=None, noise_variance=0.01)
    return gp.fit(X, y), X, y


def read(tmp_path, gp, *data, **options):
    path = write_report(gp, tmp_path / "report.html", *data, **options)
    return Page(path.read_text(encoding="utf-8"))


def unpacked(text, dtype="<f4"):
    return np.frombuffer(base64.b64decode(text), dtype)


MODELS = {
    "line": line_model,
    "times": timed_model,
    "field": field_model,
    "mixed": mixed_model,
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("with_data", [False, True], ids=["model", "data"])
def test_page_is_whole_and_loads_nothing(kind, with_data, tmp_path):
    gp, *data = MODELS[kind]()
    page = read(tmp_path, gp, *(data if with_data else ()))
    for tag, attrs in page.elements:
        for name in ("src", "href", "srcset", "data", "action"):
            assert attrs.get(name, "#")[:1] == "#", f"<{tag} {name}> leads elsewhere"
        assert tag not in ("link", "img", "iframe", "object", "embed", "base")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"https?:|//[a-z0-9-]+\.[a-z]|@import|url\(", text)
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    anchors = [attrs["href"][1:] for attrs in page.named("a")]
    assert anchors == ["good", "explore", "fitted", "components", "use"]
    assert set(anchors) <= set(ids)
    figures = [attrs["data-figure"] for attrs in page.named("figure") if "data-figure" in attrs]
    assert figures == list(page.content)
    assert len(text) < 3_000_000


def test_same_model_same_bytes(tmp_path):
    gp, X, y = line_model()
    first = write_report(gp, tmp_path / "a.html", X, y).read_bytes()
    assert write_report(gp, tmp_path / "b.html", X, y).read_bytes() == first


def test_saved_model_gives_the_same_page(tmp_path):
    import asvgp

    gp, _, _ = timed_model()
    gp.save(tmp_path / "model.asvgp")
    first = write_report(gp, tmp_path / "a.html").read_bytes()
    again = write_report(asvgp.load(tmp_path / "model.asvgp"), tmp_path / "b.html").read_bytes()
    assert again == first


def test_numbers_are_the_models(tmp_path):
    gp, X, y = line_model()
    page, summary = read(tmp_path, gp, X, y), gp.summary()
    for row in summary.hyperparameters:
        assert shown(row["estimate"], 5) in page.text
    assert "600 observations" in page.text
    assert f"{gp.num_basis_:,}" in page.text
    assert shown(gp.elbo_, 7) in page.text
    left = gp.leave_one_out(X, y)
    inside = np.mean(np.abs(left.z) <= 1.959963984540054)
    assert f"The 95 % band holds {100 * inside:.1f} % of 600 observations" in page.text


def test_times_are_in_the_zone_and_durations_in_units(tmp_path):
    gp, X, y = timed_model()
    page = read(tmp_path, gp, X, y)
    assert "2023-12-28 GMT" in page.text
    assert "2 days" in page.text
    axis = page.content["figure-1"]["axis"]
    assert axis["label"] == "when (Europe/London)"
    assert axis["time"]["zone"] == "Europe/London"
    assert axis["time"]["origin"] == X.when[0].timestamp() * 1000


def test_what_users_named_is_text(tmp_path):
    X = pd.DataFrame({NASTY: np.linspace(0.0, 1.0, 50)})
    y = pd.Series(np.sin(9 * X[NASTY]), name=NASTY)
    gp = GPRegressor(Matern32(dim=NASTY), num_basis=20, noise_variance=0.1, optimizer=None)
    page = read(tmp_path, gp.fit(X, y), X, y, title=f"T {NASTY}")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "alert" not in [tag for tag, _ in page.elements]
    assert len(page.named("script")) == 1 + len(page.content)
    assert "<script>alert" not in text
    assert NASTY in page.text
    assert page.content["figure-1"]["axis"]["label"] == NASTY


# ------------------------------------------------------------ what the page carries


def from_nodes(values, degree, t):
    """Polynomials on cells from values at Chebyshev's points, by NumPy."""
    cell = np.minimum(t.astype(int), (len(values) - 1) // degree - 1)
    s = np.append(nodes(degree), 1.0)
    out = np.empty(len(t))
    for i, (c, place) in enumerate(zip(cell, t - cell, strict=True)):
        own = values[c * degree : (c + 1) * degree + 1].astype(float)
        out[i] = np.polynomial.Polynomial.fit(s, own, degree, domain=[0, 1], window=[-1, 1])(place)
    return out


@pytest.mark.parametrize("kernel", [Matern12(2.0), Matern32(2.0) + Constant(), Matern52(2.0)])
def test_page_carries_the_posterior_itself(kernel, tmp_path):
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 20.0, 300))
    y = 1000.0 + np.sin(x) + 0.1 * rng.standard_normal(300)
    gp = GPRegressor(kernel, num_basis=40, noise_variance=0.01, optimizer=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a mean without an intercept
        gp.fit(x, y)
    carried = read(tmp_path, gp, x, y).content["figure-1"]["curve"]
    places = rng.uniform(carried["lower"], carried["upper"], 500)
    t = (places - carried["lower"]) / (carried["upper"] - carried["lower"]) * carried["cells"]
    degree, scale = carried["degree"], carried["scale"]
    mean = carried["offset"] + scale * from_nodes(unpacked(carried["mean"]), degree, t)
    variance = scale**2 * from_nodes(unpacked(carried["variance"]), 2 * degree, t)
    wanted, std = gp.predict(places, return_std=True)
    np.testing.assert_allclose(mean, wanted, rtol=0, atol=1e-6 * np.ptp(wanted))
    np.testing.assert_allclose(variance, std**2, rtol=1e-4)


def test_large_models_are_reduced_to_ranges():
    gp, _, _ = line_model()
    view = View(gp)
    place, grid = view.line, view.posterior.stats.grid
    carried = curve(grid, 2, lambda x: view.predict({place.column: x}), room=60)
    low, high, spread = (unpacked(carried[name]) for name in ("low", "high", "spread"))
    together = carried["together"]
    assert len(low) == -(-grid.cells // together) <= 20
    x = np.linspace(grid.lower, grid.upper, 2001)
    mean, std = view.predict({place.column: x})
    own = np.minimum(((x - grid.lower) / grid.spacing).astype(int), grid.cells - 1) // together
    reach = 2e-2 * np.ptp(mean)
    assert np.all(mean >= carried["offset"] + carried["scale"] * low[own] - reach)
    assert np.all(mean <= carried["offset"] + carried["scale"] * high[own] + reach)
    assert np.all(std <= carried["scale"] * spread[own] * 1.05)


def test_splines_finer_than_needed_take_fewer_pieces():
    x = np.linspace(0.0, 20.0, 500)
    kernel = Matern52(5.0)
    gp = GPRegressor(kernel, num_basis=2000, noise_variance=0.01, optimizer=None).fit(x, np.sin(x))
    view = View(gp)
    grid = view.posterior.stats.grid
    carried = curve(grid, 3, lambda x: view.predict({0: x}), room=1000)
    assert carried["cells"] == 111
    places = np.linspace(0.0, 20.0, 777)
    mean = from_nodes(unpacked(carried["mean"]), 3, np.minimum(places / 20.0 * 111, 110.9999))
    wanted, std = gp.predict(places, return_std=True)
    error = carried["offset"] + carried["scale"] * mean - wanted
    assert np.abs(error).max() < 0.02 * std.min()


def test_observations_keep_their_extremes(tmp_path):
    rng = np.random.default_rng(1)
    x = rng.uniform(0.0, 10.0, 50_000)
    y = np.sin(x) + 0.1 * rng.standard_normal(50_000)
    y[[100, 2000]] = 9.0, -7.0
    gp = GPRegressor(num_basis=30, noise_variance=0.01, optimizer=None).fit(x, y)
    data = read(tmp_path, gp, x, y).content["figure-1"]["data"]
    number = unpacked(data["number"], "<u4")
    assert number.sum() == data["count"] == 50_000
    value = lambda name: data["offset"] + data["scale"] * unpacked(data[name])  # noqa: E731
    assert value("high").max() == pytest.approx(9.0, rel=1e-6)
    assert value("low").min() == pytest.approx(-7.0, rel=1e-6)
    assert number @ value("mean") / 50_000 == pytest.approx(y.mean(), rel=1e-4)


def test_without_data_cells_are_shown(tmp_path):
    gp, x, y = line_model()
    data = read(tmp_path, gp).content["figure-1"]["data"]
    assert data["what"] == "means of cells"
    places = unpacked(data["x"], "<f8")
    first = x <= gp.posterior_.grid.spacing
    assert places[0] == pytest.approx(x[first].mean())
    found = data["offset"] + data["scale"] * unpacked(data["y"])[0]
    assert found == pytest.approx(y[first].mean(), rel=1e-5)


def test_maps_hold_what_the_model_predicts(tmp_path):
    gp, X, y = field_model()
    figure = read(tmp_path, gp, X, y).content["figure-1"]
    (across, up), layers = figure["axes"], figure["layers"]
    assert (across["label"], up["label"]) == ("lon", "lat")
    mean, std, average = layers
    row, column = 3, 5
    lon = across["lower"] + (column + 0.5) / mean["columns"] * (across["upper"] - across["lower"])
    lat = up["lower"] + (row + 0.5) / mean["rows"] * (up["upper"] - up["lower"])
    wanted = gp.predict(pd.DataFrame({"lat": [lat], "lon": [lon]}), return_std=True)
    for layer, value in zip((mean, std), wanted, strict=True):
        steps = unpacked(layer["values"], "<u2").reshape(layer["rows"], layer["columns"])
        found = layer["low"] + steps[row, column] / 65_534 * (layer["high"] - layer["low"])
        step = (layer["high"] - layer["low"]) / 65_534
        assert found == pytest.approx(value[0], abs=0.51 * step)
    assert (average["columns"], average["rows"]) == (8, 8)


def layer_values(layer):
    steps = unpacked(layer["values"], "<u2").reshape(layer["rows"], layer["columns"])
    found = layer["low"] + steps / 65_534 * (layer["high"] - layer["low"])
    return np.where(steps == 65_535, np.nan, found)


def test_averages_of_gridded_data_have_no_holes_between_their_points(tmp_path):
    """Where cells are finer than the data's grid; a gap in the data stays one."""
    lat, lon = np.linspace(50.0, 58.0, 17), np.linspace(-10.0, 2.0, 25)
    lon = np.delete(lon, slice(10, 16))
    values = 800.0 + 10.0 * np.sin(lat)[:, None] + lon
    gp = GPRegressor(
        Matern32(3.0, 100.0, dim="lat") * Matern32(3.0, dim="lon") + Constant(),
        num_basis=(62, 75),
        noise_variance=1.0,
        optimizer=None,
    ).fit({"lat": lat, "lon": lon}, values)
    mean, _, average = read(tmp_path, gp).content["figure-1"]["layers"]
    assert (average["rows"], average["columns"]) == (60, 73)
    found = layer_values(average)
    holes = np.isnan(found)
    assert np.array_equal(holes, np.broadcast_to(holes.all(axis=0), holes.shape))
    (empty,) = np.nonzero(holes.all(axis=0))
    assert np.all(np.diff(empty) == 1)
    assert 10 <= len(empty) <= 22  # of the 21 that the six left out are wide
    # In the units of y, and each where it was seen.
    assert found[0, 0] == pytest.approx(values[0, 0], abs=0.01)
    assert found[-1, -1] == pytest.approx(values[-1, -1], abs=0.01)
    assert found[30, -1] == pytest.approx(values[8, -1], abs=0.01)
    assert layer_values(mean).mean() == pytest.approx(np.nanmean(found), abs=2.0)


def test_components_are_each_shown(tmp_path):
    gp, X, y = mixed_model()
    page = read(tmp_path, gp, X, y)
    assert [figure["kind"] for figure in page.content.values()] == ["map", "curve"]
    assert "slope" in page.text
    gp, X, y = timed_model()
    figures = read(tmp_path, gp, X, y).content.values()
    assert [figure["target"] for figure in figures] == ["CO₂ <ppm>", *["contribution, centred"] * 2]
    assert {figure["link"] for figure in figures} == {"x"}


def test_linear_effects_are_held_at_their_means(tmp_path):
    rng = np.random.default_rng(4)
    x, c = np.linspace(0.0, 10.0, 500), rng.uniform(5.0, 7.0, 500)
    X = np.column_stack([x, c])
    y = np.sin(x) + 3.0 * c + 0.1 * rng.standard_normal(500)
    kernel = Matern32(dim=0) + Linear(1) + Constant()
    gp = GPRegressor(kernel, num_basis=30, noise_variance=0.01, optimizer=None).fit(X, y)
    figure = read(tmp_path, gp).content["figure-1"]
    carried = figure["curve"]
    first = carried["offset"] + carried["scale"] * unpacked(carried["mean"])[0]
    assert first == pytest.approx(gp.predict([[0.0, c.mean()]])[0], rel=1e-6)
    data = figure["data"]
    shown_y = data["offset"] + data["scale"] * unpacked(data["y"])
    places = unpacked(data["x"], "<f8")
    np.testing.assert_allclose(shown_y, np.sin(places) + 3.0 * c.mean(), atol=0.2)


def test_several_outputs_have_a_panel_each(tmp_path):
    x = np.linspace(0.0, 10.0, 200)
    Y = pd.DataFrame({"a": np.sin(x), "b": np.cos(x)})
    gp = GPRegressor(num_basis=30, noise_variance=0.01, optimizer=None).fit(x, Y)
    page = read(tmp_path, gp, x, Y)
    assert [figure["target"] for figure in page.content.values()] == ["a", "b"]
    assert "2 outputs" in page.text


# ------------------------------------------------------------ what the statistics say


def models_with_data():
    rng = np.random.default_rng(4)
    x, c = np.linspace(0.0, 10.0, 500), rng.uniform(5.0, 7.0, 500)
    y = np.sin(x) + 3.0 * c + 0.1 * rng.standard_normal(500)
    kernel = Matern32(dim=0) + Linear(1) + Constant()
    gp = GPRegressor(kernel, num_basis=30, noise_variance=0.01, optimizer=None)
    yield gp.fit(np.column_stack([x, c]), y), np.column_stack([x, c]), y
    yield line_model()
    yield field_model()
    yield mixed_model()
    X = rng.uniform(0.0, 1.0, (300, 5))
    y = X[:, 0] + np.sin(4 * X[:, 1]) + 0.1 * rng.standard_normal(300)
    yield GPRegressor(num_basis=8, noise_variance=0.01, optimizer=None).fit(X, y), X, y


def test_sums_of_squares_are_those_of_the_residuals():
    for gp, X, y in models_with_data():
        residual = np.asarray(y) - gp.predict(X)
        freedom = gp.summary().degrees_of_freedom
        found = remainder(gp.posterior_, freedom)
        noise = gp.noise_variance_ * (len(residual) - freedom)
        assert found.noise_ratio[0] == pytest.approx(residual @ residual / noise, rel=1e-8)
        explained = 1.0 - residual.var() / np.var(y)
        assert found.explained[0] == pytest.approx(explained, abs=1e-3)


def test_cell_means_are_predicted_without_themselves():
    """Of data whose cells hold a mean only, that is the leave-one-out of the splines."""
    rng = np.random.default_rng(0)
    x = np.arange(60) + rng.uniform(0.0, 1.0, 60)
    y = 50.0 + np.sin(x / 6) + 0.1 * rng.standard_normal(60)
    kernel = Matern52(40.0) + Constant()  # so long that the splines miss next to nothing
    gp = GPRegressor(kernel, num_basis=63, domain=(0, 60), noise_variance=0.01, optimizer=None)
    found = cell_means(gp.fit(x, y).posterior_)
    np.testing.assert_allclose(found.x, x)
    np.testing.assert_allclose(found.mean[0], y)
    np.testing.assert_allclose(found.z[0], gp.leave_one_out(x, y).z, rtol=2e-3)


def test_cell_means_of_a_right_model_are_standard_normal():
    rng = np.random.default_rng(1)
    x = np.linspace(0.0, 200.0, 1000)
    f = np.linalg.cholesky(Matern32(5.0)(x) + 1e-9 * np.eye(1000)) @ rng.standard_normal(1000)
    y = f + 0.5 * rng.standard_normal(1000)
    gp = GPRegressor(Matern32(5.0), num_basis=302, noise_variance=0.25, optimizer=None).fit(x, y)
    z = cell_means(gp.posterior_).z[0]
    assert len(z) == 300
    assert abs(z.var() - 1.0) < 4.0 * (2.0 / 300) ** 0.5
    gp = GPRegressor(Matern32(5.0), num_basis=302, noise_variance=0.1, optimizer=None).fit(x, y)
    assert cell_means(gp.posterior_).z[0].var() > 2.0


@pytest.mark.parametrize("rows", [600, 50_000])
def test_observations_of_sources_are_shown_as_those_of_arrays(rows, tmp_path):
    rng = np.random.default_rng(1)
    x = rng.uniform(0.0, 10.0, rows)
    frame = pd.DataFrame({"x": x, "y": np.sin(x) + 0.1 * rng.standard_normal(rows)})
    gp = GPRegressor(num_basis=30, noise_variance=0.01, optimizer=None).fit(frame, "y")
    frame.to_parquet(tmp_path / "rows.parquet")
    pages = [
        read(tmp_path, gp, *data)
        for data in ((frame[["x"]], frame["y"]), (scan(tmp_path / "rows.parquet", "y"),))
    ]
    data = pages[1].content["figure-1"]["data"]
    assert data == pages[0].content["figure-1"]["data"]
    assert (data["what"], data["count"]) == ("observations", rows)
    assert ("low" in data) == (rows > 20_000)  # ranges
    assert pages[0].text == pages[1].text


# ------------------------------------------------------------ using it, and failing


@pytest.mark.parametrize("kind", MODELS)
def test_code_of_the_page_runs(kind, tmp_path, monkeypatch):
    gp, *_ = MODELS[kind]()
    gp.save(tmp_path / "model.asvgp")
    monkeypatch.chdir(tmp_path)
    code = python(View(gp))
    page = read(tmp_path, gp)
    assert code in page.text
    assert "asvgp predict model.asvgp new.csv -o out.parquet" in page.text
    namespace: dict = {}
    exec(code, namespace)
    assert len(namespace["mean"]) == len(namespace["std"]) == 2


def test_code_of_the_page_runs_for_models_of_sources(tmp_path, monkeypatch):
    import pandas as pd

    _, x, y = line_model()
    frame = pd.DataFrame({"place": np.asarray(x, dtype=float).ravel(), "level": y})
    gp = GPRegressor(num_basis=20).fit(frame, "level")
    gp.save(tmp_path / "model.asvgp")
    monkeypatch.chdir(tmp_path)
    namespace: dict = {}
    exec(python(View(gp)), namespace)
    expected = gp.predict(namespace["X"])["mean"]
    assert np.array_equal(namespace["mean"], expected)
    assert np.all(namespace["std"] > 0.0)


def test_failures_leave_what_was_there(tmp_path, monkeypatch):
    gp, _, y = line_model()
    path = tmp_path / "report.html"
    path.write_text("before")
    with pytest.raises(ValueError, match="y is given without X"):
        write_report(gp, path, y=y)
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_report(gp, path)
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text() == "before"
    monkeypatch.undo()
    with pytest.raises(IsADirectoryError, match="not a folder"):
        write_report(gp, tmp_path)
    with pytest.raises(TypeError, match="fitted GPRegressor"):
        write_report("model", path)


def test_numbers_as_text():
    assert [shown(v, 4) for v in (12345678.0, 0.5, -3.14159, 12345.6)] == [
        "12,350,000", "0.5", "−3.142", "12,350",
    ]  # fmt: skip
    assert (fixed(-0.001), fixed(1.005, 1)) == ("0.00", "1.0")
    assert (shown(float("nan")), shown(float("inf"))) == ("not known", "∞")
    gp, _, _ = timed_model()
    assert at(View(gp).line, 3600.0) == "2023-12-28 01:00 GMT"


def test_pages_need_no_matplotlib(tmp_path, monkeypatch):
    gp, X, y = line_model()
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert write_report(gp, tmp_path / "page.html", X, y).stat().st_size > 10_000


@pytest.mark.parametrize(
    "counts",
    [[324, 4356, 7744], [100, 102, 104, 110, 200], [2**i + 1 for i in range(8, 20)], [7, 9]],
)
def test_labels_of_resolutions_do_not_meet(counts):
    bounds = np.linspace(-1.0, 0.0, len(counts))
    page = charts.resolution(counts, bounds, 0.1)
    found = re.findall(r'<text x="([\d.]+)" y="194.0" text-anchor="middle">([\d,]+)<', page)
    assert f"{counts[-1]:,}" in [text for _, text in found]
    ends = sorted((float(x) - 3.2 * len(text), float(x) + 3.2 * len(text)) for x, text in found)
    assert all(one[1] < other[0] for one, other in pairwise(ends))
    assert ends[-1][1] <= 320.0
    assert page.count("<circle") == len(counts)  # every one has its dot


@pytest.mark.parametrize(
    "counts, upper",
    [([90, 178, 150, 338, 300], 0.5), ([50, 50], 9.0), ([90, 300, 40], -0.5), ([10, 20, 40], -9)],
)
def test_lines_of_resolutions_stay_in_their_panel(counts, upper):
    """Whatever the steps: of several inputs, one may give functions to another."""
    bounds = np.linspace(-1.0, 0.0, len(counts))
    page = charts.resolution(counts, bounds, upper)
    line = re.findall(r'<polyline class="model" points="([^"]*)"', page)[-1]
    points = np.array([pair.split(",") for pair in line.split()], dtype=float)
    assert np.all(np.diff(points[:, 0]) > 0.0)
    assert np.all((points >= (66.0, 10.0)) & (points <= (308.0, 180.0)))
    assert len(np.unique(points[:, 1])) == len(counts)  # nothing is cut off
    for side, place in (("middle", r'x="[\d.]+" y="194.0"'), ("end", r'x="61.0" y="[\d.]+"')):
        assert len(re.findall(rf'<text {place} text-anchor="{side}">', page)) >= 2
    rising = counts == sorted(set(counts))
    assert (">basis functions<" in page) == rising
    assert rising or f"From {counts[0]:,} to {counts[-1]:,} basis functions" in page


@pytest.mark.parametrize("theme", [":root {", ':root[data-theme="dark"] {'])
def test_observations_stand_out_from_the_ground(theme):
    css = (files("asvgp.report") / "assets" / "report.css").read_text()
    block = css[css.index(theme) :]

    def light(name: str) -> float:
        value = re.search(rf"--{name}: #([0-9a-f]{{6}});", block)
        assert value
        parts = np.array([int(value[1][i : i + 2], 16) for i in (0, 2, 4)]) / 255.0
        parts = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(parts @ [0.2126, 0.7152, 0.0722])

    def contrast(name: str) -> float:
        low, high = sorted([light(name), light("sheet")])
        return (high + 0.05) / (low + 0.05)

    assert contrast("dots") > 5.0
    assert contrast("range") > 1.8
