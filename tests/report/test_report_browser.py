"""The report in a browser: it draws without complaint, and zooming shows more."""

import json
import shutil
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest

from asvgp.report import write_report
from tests.plot.pictures import field_model
from tests.report.test_report import timed_model

CHROMIUM = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (found := shutil.which(name))
    ),
    None,
)
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to open pages with")


@pytest.fixture(scope="module")
def browser():
    flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    with playwright.sync_playwright() as tool:
        opened = tool.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    line, field = timed_model(), field_model()
    return {
        "line": write_report(line[0], folder / "line.html", line[1], line[2]),
        "field": write_report(field[0], folder / "field.html", field[1], field[2]),
    }


@pytest.fixture
def visit(browser, pages):
    """Open a page; what the browser complains of fails the test."""
    complaints, contexts = [], []

    def opened(name, **options):
        context = browser.new_context(viewport={"width": 1000, "height": 800}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: complaints.append(said.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda asked: complaints.append(asked.url) if "file:" not in asked.url else None,
        )
        page.goto(pages[name].as_uri())
        page.wait_for_function("document.querySelector('canvas').dataset.from !== undefined")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def state(page, number=0):
    """What the canvas says of itself, after it has been drawn."""
    page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )
    return page.evaluate(f"() => ({{...document.querySelectorAll('canvas')[{number}].dataset}})")


def drawn(page, number=0):
    """Share of pixels that are not the ground, and a sum that any change shows."""
    return page.evaluate(
        """(number) => {
          const canvas = document.querySelectorAll('canvas')[number];
          const copy = new OffscreenCanvas(canvas.width, canvas.height);
          const pen = copy.getContext('2d', {willReadFrequently: true});
          pen.drawImage(canvas, 0, 0);
          const data = pen.getImageData(0, 0, canvas.width, canvas.height).data;
          let ink = 0, sum = 0;
          for (let i = 0; i < data.length; i += 4) {
            if (data[i + 3]) ink += 1;
            sum = (sum * 31 + data[i] + 7 * data[i + 1] + 13 * data[i + 2] + data[i + 3]) % 1000003;
          }
          return [ink / (data.length / 4), sum];
        }""",
        number,
    )


def over(page, share=0.5, number=0):
    """Move the pointer to a share of a plot's width."""
    canvas = page.locator("canvas").nth(number)
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 62 + share * (box["width"] - 76), box["y"] + box["height"] / 2)


def test_wheel_zooms_and_shows_more(visit):
    gp, X, _ = timed_model()
    page = visit("line")
    before, picture = state(page), drawn(page)
    assert picture[0] > 0.05
    assert (before["detail"], before["shown"]) == ("columns", "ranges")
    over(page, 0.3)
    for _ in range(25):
        page.mouse.wheel(0, -120)
    after = state(page)
    start, stop = float(after["from"]), float(after["to"])
    assert stop - start < 0.02 * (float(before["to"]) - float(before["from"]))
    # The curve itself, and each observation, in place of ranges.
    assert (after["detail"], after["shown"]) == ("curve", "dots")
    assert drawn(page)[1] != picture[1]
    # What is under the pointer stays there, and is what the model says.
    x = float(after["x"])
    assert x == pytest.approx(0.3 * 3999 * 600, rel=0.01)
    place = pd.DataFrame({"when": X.when[0] + pd.to_timedelta([x], unit="s")})
    mean, std = gp.predict(place, return_std=True)
    assert float(after["mean"]) == pytest.approx(mean[0], abs=1e-5)
    assert float(after["std"]) == pytest.approx(std[0], rel=1e-4)
    told = page.locator("output").first.inner_text()
    assert told.startswith(place.when[0].strftime("%Y-%m-%d %H:"))
    numbers = told.split(": ")[1].split(" ± ")
    assert float(numbers[0]) == pytest.approx(mean[0], abs=0.01)
    assert float(numbers[1]) == pytest.approx(1.96 * std[0], rel=0.05)


def test_panels_over_one_input_move_together(visit):
    page = visit("line")
    over(page)
    page.mouse.wheel(0, -500)
    ends = [(state(page, i)["from"], state(page, i)["to"]) for i in range(3)]
    assert ends[0] == ends[1] == ends[2]


def test_drag_keys_buttons_and_double_click(visit):
    page = visit("line")
    whole = state(page)
    page.get_by_label("Zoom in").first.click()
    half = state(page)
    span = float(half["to"]) - float(half["from"])
    assert span == pytest.approx(0.5 * (float(whole["to"]) - float(whole["from"])))
    over(page, 0.5)
    page.mouse.down()
    over(page, 0.6)
    page.mouse.up()
    dragged = state(page)
    assert float(dragged["from"]) == pytest.approx(float(half["from"]) - 0.1 * span, rel=0.02)
    page.locator("canvas").first.focus()
    page.keyboard.press("ArrowRight")
    moved = state(page)
    assert float(moved["from"]) == pytest.approx(float(dragged["from"]) + 0.1 * span, rel=0.02)
    page.keyboard.press("+")
    assert float(state(page)["to"]) - float(state(page)["from"]) == pytest.approx(0.7 * span)
    page.keyboard.press("0")
    assert (state(page)["from"], state(page)["to"]) == (whole["from"], whole["to"])
    page.get_by_label("Zoom in").first.click()
    over(page)
    page.mouse.dblclick(*[page.locator("canvas").first.bounding_box()[k] + 200 for k in ("x", "y")])
    assert (state(page)["from"], state(page)["to"]) == (whole["from"], whole["to"])


def test_pinching_zooms(visit):
    page = visit("line", has_touch=True)
    before = state(page)
    page.evaluate(
        """() => {
          const canvas = document.querySelector('canvas');
          canvas.setPointerCapture = () => {};
          const box = canvas.getBoundingClientRect();
          const touch = (type, id, x) => canvas.dispatchEvent(new PointerEvent(type, {
            pointerId: id, pointerType: 'touch', clientX: box.left + x, clientY: box.top + 50 }));
          touch('pointerdown', 1, 400);
          touch('pointerdown', 2, 500);
          for (let x = 500; x <= 800; x += 50) touch('pointermove', 2, x);
          touch('pointerup', 1, 400);
          touch('pointerup', 2, 800);
        }"""
    )
    after = state(page)
    shrunk = (float(after["to"]) - float(after["from"])) / (
        float(before["to"]) - float(before["from"])
    )
    assert shrunk == pytest.approx(0.25, rel=0.05)


def test_band_of_new_observations_is_wider(visit):
    page = visit("line")
    before = page.locator("output").first.inner_text()
    page.get_by_label("band of new observations").check()
    state(page)
    after = page.locator("output").first.inner_text()
    width = [float(text.split(" ± ")[1]) for text in (before, after)]
    assert width[1] == pytest.approx(np.hypot(width[0], 1.96 * 0.1), rel=0.1)


def ground(page):
    return page.evaluate("() => getComputedStyle(document.body).backgroundColor")


def test_dark_where_asked_and_by_the_button(visit):
    light, dark = visit("line", color_scheme="light"), visit("line", color_scheme="dark")
    assert ground(light) == "rgb(255, 255, 255)"
    assert ground(dark) == "rgb(20, 24, 31)"
    assert drawn(light)[1] != drawn(dark)[1]
    before = drawn(light)[1]
    light.get_by_role("button", name="Dark").click()
    assert ground(light) == "rgb(20, 24, 31)"
    assert drawn(light)[1] != before
    light.get_by_role("button", name="Light").click()
    assert drawn(light)[1] == before


def test_paper_is_white(visit):
    page = visit("line", color_scheme="dark")
    page.emulate_media(media="print")
    assert ground(page) == "rgb(255, 255, 255)"


@pytest.mark.parametrize("name", ["line", "field"])
def test_nothing_is_wider_than_a_phone(visit, name):
    page = visit(name)
    page.set_viewport_size({"width": 360, "height": 740})
    state(page)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 360
    assert drawn(page)[0] > 0.05


def test_maps_tell_what_is_under_the_pointer(visit):
    gp, _, _ = field_model()
    page = visit("field")
    picture = drawn(page)
    canvas = page.locator("canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 0.4 * box["height"])
    state(page)
    told = page.locator("figure[data-place]").first
    lon, lat = json.loads(told.get_attribute("data-place"))
    mean, std, _ = json.loads(told.get_attribute("data-values"))
    wanted = gp.predict(pd.DataFrame({"lat": [lat], "lon": [lon]}), return_std=True)
    assert mean == pytest.approx(wanted[0][0], abs=0.1)
    assert std == pytest.approx(wanted[1][0], rel=0.3)
    for _ in range(5):
        page.mouse.wheel(0, -120)
    after = state(page)
    assert float(after["to"]) - float(after["from"]) < 0.5
    assert drawn(page)[1] != picture[1]


@pytest.mark.parametrize("count", [0.5, 1.0, 2.5, 6.0])
def test_an_axis_has_two_ticks_at_least(visit, count):
    source = (files("asvgp.report") / "assets" / "axes.js").read_text()
    spans = [[50.0, 58.0], [-10.3, 2.9], [0.61, 1.19], [4.9, 11.2], [0.0, 1.0], [1234.0, 1234.5]]
    spans += [[0.0, days * 86400.0] for days in (0.01, 0.3, 2.0, 17.0, 45.0, 500.0, 4000.0)]
    found = visit("line").evaluate(
        f"""([count, spans]) => {{
          {source}
          const time = {{ origin: Date.UTC(2024, 1, 3, 7, 41), zone: "Europe/London" }};
          return spans.map(([low, high], i) => {{
            const scale = new Scale({{ label: "x", time: i < 6 ? null : time }});
            const ticks = scale.ticks(low, high, count);
            return ticks.filter(({{ at }}) => at >= low && at <= high).length;
          }});
        }}""",
        [count, spans],
    )
    assert min(found) >= 2
    assert max(found) <= 14


def test_maps_are_large(visit):
    page = visit("field")
    page.set_viewport_size({"width": 1200, "height": 900})
    boxes = [page.locator("canvas").nth(i).bounding_box() for i in range(3)]
    assert min(box["width"] for box in boxes) > 440


def test_code_can_be_copied(visit):
    page = visit("line")
    button = page.locator("div.code button").first
    button.click()
    assert button.inner_text() in ("Copied", "Selected")
