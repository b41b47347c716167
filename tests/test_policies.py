"""Thresholds of automatic choices."""

import re
from dataclasses import fields
from pathlib import Path

from asvgp import policies
from asvgp.policies import FIELD, LINE, VERDICT, halvings


def comments() -> dict[str, str]:
    """The comments on all thresholds, those in the line or those above it."""
    out, above = {}, ""
    files = sorted(Path(policies.__file__).parent.glob("*.py"))
    for line in "\n".join(file.read_text(encoding="utf-8") for file in files).splitlines():
        if comment := re.match(r"    # (.*)", line):
            above = f"{above} {comment[1]}" if above else comment[1]
        elif entry := re.match(r"    (\w+): [^=]+ = .*?(?:  # (.*))?$", line):
            out[f"{len(out)} {entry[1]}"] = entry[2] or above
            above = ""
        else:
            above = ""
    return out


def test_every_threshold_says_its_unit_and_reason():
    groups = [getattr(policies, name) for name in dir(policies) if name.endswith("Policy")]
    assert len(comments()) == sum(len(fields(group)) for group in groups) > 90
    for name, comment in comments().items():
        assert re.match(r"\[[^]]+\] [^ ].*?[.,]( Measured: .+)?$", comment), name


def test_some_measurements_are_known():
    assert sum(" Measured: " in comment for comment in comments().values()) >= 20


def test_thresholds_that_must_agree():
    assert VERDICT.enough == LINE.settled_gain
    assert FIELD.visible_length <= FIELD.shortest_length
    assert len(FIELD.most_cells) == len(FIELD.first_cells) == len(FIELD.box_sides)


def test_a_grid_can_be_coarsened_to_where_training_begins():
    for cells in (100, 256, 511, 512, 5000, 1 << 19):
        rounded = -(-cells // halvings(cells)) * halvings(cells)
        while rounded >= 2 * LINE.first_cells:
            assert rounded % 2 == 0
            rounded //= 2
