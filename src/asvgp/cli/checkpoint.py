"""Checkpoints of a pass over the data: models of the rows read so far.

The statistics add, so that a fit can continue from them. The checkpoint is a model file beside
the final one, with a note of the data it belongs to; it is used for those data only. It is written
on Ctrl-C and, because a machine may stop without one, every minute of a long pass.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from copy import copy
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from asvgp.data.columns import Gridded
from asvgp.estimators.ingest import counted_from
from asvgp.estimators.persistence import load, save
from asvgp.estimators.regressor import GPRegressor
from asvgp.runtime.interrupts import patient_interrupts
from asvgp.runtime.progress import Progress
from asvgp.saving.leftovers import remove_leftovers
from asvgp.saving.model_file import ModelFileError, read
from asvgp.sources.blocks import in_blocks
from asvgp.sources.roles import BESIDE
from asvgp.sources.source import Chunk, Source, Stream

EVERY = 10.0  # seconds of the pass that a second Ctrl-C may lose; the first loses nothing
TO_DISK = 60.0  # seconds of the pass that are lost where the program is killed
SHARE = 0.02  # of the time of a pass goes to writing checkpoints, at most
WAIT = "Ctrl-C: ending with the rows that are being read; again to end at once"


class Checkpoint:
    """The model of the rows that were summed so far, in memory and on the disk.

    Parameters
    ----------
    output : str
        Path of the model that the fit will write.
    source : Source
        The data.
    """

    def __init__(self, output: str, source: Source):
        self.path, self.source = path_of(output), source
        self.model: Any = None
        self.written, self.seconds = 0, 0.0
        self._due = time.perf_counter() + TO_DISK

    def take(self, model: Any) -> None:
        """Remember a model, and write it if the last time was long enough ago."""
        self.model = model
        if time.perf_counter() > self._due:
            self.write()

    def write(self) -> int:
        """Write the model; return the number of rows in it."""
        begin, model = time.perf_counter(), self.model
        shown, model.progress = model.progress, "auto"
        try:
            save(model, self.path, checkpoint={"data": _facts(self.source)})
        finally:
            model.progress = shown
        end = time.perf_counter()
        self.written, self.seconds = self.written + 1, self.seconds + end - begin
        self._due = end + max(TO_DISK, (end - begin) / SHARE)
        return model.stats_.count + model.stats_.missing

    def remove(self) -> None:
        """Delete the file, now that there is the model."""
        path = Path(self.path)
        path.unlink(missing_ok=True)
        remove_leftovers(path, time.time())


def watched(source: Source, checkpoint: Checkpoint, fresh) -> Source:
    """Return a source whose rows so far are in the checkpoint while it is read."""
    new = copy(source)
    new.watch = lambda stream: CheckpointStream(stream, checkpoint, fresh)
    return new


class CheckpointStream(Stream):
    """A stream that keeps a model of what it has summed, every few seconds and on Ctrl-C."""

    def __init__(self, inner: Stream, checkpoint: Checkpoint, fresh):
        self.inner, self.checkpoint, self.fresh = inner, checkpoint, fresh
        self.head, self.whole = inner.head, inner.whole

    def blocks(self) -> Iterator[Chunk]:
        """Return all rows; the stream keeps none of them."""
        self.head = Chunk(())
        return self.inner.blocks()

    def statistics(self, reader: Any, progress=None) -> Any:
        """Compute the statistics of all rows, in portions of several seconds."""
        total, blocks, start = None, self.blocks(), 0
        with patient_interrupts(WAIT) as asked:
            for first in blocks:
                begin = time.perf_counter()

                def portion(first=first, begin=begin):
                    for block in chain([first], blocks):
                        yield block  # and it has been summed when the next is wanted
                        if asked.is_set() or time.perf_counter() - begin > EVERY:
                            return

                part = reader.statistics(portion(), progress, start)
                total = part if total is None else total + part
                start = total.count + total.missing
                if reader.data.summed:  # or nothing can go on from them
                    model: Any = clone(self.fresh)
                    model._replace(reader.data.with_statistics(total))
                    self.checkpoint.take(model)
                if asked.is_set():
                    raise KeyboardInterrupt
        return total


def path_of(output: str) -> str:
    """Return the path of the checkpoint of a model."""
    return f"{output}.partial"


def resumed(output: str, fresh: GPRegressor, source: Source) -> GPRegressor:
    """Return the model of a checkpoint, if it is of these data and settings."""
    path = path_of(output)
    if not os.path.exists(path):
        raise ValueError(
            f"There is no {path} to resume from: an interrupted fit leaves one once it has summed "
            "rows. Leave out --resume to start again."
        )
    model, _ = read(path)
    gp = load(path)
    if not isinstance(model, dict) or "checkpoint" not in model or type(gp) is not type(fresh):
        raise ModelFileError(f"{path} is a model, but not a checkpoint of a fit.")
    assert isinstance(gp, GPRegressor)
    mine, theirs = (
        {name: repr(value) for name, value in each.get_params(deep=False).items()}
        for each in (fresh, gp)
    )
    differing = [name for name in mine if name != "progress" and mine[name] != theirs[name]]
    if model["checkpoint"] != {"data": _facts(source)}:
        differing.append("data")
    if differing:
        raise ValueError(
            f"{path} is of another fit: {', '.join(differing)} differ. Give the same command as "
            "before with --resume, or leave it out to start again."
        )
    gp.progress = fresh.progress
    return gp


def _facts(source: Source) -> list[str]:
    """Return the roles of the columns and the state of the data, to compare."""
    return [repr(source.roles), repr(source.fingerprint())]


def added(gp, source: Source, done: int = 0, checkpoint: Checkpoint | None = None) -> None:
    """Add the rows of a source after the first ``done``; blocks stay added after an error."""
    names = getattr(gp, "feature_names_in_", None)
    source = source.prepared(gp.kernel, None if names is None else list(names))
    shown, gp.progress = gp.progress, False  # of every block by itself
    try:
        with Progress(shown) as progress:
            advance = progress.passing(source.rows)
            advance(done)
            for block in in_blocks(_after(source.chunks(), done)):
                beside = {name: getattr(block, name) for name in BESIDE}
                with counted_from(done):
                    gp.partial_fit(*tuple(block)[:5], **beside)
                advance(block.rows)
                done += block.rows
                if checkpoint is not None:
                    checkpoint.take(gp)
    finally:
        gp.progress = shown
    if done == 0:
        raise ValueError("There are no data: 0 rows.")


def _after(chunks: Iterator[Chunk], rows: int) -> Iterator[Any]:
    """Return the rows after the first so many; those of grids are written out."""
    for chunk in chunks:
        if isinstance(chunk.X, Gridded):
            flat = (part if np.ndim(part) == 0 else np.ravel(part) for part in tuple(chunk)[1:])
            chunk = Chunk(chunk.X.expanded(), *flat)
        if rows < chunk.rows:
            yield chunk.part(slice(rows, None)) if rows else chunk
        rows = max(rows - chunk.rows, 0)
