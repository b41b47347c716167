"""The report in a browser: it draws without complaint, and zooming shows more."""

import base64
import shutil

import numpy as np
import pandas as pd
import pytest

from asvgp import Constant, GPRegressor, Matern32
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


def crowded_model():
    """Two outputs with a gap, of more observations than a page holds one by one."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 10.0, 30_000)
    x = x[(x < 4.0) | (x > 6.0)]
    y = np.column_stack([np.sin(x), np.cos(x)]) + 0.1 * rng.standard_normal((len(x), 2))
    return (
        GPRegressor(Matern32(), num_basis=40, noise_variance=0.01, optimizer=None).fit(x, y),
        x,
        y,
    )


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    models = {"times": timed_model(), "field": field_model(), "crowded": crowded_model()}
    return {
        name: write_report(gp, folder / f"{name}.html", X, y) for name, (gp, X, y) in models.items()
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
            lambda asked: (
                complaints.append(asked.url)
                if not asked.url.startswith(("file:", "data:"))
                else None
            ),
        )
        page.goto(pages[name].as_uri())
        settle(page)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def settle(page):
    page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )


# As base64: a list of numbers of this length takes both sides half a minute to write and read.
PIXELS = """async (number) => {
  const canvas = document.querySelectorAll('canvas')[number];
  const copy = new OffscreenCanvas(canvas.width, canvas.height);
  const pen = copy.getContext('2d', {willReadFrequently: true});
  pen.drawImage(canvas, 0, 0);
  const data = pen.getImageData(0, 0, canvas.width, canvas.height).data;
  const reader = new FileReader();
  await new Promise((done) => { reader.onload = done; reader.readAsDataURL(new Blob([data])); });
  return [canvas.height, canvas.width, reader.result.split(',')[1]];
}"""


def drawn(page, number=0):
    """Pixels of a chart, (rows, columns, red green blue alpha)."""
    settle(page)
    height, width, encoded = page.evaluate(PIXELS, number)
    return np.frombuffer(base64.b64decode(encoded), dtype=np.uint8).reshape(height, width, 4)


def inked(pixels):
    """Share of the pixels that are not the ground."""
    return np.mean(pixels[..., 3] > 0)


def over(page, share=0.5, number=0):
    """Move the pointer to a share of a chart's width."""
    plot = page.locator(".u-over").nth(number)
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)


def told(page, share=0.5, number=0):
    """What is written beneath a chart with the pointer at a share of its width: x, mean, band."""
    over(page, share - 0.001, number)
    over(page, share, number)
    place, rest = page.locator("output").nth(number).inner_text().split(": mean ")
    mean, band = rest.split(", 95 % band ")
    return place, float(mean), *(float(end) for end in band.split(" to "))


def visible(page, number=0):
    """Both ends of what a chart of numbers shows."""
    return tuple(float(told(page, share, number)[0]) for share in (0.0, 1.0))


def test_wheel_zooms_and_tells_what_the_model_says(visit):
    gp, X, _ = timed_model()
    page = visit("times")
    before = drawn(page)
    assert inked(before) > 0.05
    over(page, 0.3)
    for _ in range(15):
        page.mouse.wheel(0, -120)
    after = drawn(page)
    assert inked(after) > 0.05
    assert not np.array_equal(after, before)
    # What is under the pointer stays there, and is what the model says, in the zone of the data.
    place, mean, low, high = told(page, 0.3)
    time = pd.Timestamp(place, tz="Europe/London")
    start, stop = X.when.iloc[0], X.when.iloc[-1]
    assert abs(time - (start + 0.3 * (stop - start))) < pd.Timedelta("1h")
    wanted, std = gp.predict(pd.DataFrame({"when": [time]}), return_std=True)
    assert mean == pytest.approx(wanted[0], abs=0.002)
    assert (high - low) / 2 == pytest.approx(1.96 * std[0], rel=0.02)
    ends = [pd.Timestamp(told(page, share)[0], tz="Europe/London") for share in (0.0, 1.0)]
    assert ends[1] - ends[0] < 0.05 * (stop - start)


def test_charts_of_several_outputs_move_together(visit):
    page = visit("crowded")
    over(page)
    page.mouse.wheel(0, -500)
    settle(page)
    first, second = visible(page, 0), visible(page, 1)
    assert first == pytest.approx(second)
    assert first[1] - first[0] < 5.0


def test_drag_keys_buttons_and_double_click(visit):
    page = visit("crowded")
    lower, upper = visible(page)
    page.get_by_label("Zoom in").first.click()
    start, stop = visible(page)
    assert stop - start == pytest.approx(0.7 * (upper - lower), rel=0.01)
    over(page, 0.5)
    page.mouse.down()
    over(page, 0.6)
    page.mouse.up()
    dragged = visible(page)
    assert dragged[0] == pytest.approx(start - 0.1 * (stop - start), abs=0.02)
    page.locator(".plot").first.focus()
    page.keyboard.press("ArrowRight")
    assert visible(page) == pytest.approx((start, stop), abs=0.02)
    page.keyboard.press("0")
    assert visible(page) == pytest.approx((lower, upper), abs=0.02)
    page.keyboard.press("+")
    over(page)
    page.mouse.dblclick(
        *[page.locator(".u-over").first.bounding_box()[k] + 100 for k in ("x", "y")]
    )
    assert visible(page) == pytest.approx((lower, upper), abs=0.02)


def test_pinching_zooms(visit):
    page = visit("crowded", has_touch=True)
    lower, upper = visible(page)
    page.evaluate(
        """async () => {
          const over = document.querySelector('.u-over');
          over.setPointerCapture = () => {};
          const box = over.getBoundingClientRect();
          const touch = async (type, id, x) => {
            over.dispatchEvent(new PointerEvent(type, {
              pointerId: id, pointerType: 'touch', clientX: box.left + x, clientY: box.top + 50 }));
            await new Promise(requestAnimationFrame);
          };
          await touch('pointerdown', 1, 400);
          await touch('pointerdown', 2, 500);
          for (let x = 500; x <= 800; x += 50) await touch('pointermove', 2, x);
          await touch('pointerup', 1, 400);
          await touch('pointerup', 2, 800);
        }"""
    )
    settle(page)
    start, stop = visible(page)
    assert (stop - start) / (upper - lower) == pytest.approx(0.25, rel=0.1)


def test_band_of_new_observations_is_wider(visit):
    page = visit("times")
    _, _, low, high = told(page)
    page.get_by_label("band of new observations").check()
    _, _, wider_low, wider_high = told(page)
    expected = np.hypot((high - low) / 2, 1.96 * 0.1)
    assert (wider_high - wider_low) / 2 == pytest.approx(expected, rel=0.01)


def test_many_observations_are_ranges_and_leave_gaps_open(visit):
    page = visit("crowded", color_scheme="light")
    pixels = drawn(page).astype(int)
    grey = np.all(np.abs(pixels[..., :3] - (155, 161, 170)) < 25, axis=2) & (pixels[..., 3] > 100)
    rows = grey.sum(axis=0)  # of every column of pixels
    width = len(rows)
    assert rows[int(0.45 * width) : int(0.6 * width)].max() == 0  # from 4 to 6 there are no data
    assert np.median(rows[int(0.15 * width) : int(0.4 * width)]) > 5


def ground(page):
    return page.evaluate("() => getComputedStyle(document.body).backgroundColor")


def test_dark_by_the_system_and_by_the_button(visit):
    light, dark = visit("times", color_scheme="light"), visit("times", color_scheme="dark")
    assert ground(light) == "rgb(255, 255, 255)"
    assert ground(dark) == "rgb(20, 24, 31)"
    before = drawn(light)
    assert not np.array_equal(drawn(dark), before)
    fill = "() => getComputedStyle(document.querySelector('svg path')).fill"
    assert light.evaluate(fill) == "rgb(246, 247, 249)"
    assert dark.evaluate(fill) == "rgb(28, 34, 43)"
    light.get_by_role("button", name="Dark").click()
    assert ground(light) == "rgb(20, 24, 31)"
    assert not np.array_equal(drawn(light), before)
    light.get_by_role("button", name="Light").click()
    assert np.array_equal(drawn(light), before)


def test_paper_is_white(visit):
    page = visit("times", color_scheme="dark")
    page.emulate_media(media="print")
    assert ground(page) == "rgb(255, 255, 255)"


@pytest.mark.parametrize("name", ["times", "field", "crowded"])
def test_nothing_is_wider_than_a_phone(visit, name):
    page = visit(name)
    page.set_viewport_size({"width": 360, "height": 740})
    settle(page)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 360
    for width in page.evaluate(
        "() => [...document.querySelectorAll('canvas, svg')].map((e) => e.clientWidth)"
    ):
        assert 280 < width <= 360


def test_code_can_be_copied(visit):
    page = visit("times")
    button = page.locator("div.code button").first
    button.click()
    assert button.inner_text() in ("Copied", "Selected")


# ---------------------------------------------------------------- names that would be scripts

EVIL = {
    "script": "</script><script>window.struck = 1</script>",
    "image": "<img src=x onerror='window.struck = 1'>",
    "quote": '" onmouseover="window.struck = 1" x=\'',
    "svg": "]]></text><svg onload='window.struck = 1'>",
    "comment": "<!--<script>window.struck = 1//",
    "template": "${window.struck = 1} $policy {{window.struck = 1}}",
    "link": "<a href='javascript:window.struck = 1' style='position:fixed;inset:0'>",
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Reports about models whose columns, targets, units and files are named by a stranger."""
    folder, pages = tmp_path_factory.mktemp("hostile"), {}
    rng = np.random.default_rng(0)
    x, other = rng.uniform(0.0, 10.0, (2, 300))
    y = np.sin(x) + 0.1 * rng.standard_normal(300)
    for kind, name in EVIL.items():
        settings = {"num_basis": 20, "noise_variance": 0.01, "optimizer": None}
        line = GPRegressor(Matern32() + Constant(), **settings)
        one = pd.DataFrame({f"x{name}": x, f"y{name}": y})
        line.fit(one, f"y{name}")
        pages[kind] = write_report(
            line, folder / f"{kind}.html", one, f"y{name}", title=f"file{name}.csv"
        )
        plane = GPRegressor(Matern32(), **settings | {"num_basis": 6})
        two = pd.DataFrame({f"x{name}": x, f"z{name}": other, f"y{name}": y})
        plane.fit(two, f"y{name}")
        pages[f"{kind} map"] = write_report(plane, folder / f"{kind}-map.html", two, f"y{name}")
    return pages


@pytest.mark.parametrize("kind", EVIL)
def test_names_are_never_scripts(kind, hostile, browser):
    for name in (kind, f"{kind} map"):
        context = browser.new_context(viewport={"width": 1000, "height": 800})
        page, complaints = context.new_page(), []
        page.on("console", lambda said, to=complaints: to.append(said.text))
        page.on("pageerror", lambda error, to=complaints: to.append(str(error)))
        page.goto(hostile[name].as_uri())
        settle(page)
        for place in page.locator("h1, td, th, button, canvas, svg").all()[:30]:
            place.dispatch_event("mouseover")
        assert page.evaluate("() => window.struck") is None
        assert complaints == []  # not even something for the policy to stop
        assert page.evaluate("() => document.querySelectorAll('[onerror], [onload]').length") == 0
        if name == kind:
            assert page.locator("h1").text_content() == f"file{EVIL[kind]}.csv"
        context.close()


def test_scripts_that_are_not_the_page_s_own_do_not_run(pages, browser, tmp_path):
    """Were a name ever written as it is, the policy would still stop it."""
    text = pages["times"].read_text(encoding="utf-8")
    for kind, name in EVIL.items():
        altered = tmp_path / f"{kind}.html"
        written = f'<main><p title="{name}">{name}</p>'
        altered.write_text(text.replace("<main>", written, 1), encoding="utf-8")
        context = browser.new_context()
        page, complaints = context.new_page(), []
        page.on("console", lambda said, to=complaints: to.append(said.text))
        page.goto(altered.as_uri())
        settle(page)
        assert page.evaluate("() => window.struck") is None
        if kind in ("script", "image"):
            assert any("Content Security Policy" in said for said in complaints)
        context.close()


def test_the_page_may_load_nothing(pages, browser):
    context = browser.new_context()
    page = context.new_page()
    page.goto(pages["times"].as_uri())
    blocked = """() => new Promise((done) => {
      const told = (event) => done(event.effectiveDirective);
      document.addEventListener('securitypolicyviolation', told);
      fetch('https://example.invalid/x').catch(() => null);
    })"""
    assert page.evaluate(blocked) == "connect-src"
    context.close()
