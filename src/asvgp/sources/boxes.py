"""Cut arrays of several dimensions into boxes of bounded size, along their chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import ceil, prod


def box_lengths(shape: Sequence[int], chunks: Sequence[int], size: int) -> tuple[int, ...]:
    """Return the lengths of boxes of at most ``size`` values: whole chunks where these fit.

    They grow from the last dimension on, which lies together in memory; without chunks they
    are slabs along the first.

    Examples
    --------
    >>> box_lengths((744, 33, 49), (1, 1, 1), 100_000)
    (61, 33, 49)
    >>> box_lengths((8760, 720, 1440), (8760, 10, 10), 4_000_000)
    (8760, 10, 40)
    >>> box_lengths((4, 1000, 1000), (1, 1000, 1000), 500_000)
    (1, 500, 1000)
    """
    lengths = [max(1, min(chunk, n)) for chunk, n in zip(chunks, shape, strict=True)]
    for d in range(len(lengths)):
        while prod(lengths) > size and lengths[d] > 1:
            lengths[d] = ceil(lengths[d] / 2)
    for d in reversed(range(len(lengths))):
        times = max(1, size // prod(lengths))
        lengths[d] = max(1, min(shape[d], lengths[d] * times))
    return tuple(lengths)


def boxes(shape: Sequence[int], lengths: Sequence[int]) -> Iterator[tuple[slice, ...]]:
    """Yield all boxes; the last dimension varies fastest.

    Examples
    --------
    >>> len(list(boxes((10, 4), (3, 4))))
    4
    """
    along = (
        [slice(begin, min(begin + length, n)) for begin in range(0, n, length)]
        for n, length in zip(shape, lengths, strict=True)
    )
    yield from product(*along)
