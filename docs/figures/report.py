"""The picture of `docs/report.md`: the page that its code writes, in a browser.

python docs/figures/report.py
"""

import os
import re
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parent.parent


def main():
    page = (DOCS / "report.md").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        namespace = {}
        for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
            exec(block, namespace)
        pictures(Path(folder) / "report.html", DOCS / "images")


def pictures(path, images):
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=program, args=["--no-sandbox"])
        view = browser.new_page(viewport={"width": 1000, "height": 860})
        view.goto(path.as_uri())
        view.wait_for_timeout(500)
        view.screenshot(path=str(images / "report.png"))
        dark = browser.new_page(viewport={"width": 1000, "height": 860}, color_scheme="dark")
        dark.goto(path.as_uri())
        figure = dark.locator("section#explore")
        figure.scroll_into_view_if_needed()
        box = dark.locator(".plot").first.bounding_box()
        dark.mouse.move(box["x"] + 0.55 * box["width"], box["y"] + 0.5 * box["height"])
        for _ in range(14):  # a few days, so that the curve and its observations show
            dark.mouse.wheel(0, -100)
        dark.wait_for_timeout(500)
        figure.screenshot(path=str(images / "report_zoom.png"))
        browser.close()


if __name__ == "__main__":
    main()
