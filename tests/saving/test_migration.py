"""Models in the forms of older files."""

import copy

import numpy as np
import pytest

import asvgp
from asvgp.saving import model_file
from tests.saving.saved import FIELDS, LINES, fitted, same


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.asvgp"


def one_input(parts, arrays, name):
    """Change statistics of one input, in place, to the form of version 1."""
    (grid,), (degree,) = parts.pop("grids")["tuple"], parts.pop("degrees")["tuple"]
    for unknown in ("smooths", "linear"):
        del parts[unknown]
    cross, gram, targets = (
        arrays[parts.pop(key)["array"]] for key in ("cross", "column_gram", "column_targets")
    )
    new = {"columns": np.moveaxis(cross, -1, 0), "products": np.concatenate([targets, gram])}
    arrays |= {f"{name}.{key}": value.copy() for key, value in new.items()}
    parts |= {"grid": grid, "degree": degree}
    parts |= {key: {"array": f"{name}.{key}"} for key in new}


def downgrade(path, line):
    """Rewrite a file in the form of version 1."""
    model, arrays = model_file.read(path)
    for name, node in model["shared"].items():
        parts = node["Statistics"]
        if line:
            one_input(parts, arrays, name)
        else:
            for unknown in ("convention", "widths", "width_weights"):
                del parts[unknown]
            node["FieldStatistics"] = node.pop("Statistics")
    state = model["state"]
    data = state["_data"] = {"Seen": state["_data"]["FitData"]}
    if line:
        structure = data["Seen"]["structure"]["Line"]
        (structure["axis"],) = structure.pop("axes")["tuple"]
    used = str(model)
    model_file.write(path, model, {name: a for name, a in arrays.items() if f"'{name}'" in used})


@pytest.mark.parametrize("case", [*LINES, *FIELDS], ids=lambda case: case.__name__)
def test_statistics_of_version_1(case, path):
    gp, X, *_ = fitted(case)
    gp.save(path, full=True)
    downgrade(path, case in LINES)
    loaded = asvgp.load(path)
    assert same(loaded.predict(X), gp.predict(X))
    assert loaded.stats_.convention == gp.stats_.convention
    for name in ("moments", "targets", "cross", "column_gram", "column_targets", "squares"):
        assert same(getattr(loaded.stats_, name), getattr(gp.stats_, name)), name
    both = copy.deepcopy(gp).merge(loaded)  # their sums mean the same
    assert both.stats_.count == 2 * gp.stats_.count
    loaded.save(path, full=True)
    assert same(asvgp.load(path).predict(X), gp.predict(X))
