"""The pages say only what is so: their code runs, their commands and pictures exist."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.pages import FENCE, OUTPUT, PAGES, ROOT, SHELL, alike, blocks, command_lines, run

# Anything else on this list is shown, not run. A language that is not here fails the test.
PROSE = {"text", OUTPUT}

IMAGE = re.compile(r"!\[[^\]]*\]\((?P<target>[^)\s]+)[^)]*\)")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def commands(page: Path) -> list[str]:
    return [line for language, _, body in blocks(page) for line in command_lines(language, body)]


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


each_page = pytest.mark.parametrize("page", PAGES, ids=named)


@each_page
def test_python_blocks_and_commands_run_in_order_and_print_what_is_shown(
    page, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    for line, shown, printed in run(page):
        assert alike(shown, printed), f"{named(page)}, line {line}: prints\n{printed}"


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a 1.00 b", "a  1.01 b", True),
        ("a 1.00 b", "a 1.50 b", False),
        ("a 1,000", "a 1,200", False),
        ("a 1", "b 1", False),
        ("first\n...\nlast 2.0", "first\nmiddle\nlast 2.0", True),
        ("first\n...\nlast", "first\nmiddle", False),
        ("took ... s", "took 0.123 s", True),
        ("one", "one\ntwo", False),
    ],
)
def test_outputs_are_compared_as_they_should_be(shown, printed, same):
    assert alike(shown, printed) is same


@each_page
def test_every_block_has_a_language_that_is_checked(page):
    languages = {language for language, _, _ in blocks(page)}
    assert languages <= {"python"} | SHELL | PROSE


@each_page
def test_fences_are_closed(page):
    assert "```" not in prose(page)


@each_page
@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_commands_exist(page):
    for command in commands(page):
        program, *arguments = command.split()
        if program == "make":
            subprocess.run(["make", "-n", *arguments], cwd=ROOT, check=True, capture_output=True)
        else:
            known = command.startswith(("pip install ", "asvgp "))
            assert known, f"{named(page)}: cannot check {command!r}"


def test_make_targets_are_documented():
    """Every phony target of the Makefile appears in its help."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY:(.*)$", makefile, re.MULTILINE)
    assert phony is not None
    for target in phony[1].split():
        assert re.search(rf"^{target}:.*## ", makefile, re.MULTILINE), target


@each_page
def test_images_exist(page):
    for match in IMAGE.finditer(prose(page)):
        target = match["target"]
        if "://" not in target:
            assert (page.parent / target).is_file(), f"{named(page)}: no image {target}"


@each_page
def test_links_to_files_exist(page):
    for match in LINK.finditer(prose(page)):
        target = match["target"].split("#")[0]
        if target and "://" not in target:
            assert (page.parent / target).is_file(), f"{named(page)}: no page {target}"


def test_every_public_name_is_in_the_reference():
    import asvgp

    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs/reference").glob("*.md")]
    shown = {name for text in pages for name in re.findall(r"^::: asvgp\.(\S+)$", text, re.M)}
    names = set(asvgp.__all__) - {"plot"} | {f"plot.{name}" for name in asvgp.plot.__all__}
    assert names <= shown
