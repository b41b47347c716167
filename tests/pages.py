"""The documentation's pages: their blocks, how they run, and the outputs that they show.

``python -m tests.pages docs/install.md`` runs a page and writes anew what its blocks print.
A block of output, ``text title="Output"``, belongs to the Python block or command before it. A line
of ``...`` in it stands for any lines, and ``...`` within a line for anything.
"""

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
SHELL = {"sh", "console"}
OUTPUT = 'text title="Output"'

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```[ ]*$",
    re.MULTILINE | re.DOTALL,
)
NUMBER = re.compile(r"[-+−]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")


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


def run_command(command: str) -> str:
    """Run a command of this library in this process; what it printed."""
    from click.testing import CliRunner

    from asvgp.cli.app import app

    result = CliRunner().invoke(app, shlex.split(command)[1:])
    assert result.exit_code == 0, f"{command}\n{result.stderr}"
    return result.stdout


def run(page: Path) -> Iterator[tuple[int, str, str]]:
    """Run a page's blocks in order: the line of every shown output, what it shows, what came."""
    namespace: dict = {"__name__": "__page__"}
    printed = ""
    for language, line, body in blocks(page):
        if language == "python":
            heard = io.StringIO()
            # Blank lines in front make tracebacks point at the line of the page.
            with contextlib.redirect_stdout(heard):
                exec(compile("\n" * (line - 1) + body, str(page), "exec"), namespace)
            printed = heard.getvalue()
        elif language in SHELL:
            ours = [c for c in command_lines(language, body) if c.startswith("asvgp ")]
            printed = "".join(map(run_command, ours))
        elif language == OUTPUT:
            yield line, body, printed


def alike(shown: str, printed: str) -> bool:
    """Whether an output is the one shown, numbers to 10 % or two units of their last digit."""
    want = [line.rstrip() for line in shown.strip("\n").splitlines()]
    got = [line.rstrip() for line in printed.strip("\n").splitlines()]
    return _lines_alike(want, got)


def _lines_alike(want: list[str], got: list[str]) -> bool:
    if not want:
        return not got
    if want[0].strip() == "...":
        return any(_lines_alike(want[1:], got[i:]) for i in range(len(got) + 1))
    return bool(got) and _line_alike(want[0], got[0]) and _lines_alike(want[1:], got[1:])


def _line_alike(want: str, got: str) -> bool:
    if "..." in want:
        head, tail = want.split("...", 1)
        return got.startswith(head) and got.endswith(tail)
    texts = [" ".join(NUMBER.sub("#", line).split()) for line in (want, got)]
    if texts[0] != texts[1]:
        return False
    pairs = zip(NUMBER.findall(want), NUMBER.findall(got), strict=True)
    return all(_numbers_alike(a, b) for a, b in pairs)


def _numbers_alike(want: str, got: str) -> bool:
    a, b = (float(text.replace(",", "").replace("−", "-")) for text in (want, got))
    digits = want.split("e")[0].partition(".")[2]
    unit = 10.0 ** -len(digits) if digits else 1.0 if "." in want else 0.0
    return abs(a - b) <= 0.1 * abs(a) + (2.0 * unit if "e" not in want else 0.0)


def main(names: list[str]) -> None:
    """Write the outputs of pages anew."""
    for name in names:
        page = Path(name).resolve()
        text = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            found = list(run(page))
        lines = text.splitlines(keepends=True)
        for line, shown, printed in reversed(found):
            if not alike(shown, printed):
                lines[line - 1 : line - 1 + len(shown.splitlines())] = [printed.strip("\n") + "\n"]
                print(f"{name}, line {line}")
        page.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "Agg")
    main(sys.argv[1:])
