"""Rows that are read again, for likelihoods of which sums do not tell enough.

Arrays are kept, and gone through once more. Files and frames are opened anew, block by block. What
is of Dask is read where it is: the posterior travels to the workers, and sums come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from asvgp.likelihoods.family import Family
from asvgp.runtime.progress import Progress
from asvgp.saving.encoding import bytes_of
from asvgp.sites.readings import Found, Level, Reading, RowReading
from asvgp.sources.source import Chunk, Source
from asvgp.statistics import Statistics
from asvgp.statistics.combining import SUMS
from asvgp.structures.fit_data import Rows
from asvgp.structures.observed import Observed


class RowsAgain:
    """All rows with targets, to be read as often as steps need them.

    Attributes
    ----------
    family : Family
        The likelihood, with parameters that the first rows suggest.
    reads : int
        Number of times that all rows were read, the pass in which they were summed included.
    """

    def __init__(self, reader: Any, first: Rows, source: Source | None, before: object = None):
        family, rows = reader.data.family, observed_of(first)
        self.family: Family = family.begin(*rows[1:]) if len(rows.y) else family
        self.reader, self.source, self.before = replace(reader, first=None), source, before
        self.kept = rows if source is None else None  # blocks of sources lie in memory used again
        self.reads, self.progress = 1, Progress(False)

    def reading(self, rows: int, count: int) -> Reading:
        """Return what turns posteriors into sites.

        There are so many ``rows`` with targets, and ``count`` with each as often as it is there.
        """
        structure, source = self.reader.data.structure, self.source
        if source is not None and source.spread:
            return SpreadReading(self, source, rows, count)
        return RowReading(structure, partial(self._all, rows), count)

    def sample(self, rows: int, most: int) -> Reading | None:
        """Return a reading of about ``most`` of the rows, which takes one read of a source.

        None is returned where rows are read where they are.
        """
        source, rng = self.source, np.random.default_rng(0)
        if source is not None and source.spread:
            return None
        parts = []
        for block in self._all(rows) if source is not None else (self.kept,):
            assert block is not None
            chosen = np.flatnonzero(rng.random(len(block.y)) < most / rows)
            beside = (None if column is None else column[chosen] for column in block[2:])
            parts.append(Observed(block.points.rows(chosen), block.y[chosen], *beside))
        number = sum(len(p.y) if p.weight is None else float(p.weight.sum()) for p in parts)
        return RowReading(self.reader.data.structure, lambda: parts, max(1, round(number)))

    def _all(self, count: int) -> Iterator[Observed]:
        """Yield all rows, block by block, and count the reads that are complete."""
        if self.source is None:
            assert self.kept is not None
            yield self.kept
            self.reads += 1
            return
        advance, found = self.passing(count), 0
        for block in self.source.blocks():
            rows = observed_of(self.reader.read(block))
            if len(rows.y):
                yield rows
            found += len(rows.y)
            advance(len(rows.y))
        self.check(found, count)

    def passing(self, count: int) -> Callable[[int], None]:
        """Return what shows the progress of the next read."""
        return self.progress.passing(count, f"read {self.reads + 1}")

    def check(self, found: int, count: int) -> None:
        """Count a read, and check that the data are those that were read first."""
        self.reads += 1
        if found != count:
            raise ValueError(
                f"The data have changed between two reads: {count:,} rows with targets in the "
                f"first, {found:,} in read {self.reads}. A function given as source must bring the "
                "same rows each time."
            )
        if self.source is not None and self.source.fingerprint() != self.before:
            raise ValueError(
                "The data have changed while they were read: fit again when they rest."
            )


def observed_of(rows: Rows) -> Observed:
    """Return the rows with targets, of a likelihood that is not Gaussian."""
    assert rows.observed is not None
    return rows.observed


@dataclass(frozen=True, eq=False)
class SpreadReading:
    """Rows that are read anew for every posterior, where they are."""

    rows: RowsAgain
    source: Source
    number: int  # of rows with targets
    count: int

    @property
    def alike(self) -> str:
        """Nothing: whether all targets are the same would take a read to know."""
        return ""

    def found(
        self, family: Family, posterior: Any, like: Statistics, robust: bool = False
    ) -> Found:
        """Return what the data say; see `Reading`."""
        sent = PortablePosterior(posterior)
        return self._summed(SiteWork(self.rows.reader, family, like, sent, robust))

    def begin(
        self, family: Family, like: Statistics, everywhere: Level | None = None
    ) -> Statistics:
        """Return sites to begin with, before there is a posterior."""
        work = SiteWork(self.rows.reader, family, like, everywhere=everywhere)
        return self._summed(work).sites

    def level(self, family: Family, m: float, v: float) -> float:
        """Return the value of one f everywhere, which takes a read."""
        work = SiteWork(self.rows.reader, family, self.rows.reader.data.stats)
        return self._summed(replace(work, everywhere=Level(m, v))).value

    def _summed(self, work: SiteWork) -> Found:
        advance = self.rows.passing(self.count)
        found = self.source.mapped(work, _joined)
        if found is None:
            raise ValueError("There are no data: 0 rows.")
        advance(found.sites.count)
        self.rows.check(found.sites.count, self.number)
        return found._replace(sites=replace(found.sites, count=self.count))


class PortablePosterior:
    """A posterior to be sent: what predictions read of it, so that nothing is factored there."""

    def __init__(self, posterior: Any):
        self.posterior = posterior

    def __reduce__(self):
        return _received, (type(self.posterior), self.posterior.parts)


def _received(kind: Any, parts: tuple) -> PortablePosterior:
    return PortablePosterior(kind.restored(*parts))


@dataclass(frozen=True, eq=False)
class SiteWork:
    """What is done with the blocks of one place: their sites for a posterior, or to begin with."""

    reader: Any
    family: Family
    like: Statistics
    sent: PortablePosterior | None = None
    robust: bool = False
    everywhere: Level | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, about what has to be sent."""
        sent = 0 if self.sent is None else bytes_of(self.sent.posterior.parts[-1])
        return self.reader.nbytes + self.like.nbytes + sent

    def __call__(self, blocks: Iterable[Chunk]) -> Found | None:
        """Return what blocks say; None where no row has a target."""
        rows = [observed_of(self.reader.read(block)) for block in blocks]
        rows = [each for each in rows if len(each.y)]
        if not rows:
            return None
        count = sum(len(each.y) for each in rows)
        here = RowReading(self.reader.data.structure, lambda: rows, count)
        if self.everywhere is not None:
            return here.at(self.everywhere, self.family, self.like)
        if self.sent is None:
            return Found(0.0, np.zeros(0), here.begin(self.family, self.like))
        return here.found(self.family, self.sent.posterior, self.like, self.robust)


def _joined(one: Found, other: Found) -> Found:
    """Return what two parts of the data say together."""
    mine, theirs = one.sites, other.sites
    sums = {name: getattr(mine, name) + getattr(theirs, name) for name in (*SUMS, "count")}
    sites = replace(mine, **sums)
    return Found(one.value + other.value, one.slopes + other.slopes, sites)
