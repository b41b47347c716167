"""The report: a page that stands alone, says what the model says, and can be explored."""

import base64
import json
import re
import sys
from functools import cache
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest

from asvgp import SHO, Constant, GPRegressor, Linear, Matern32, Matern52, scan
from asvgp.plot.view import view_of
from asvgp.report import write_report
from asvgp.report.chart import _COLUMNS
from asvgp.report.sums import cell_means, remainder
from asvgp.report.text import at, fixed, shown
from asvgp.report.usage import python
from tests.plot.pictures import field_model, line_model, mixed_model

VOID = {"meta", "input"}
NASTY = '</script><script>alert("x")</script>&<b>\'"'


class Page(HTMLParser):
    """Elements, text by element, and whether tags are balanced."""

    def __init__(self, text):
        super().__init__()
        self.stack, self.elements, self.texts, self.content = [], [], [], []
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
            self.content.append(json.loads(data))

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


def doubles(text):
    return np.frombuffer(base64.b64decode(text), "<f8")


def singles(packed):
    return packed["offset"] + np.frombuffer(base64.b64decode(packed["base64"]), "<f4")


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
        for name in ("src", "href", "xlink:href", "srcset", "data", "action"):
            own = attrs.get(name, "#")
            assert own.startswith(("#", "data:image/png;")), f"<{tag} {name}> leads elsewhere"
        assert tag not in ("link", "img", "iframe", "object", "embed", "base")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    vendored = (files("asvgp.report") / "assets" / "uplot.min.js").read_text()
    assert vendored in text
    assert "Leon Sorokin" in text  # the licence asks for its notice
    own = text.replace(vendored, "")
    assert not re.search(r"https?:|//[a-z0-9-]+\.[a-z]|@import|url\((?!#)", own)
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    anchors = [attrs["href"][1:] for attrs in page.named("a")]
    assert anchors == ["good", "explore", "fitted", "components", "use"]
    assert set(anchors) <= set(ids)
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
    (chart,) = page.content
    assert chart["label"] == "when (Europe/London)"
    assert chart["zone"] == "Europe/London"
    assert doubles(chart["x"])[[0, -1]].tolist() == [t.timestamp() for t in X.when.iloc[[0, -1]]]


def test_what_users_named_is_text(tmp_path):
    X = pd.DataFrame({NASTY: np.linspace(0.0, 1.0, 50)})
    y = pd.Series(np.sin(9 * X[NASTY]), name=NASTY)
    gp = GPRegressor(Matern32(dim=NASTY), num_basis=20, noise_variance=0.1, optimizer=None)
    page = read(tmp_path, gp.fit(X, y), X, y, title=f"T {NASTY}")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "alert" not in [tag for tag, _ in page.elements]
    assert len(page.named("script")) == 2 + len(page.content)
    assert "<script>alert" not in text
    assert NASTY in page.text
    assert page.content[0]["label"] == page.content[0]["target"] == NASTY


# ------------------------------------------------------------ what the page carries


def test_chart_holds_the_posterior(tmp_path):
    gp, X, y = line_model()
    (chart,) = read(tmp_path, gp, X, y).content
    x = doubles(chart["x"])
    mean, std = gp.predict(x, return_std=True)
    reach = 1e-6 * np.ptp(mean)
    assert np.diff(x).max() < 0.15 * gp.posterior_.grid.spacing  # smooth at any useful zoom
    np.testing.assert_allclose(singles(chart["mean"]), mean, rtol=0, atol=reach)
    np.testing.assert_allclose(singles(chart["low"]), mean - 1.959964 * std, atol=reach)
    np.testing.assert_allclose(singles(chart["high"]), mean + 1.959964 * std, atol=reach)
    np.testing.assert_allclose(singles(chart["seen"]["y"][0]), y, atol=reach)
    assert chart["noise"] == gp.noise_variance_


def test_chart_of_a_large_model_is_limited_and_keeps_extremes(tmp_path, monkeypatch):
    gp, _, _ = line_model()
    monkeypatch.setattr("asvgp.report.chart._COLUMNS", 8)
    (chart,) = read(tmp_path, gp).content
    x, mean, low, high = doubles(chart["x"]), *(singles(chart[k]) for k in ("mean", "low", "high"))
    assert len(x) <= 18
    fine = np.linspace(x[0], x[-1], 2001)
    wanted, std = gp.predict(fine, return_std=True)
    assert mean.max() == pytest.approx(wanted.max(), abs=0.01)
    assert mean.min() == pytest.approx(wanted.min(), abs=0.01)
    own = np.minimum((8 * fine / 20.0).astype(int), 7)
    points = np.minimum((8 * x / 20.0).astype(int), 7)
    for column in range(8):
        band = (
            (wanted - 1.96 * std)[own == column].min(),
            (wanted + 1.96 * std)[own == column].max(),
        )
        assert low[points == column].max() == pytest.approx(band[0], abs=0.1)
        assert high[points == column].min() == pytest.approx(band[1], abs=0.1)


def test_observations_keep_their_extremes(tmp_path):
    rng = np.random.default_rng(1)
    x = rng.uniform(0.0, 10.0, 50_000)
    y = np.sin(x) + 0.1 * rng.standard_normal(50_000)
    y[[100, 2000]] = 9.0, -7.0
    gp = GPRegressor(Matern32(), num_basis=30, noise_variance=0.01, optimizer=None).fit(x, y)
    page = read(tmp_path, gp, x, y)
    low, high = (singles(part) for part in page.content[0]["seen"]["y"])
    assert len(low) == _COLUMNS + 1
    assert np.nanmax(high) == pytest.approx(9.0, rel=1e-6)
    assert np.nanmin(low) == pytest.approx(-7.0, rel=1e-6)
    assert "the range of 50,000 observations" in page.text


def test_without_data_cells_are_shown(tmp_path):
    gp, x, y = line_model()
    page = read(tmp_path, gp)
    seen = page.content[0]["seen"]
    assert "cell means" in page.text
    first = x <= gp.posterior_.grid.spacing
    assert doubles(seen["x"])[0] == pytest.approx(x[first].mean())
    assert singles(seen["y"][0])[0] == pytest.approx(y[first].mean(), rel=1e-5)


def drawings(page):
    return [attrs["aria-label"] for attrs in page.named("svg")]


def test_pictures_of_the_page(tmp_path):
    checks = ["coverage", "quantiles", "correlation of residuals"]
    gp, X, y = field_model()
    page = read(tmp_path, gp, X, y)
    maps = ["observations", "posterior mean", "standard deviation"]
    assert drawings(page) == [*checks, *maps]
    assert "rain (mm)" in page.text
    assert drawings(read(tmp_path, gp)) == maps[1:]
    gp, X, y = mixed_model()
    terms = ["Matern32(lon) × Matern32(lat)", "Matern52, lengthscale 0.5", "slope of slope"]
    assert drawings(read(tmp_path, gp, X, y)) == [*checks, *terms]
    assert drawings(read(tmp_path, gp)) == terms[:2]  # the range of slope is not known
    gp, X, y = timed_model()
    terms = ["Matern32, lengthscale 2 days", "SHO, period 1 day"]
    assert drawings(read(tmp_path, gp, X, y)) == [*checks, *terms]


def test_pictures_take_the_colours_of_the_page(tmp_path):
    import matplotlib as mpl

    gp, X, y = timed_model()
    plain = write_report(gp, tmp_path / "a.html", X, y).read_text(encoding="utf-8")
    with mpl.rc_context({"axes.facecolor": "black", "font.size": 30.0, "text.usetex": False}):
        assert write_report(gp, tmp_path / "b.html", X, y).read_text(encoding="utf-8") == plain
    used = set(re.findall(r"var\(--([a-z]+)\)", "".join(re.findall(r"<svg.*?</svg>", plain, re.S))))
    css = (files("asvgp.report") / "assets" / "report.css").read_text()
    assert {"sheet", "ink", "model", "expected"} <= used
    assert all(css.count(f"--{name}:") == 2 for name in used)  # in light and in dark


def test_linear_effects_are_held_at_their_means(tmp_path):
    rng = np.random.default_rng(4)
    x, c = np.linspace(0.0, 10.0, 500), rng.uniform(5.0, 7.0, 500)
    X = np.column_stack([x, c])
    y = np.sin(x) + 3.0 * c + 0.1 * rng.standard_normal(500)
    kernel = Matern32(dim=0) + Linear(1) + Constant()
    gp = GPRegressor(kernel, num_basis=30, noise_variance=0.01, optimizer=None).fit(X, y)
    (chart,) = read(tmp_path, gp).content
    assert singles(chart["mean"])[0] == pytest.approx(gp.predict([[0.0, c.mean()]])[0], rel=1e-6)
    places, seen = doubles(chart["seen"]["x"]), singles(chart["seen"]["y"][0])
    np.testing.assert_allclose(seen, np.sin(places) + 3.0 * c.mean(), atol=0.2)


def test_several_outputs_have_a_panel_each(tmp_path):
    x = np.linspace(0.0, 10.0, 200)
    Y = pd.DataFrame({"a": np.sin(x), "b": np.cos(x)})
    gp = GPRegressor(Matern32(), num_basis=30, noise_variance=0.01, optimizer=None).fit(x, Y)
    page = read(tmp_path, gp, x, Y)
    assert [chart["target"] for chart in page.content] == ["a", "b"]
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
    yield GPRegressor(Matern32(), num_basis=8, noise_variance=0.01, optimizer=None).fit(X, y), X, y


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
    gp = GPRegressor(kernel, num_basis=64, domain=(0, 60), noise_variance=0.01, optimizer=None)
    found = cell_means(gp.fit(x, y).posterior_)
    np.testing.assert_allclose(found.x, x)
    np.testing.assert_allclose(found.mean[0], y)
    np.testing.assert_allclose(found.z[0], gp.leave_one_out(x, y).z, rtol=2e-3)


def test_cell_means_of_a_right_model_are_standard_normal():
    rng = np.random.default_rng(1)
    x = np.linspace(0.0, 200.0, 1000)
    f = np.linalg.cholesky(Matern32(5.0)(x) + 1e-9 * np.eye(1000)) @ rng.standard_normal(1000)
    y = f + 0.5 * rng.standard_normal(1000)
    gp = GPRegressor(Matern32(5.0), num_basis=303, noise_variance=0.25, optimizer=None).fit(x, y)
    z = cell_means(gp.posterior_).z[0]
    assert len(z) == 300
    assert abs(z.var() - 1.0) < 4.0 * (2.0 / 300) ** 0.5
    gp = GPRegressor(Matern32(5.0), num_basis=303, noise_variance=0.1, optimizer=None).fit(x, y)
    assert cell_means(gp.posterior_).z[0].var() > 2.0


@pytest.mark.parametrize("rows", [600, 50_000])
def test_observations_of_sources_are_shown_as_those_of_arrays(rows, tmp_path):
    rng = np.random.default_rng(1)
    x = rng.uniform(0.0, 10.0, rows)
    frame = pd.DataFrame({"x": x, "y": np.sin(x) + 0.1 * rng.standard_normal(rows)})
    gp = GPRegressor(Matern32(), num_basis=30, noise_variance=0.01, optimizer=None).fit(frame, "y")
    frame.to_parquet(tmp_path / "rows.parquet")
    pages = [
        read(tmp_path, gp, *data)
        for data in ((frame[["x"]], frame["y"]), (scan(tmp_path / "rows.parquet", "y"),))
    ]
    assert pages[0].content == pages[1].content
    assert len(pages[0].content[0]["seen"]["y"]) == (2 if rows > 20_000 else 1)  # ranges or dots
    assert f"{rows:,} observations" in pages[0].text
    assert pages[0].text == pages[1].text


# ------------------------------------------------------------ using it, and failing


@pytest.mark.parametrize("kind", MODELS)
def test_code_of_the_page_runs(kind, tmp_path, monkeypatch):
    gp, *_ = MODELS[kind]()
    gp.save(tmp_path / "model.asvgp")
    monkeypatch.chdir(tmp_path)
    code = python(view_of(gp))
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
    gp = GPRegressor(Matern32(), num_basis=20).fit(frame, "level")
    gp.save(tmp_path / "model.asvgp")
    monkeypatch.chdir(tmp_path)
    namespace: dict = {}
    exec(python(view_of(gp)), namespace)
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
    assert at(view_of(gp).line, 3600.0) == "2023-12-28 01:00 GMT"


def test_without_matplotlib_pictures_are_left_out(tmp_path, monkeypatch):
    gp, X, y = line_model()
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = read(tmp_path, gp, X, y)
    assert len(page.content) == 1
    assert drawings(page) == []
    assert "pip install 'asvgp[plot]'" in page.text


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
