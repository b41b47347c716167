"""Every measured number in the README and on the site has the command that makes it.

Pages that are generated hold what the results files hold (`experiments/tests/test_winners.py`). On
pages that are written by hand, a section that tells of measurements, in a table or in sentences,
must name the script or the command that measured them, and it must exist.
"""

import re

import pytest

from experiments import page as generated
from tests.pages import FENCE, PAGES, ROOT

GENERATED = {*generated.PAGES, "evidence.md", "changelog.md", "contributing.md"}
WRITTEN = [
    page
    for page in PAGES
    if page.name not in GENERATED and (page.name == "README.md" or page.parent != ROOT)
]
NUMBER = r"(?<![\w.])[-−+]?\d[\d,.]*(?:e-?\d+)?"
# A number with a unit that only a measurement has: nats and gibibytes are limits, too.
MEASURED = re.compile(rf"{NUMBER}\s*(?:seconds of one core|ms\b|s\b|MiB\b|cm\b)")
SOURCE = re.compile(
    r"((?:benchmarks|docs/figures|experiments)/\w+\.py)|make (bench|experiment-\w+|demo|soak)"
    r"|python -m (tests\.(?:soak|oracle)[\w.]*)"
)


def sections(text: str) -> list[tuple[str, str]]:
    """Headings of the second order, and what is under them, without code and formulas."""
    plain = re.sub(r"\$\$.*?\$\$|\$[^$\n]*\$", "…", FENCE.sub("", text), flags=re.DOTALL)
    parts = re.split(r"^(## .*)$", plain, flags=re.MULTILINE)
    return [("the beginning", parts[0]), *zip(parts[1::2], parts[2::2], strict=True)]


def tables(text: str) -> list[list[str]]:
    """Rows of every table, without its head."""
    found = re.findall(r"(?:^\|.*\n?)+", text, flags=re.MULTILINE)
    return [block.strip().splitlines()[2:] for block in found]


def measured(text: str) -> list[str]:
    """Measurements of a section: tables of figures, and numbers with units in sentences."""
    found = []
    for rows in tables(text):
        cells = [cell.strip() for row in rows for cell in row.strip("|").split("|")[1:]]
        figures = [cell for cell in cells if re.fullmatch(rf"{NUMBER}[ \w%×°.,/–+-]*", cell)]
        if len(figures) >= max(3, len(cells) / 3):
            found.append(f"a table with {figures[0]}")
    found += [match[0] for match in MEASURED.finditer(re.sub(r"^\|.*$", "", text, flags=re.M))]
    return found


def sources(text: str) -> list[str]:
    return [a or c or f"make {b}" for a, b, c in SOURCE.findall(text)]


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_measurements_name_what_made_them(page):
    text = page.read_text(encoding="utf-8")
    for_all = re.findall(r"^The figures on this page are from[^\n]*\n?[^\n]*$", text, re.MULTILINE)
    orphans = {
        heading: numbers
        for heading, body in sections(text)
        if (numbers := measured(body)) and not sources(body + " ".join(for_all))
    }
    assert not orphans
    for source in sources(text):
        if source.endswith(".py"):
            assert (ROOT / source).is_file(), source


def test_a_number_without_a_command_is_found():
    page = "# A\n\n## B\n\nIt takes 3.5 s.\n\n## C\n\n| a | b |\n|---|---|\n| x | 1.0 |\n"
    page += "| y | 2.0 |\n| z | 3.0 |\n\n## D\n\nIt takes 2 s (`benchmarks/gaps.py`).\n"
    found = {heading: measured(body) for heading, body in sections(page) if not sources(body)}
    assert found == {"the beginning": [], "## B": ["3.5 s"], "## C": ["a table with 1.0"]}
