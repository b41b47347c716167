"""The pages say only what is so: their code runs, their commands and pictures exist."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
SHELL = {"sh", "console"}
# Anything else on this list is shown, not run. A language that is not here fails the test.
PROSE = {"text"}

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```[ ]*$",
    re.MULTILINE | re.DOTALL,
)
IMAGE = re.compile(r"!\[[^\]]*\]\((?P<target>[^)\s]+)[^)]*\)")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[tuple[str, int, str]]:
    """Language, line of the first statement, and text of every fenced block."""
    text = page.read_text(encoding="utf-8")
    return [
        (m["language"].strip(), text.count("\n", 0, m.start("body")) + 1, dedent(m["body"]))
        for m in FENCE.finditer(text)
    ]


def command_lines(language: str, body: str) -> list[str]:
    """Command lines of a block, prompts, output and comments removed."""
    found = []
    for line in body.replace("\\\n", " ").splitlines() if language in SHELL else ():
        if language == "console" and not line.startswith("$ "):
            continue
        command = line.removeprefix("$ ").split("#")[0].strip()
        if command:
            found.append(command)
    return found


def commands(page: Path) -> list[str]:
    return [line for language, _, body in blocks(page) for line in command_lines(language, body)]


def run(command: str) -> None:
    """A command of this library, in this process."""
    from click.testing import CliRunner

    from asvgp.cli.app import app

    result = CliRunner().invoke(app, shlex.split(command)[1:])
    assert result.exit_code == 0, f"{command}\n{result.stderr}"


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


each_page = pytest.mark.parametrize("page", PAGES, ids=named)


@each_page
def test_python_blocks_and_commands_run_in_order(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    namespace: dict = {"__name__": "__page__"}
    for language, line, body in blocks(page):
        if language == "python":
            # Blank lines in front make tracebacks point at the line of the page.
            exec(compile("\n" * (line - 1) + body, str(page), "exec"), namespace)
        for command in command_lines(language, body):
            if command.startswith("asvgp "):
                run(command)


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
