"""The build of the documentation fails where a page, a link or a docstring is wrong."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="the documentation's tools are not installed")
pytest.importorskip("mkdocstrings", reason="the documentation's tools are not installed")

ROOT = Path(__file__).resolve().parents[1]
FUNCTION = '''"""A module."""


def doubled(value: float) -> float:
    """Return twice a value.

    Parameters
    ----------
    value : float
        What to double.
    """
    return 2 * value
'''


def command() -> list[str]:
    """The command by which `make docs` builds the site, options and all."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = re.search(r"^docs:.*\n\t.*\$\(BIN\)/mkdocs (.+)$", makefile, re.MULTILINE)
    assert found is not None
    return [sys.executable, "-m", "mkdocs", *found[1].split()]


def settings(folder: Path) -> str:
    """The project's own settings, for other pages and another package."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    found = yaml.safe_load(text)
    found |= {"nav": [{"Home": "index.md"}], "docs_dir": "docs", "site_dir": str(folder / "site")}
    for plugin in found["plugins"]:
        if isinstance(plugin, dict) and "mkdocstrings" in plugin:
            plugin["mkdocstrings"]["handlers"]["python"]["paths"] = [str(folder)]
    for addition in ("extra_javascript", "extra_css"):
        found.pop(addition, None)
    return yaml.safe_dump(found)


def build(folder: Path, page: str, module: str = FUNCTION) -> subprocess.CompletedProcess:
    (folder / "docs").mkdir()
    (folder / "docs" / "index.md").write_text(page, encoding="utf-8")
    (folder / "small_package.py").write_text(module, encoding="utf-8")
    (folder / "mkdocs.yml").write_text(settings(folder), encoding="utf-8")
    return subprocess.run(
        command(),
        cwd=folder,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )


PAGE = "# A page\n\n[Back](#a-page)\n\n::: small_package.doubled\n"


def test_a_sound_page_builds(tmp_path):
    done = build(tmp_path, PAGE)
    assert done.returncode == 0, done.stderr
    assert "Return twice a value" in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("page", "module", "complaint"),
    [
        (PAGE + "\n[nowhere](nowhere.md)\n", FUNCTION, "nowhere.md"),
        (PAGE + "\n[no heading](#nothing-here)\n", FUNCTION, "nothing-here"),
        (PAGE + "\n![no picture](none.png)\n", FUNCTION, "none.png"),
        (PAGE + "\n::: small_package.tripled\n", FUNCTION, "tripled"),
        (PAGE, FUNCTION.replace("value : float", "number : float"), "number"),
    ],
    ids=["page", "heading", "picture", "name", "docstring"],
)
def test_a_broken_page_ends_the_build(tmp_path, page, module, complaint):
    done = build(tmp_path, page, module)
    assert done.returncode != 0
    assert complaint in done.stderr
