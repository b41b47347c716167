"""Imports point from upper layers to lower ones, late imports included."""

import ast
from pathlib import Path

import pytest

import asvgp

PACKAGE = Path(asvgp.__file__).parent
# From the bottom up. A module imports only from its own layer and from those before it.
LAYERS = [
    ["policies", "basis", "degrees", "times", "runtime"],
    ["linalg"],
    ["kernels"],
    ["statistics"],
    ["model", "likelihoods"],
    ["posterior"],
    ["training"],
    ["diagnostics"],
    ["data"],
    ["structures"],
    ["sites"],
    ["sources"],
    ["saving"],
    ["estimators"],
    ["plot"],
    ["report"],
    ["cli", "demo", "__main__"],
]
HEIGHT = {name: height for height, layer in enumerate(LAYERS) for name in layer}


def modules():
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def layer_of(parts):
    return parts[0].removesuffix(".py")


def imported(path):
    """Yield the line and the first part of every asvgp module that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "asvgp":
            names = [f"asvgp.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in names:
            if name.startswith("asvgp."):
                yield node.lineno, name.split(".")[1]


def test_every_module_is_in_a_layer():
    folders = {layer_of(path.relative_to(PACKAGE).parts) for path in modules()}
    assert folders <= set(HEIGHT)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downwards(path):
    own = layer_of(path.relative_to(PACKAGE).parts)
    # Names of the package itself, such as __version__, and public classes come from anywhere.
    upward = [
        f"line {line}: {own} imports {name}"
        for line, name in imported(path)
        if name in HEIGHT and HEIGHT[name] > HEIGHT[own]
    ]
    assert not upward, "; ".join(upward)


def test_the_check_sees_late_imports(tmp_path):
    path = tmp_path / "late.py"
    path.write_text("def f():\n    from asvgp.cli.app import main\n    import asvgp.plot\n")
    assert sorted(imported(path)) == [(2, "cli"), (3, "plot")]
