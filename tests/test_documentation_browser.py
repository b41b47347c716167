"""The site in a browser: no page is wider than the screen, lacks a picture or has a script fail."""

import functools
import os
import shutil
import subprocess
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.test_documentation_build import ROOT, command

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

WIDTHS = {"phone": 390, "desktop": 1400}

# What is wrong with a page as it is shown now. Elements that stick out count unless something
# around them scrolls; formulas count where they are still TeX.
FAULTS = """() => {
  const faults = [];
  const wide = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > wide + 1) {
    faults.push(`the page is ${document.documentElement.scrollWidth} wide on a screen of ${wide}`);
  }
  const scrolls = (e) => {
    for (let p = e; p && p !== document.body; p = p.parentElement) {
      if (getComputedStyle(p).overflowX !== "visible") return true;
    }
    return false;
  };
  const inner = document.querySelector(".md-content");
  for (const e of inner.querySelectorAll("*")) {
    const box = e.getBoundingClientRect();
    if (box.width && box.right > wide + 1 && !scrolls(e)) {
      faults.push(`<${e.tagName} ${e.className}> ends at ${box.right} of ${wide}`);
      break;
    }
  }
  for (const picture of document.images) {
    if (!picture.complete || !picture.naturalWidth) faults.push(`no picture ${picture.src}`);
  }
  for (const formula of document.querySelectorAll(".arithmatex")) {
    if (!formula.querySelector("mjx-container")) faults.push(`TeX: ${formula.textContent}`);
  }
  if (document.querySelector("mjx-merror, [data-mjx-error]")) faults.push("a formula fails");
  if (/\\\\\\(/.test(document.querySelector(".md-sidebar--secondary")?.textContent ?? "")) {
    faults.push("TeX in the table of contents");
  }
  return faults;
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as `make docs` builds it, and its address."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [*command(), "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def faults_of(page, address: str) -> list[str]:
    """Open a page, then show it at every width, light and dark."""
    page.goto(address)
    page.evaluate("() => window.MathJax?.startup?.promise")
    faults = []
    for device, width in WIDTHS.items():
        page.set_viewport_size({"width": width, "height": 900})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            faults += [f"{device}, {scheme}: {fault}" for fault in page.evaluate(FAULTS)]
    return faults


@pytest.fixture(scope="module")
def page():
    flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    with playwright.sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser.new_page()
        browser.close()


def test_every_page_fits_every_screen_without_a_fault(site, page):
    folder, address = site
    complaints: list[str] = []
    page.on(
        "console",
        lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None,
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "request",
        lambda asked: (
            complaints.append(f"asks for {asked.url}")
            if not asked.url.startswith((address, "data:", "blob:"))
            else None
        ),
    )
    found = {}
    pages = sorted(folder.rglob("index.html"))
    assert len(pages) > 50
    for path in pages:
        name = path.parent.relative_to(folder).as_posix()
        faults = faults_of(page, address + ("" if name == "." else f"{name}/"))
        if faults or complaints:
            found[name] = faults + complaints
            complaints.clear()
    assert not found


def test_a_page_with_faults_is_found_out(page, tmp_path):
    broken = tmp_path / "broken.html"
    broken.write_text(
        "<body><div class='md-content'><p style='width: 2000px'>wide</p>"
        "<img src='nowhere.png'><span class='arithmatex'>\\(x\\)</span></div></body>",
        encoding="utf-8",
    )
    text = " ".join(faults_of(page, broken.as_uri()))
    for fault in ("wide on a screen", "<P", "no picture", "TeX"):
        assert fault in text
