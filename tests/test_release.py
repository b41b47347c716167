"""What a release says about itself agrees with the code and with what is tested."""

import re
import tomllib
from pathlib import Path

import pytest

import asvgp

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_the_citation_has_the_version_and_the_licence():
    cited = dict(re.findall(r"^(version|license): (.+)$", text("CITATION.cff"), re.MULTILINE))
    assert cited == {"version": asvgp.__version__, "license": PROJECT["license"]}


def test_the_changelog_has_the_version():
    assert f"## [{asvgp.__version__}]" in text("CHANGELOG.md")


def test_the_versions_of_python_that_are_named_are_tested():
    named = {
        found[1]
        for line in PROJECT["classifiers"]
        if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line))
    }
    matrix = re.search(r"python: \[(.+)\]", text(".github/workflows/tests.yml"))
    assert matrix is not None
    assert named == set(re.findall(r"3\.\d+", matrix[1]))
    assert f">={min(named, key=lambda v: int(v[2:]))}" == PROJECT["requires-python"]


@pytest.mark.parametrize(
    "workflow",
    sorted((ROOT / ".github").rglob("*.yml")),
    ids=lambda path: path.name,
)
def test_the_forms_and_workflows_can_be_read(workflow):
    yaml = pytest.importorskip("yaml", reason="yaml is not installed")
    found = yaml.safe_load(workflow.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    for job in found.get("jobs", {}).values():
        assert job["steps"]
        assert "runs-on" in job


def test_the_package_is_marked_as_typed():
    assert (Path(asvgp.__file__).parent / "py.typed").is_file()
