"""The cache of tables: what it keeps, what it lets go, and that threads may share it."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from asvgp.model.circle import parts_of_cells, shifts
from asvgp.policies import MEMORY
from asvgp.runtime.tables import cached_tables


def counted():
    """Return a function of tables, and the list of those that it has made."""
    made = []

    @cached_tables
    def table(size, fill=0.0):
        made.append((size, fill))
        return np.full(size, fill)

    return table, made


def test_tables_are_kept_by_their_arguments():
    table, made = counted()
    assert table(3, fill=1.0) is table(3, fill=1.0)
    assert table(3) is not table(3, fill=1.0)
    np.testing.assert_array_equal(table(3, fill=1.0), np.ones(3))
    assert made == [(3, 1.0), (3, 0.0)]


def test_the_latest_tables_stay_as_far_as_bytes_allow():
    table, made = counted()
    third = MEMORY.tables // 8 // 3
    first = table(third, 0.0)
    table(third, 1.0)
    assert table(third, 0.0) is first
    table(third, 2.0)
    table(third, 3.0)  # 1.0 was wanted last of all
    made.clear()
    table(third, 0.0)
    table(third, 2.0)
    assert made == []
    table(third, 1.0)
    assert made == [(third, 1.0)]


def test_wide_cells_have_tables_that_are_not_kept():
    wide = MEMORY.tables // 8 // 16 + 1
    assert shifts(3, 16) is shifts(3, 16)
    assert shifts(3, wide) is not shifts(3, wide)
    assert parts_of_cells(3, wide) is not parts_of_cells(3, wide)


def test_threads_get_the_same_values():
    table, _ = counted()
    sizes = np.random.default_rng(0).integers(1, MEMORY.tables // 16, 200)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda size: table(int(size), float(size)), sizes))
    assert [len(each) for each in found] == sizes.tolist()
    assert all(each[0] == size for each, size in zip(found, sizes, strict=True))
