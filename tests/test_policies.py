"""Thresholds of automatic choices."""

from asvgp.policies import FIELD, LINE, NOT_RECORDED, VERDICT, halvings, table


def test_every_threshold_says_its_unit_reason_and_measurement():
    rows = table()
    assert len(rows) > 90
    for row in rows:
        assert row.unit, row.name
        assert row.reason.endswith((".", ",")), row.name
        assert row.measured, row.name


def test_some_measurements_are_known():
    rows = table()
    assert sum(row.measured != NOT_RECORDED for row in rows) >= 20


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
