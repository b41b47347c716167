"""What `SECURITY.md` promises of the whole package."""

import ast
from pathlib import Path

import numpy as np
import pytest

import asvgp

FILES = sorted(Path(asvgp.__file__).parent.rglob("*.py"))
NETWORK = {"socket", "ssl", "http", "urllib", "ftplib", "smtplib", "requests", "urllib3", "aiohttp"}
CODE = {"pickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}


def imported(tree: ast.AST) -> set[str]:
    """The packages that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_nothing_connects_and_nothing_is_unpickled_or_evaluated(file):
    tree = ast.parse(file.read_text(encoding="utf-8"))
    assert not imported(tree) & (NETWORK | CODE)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
    assert not names & {"eval", "exec", "compile", "__import__"}
    assert "allow_pickle" not in {word.arg for call in calls for word in call.keywords}


class Trap:
    """An object that leaves a trace when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_arrays_of_objects_are_not_unpickled(ending, tmp_path):
    path, trace = tmp_path / f"data.{ending}", tmp_path / "trace"
    objects = np.array([Trap(trace), 1.0], dtype=object)
    if ending == "npy":
        np.save(path, objects, allow_pickle=True)
    else:
        np.savez(path, x=objects, y=np.ones(2))
    with pytest.raises(ValueError, match=str(path)):
        asvgp.GPRegressor(asvgp.Matern32()).fit(
            asvgp.scan(path, target="y" if ending == "npz" else 1)
        )
    assert not trace.exists()
