"""Run campaigns against the library: ``python -m tests.soak --minutes 120 --seed 0``.

Campaigns take turns until the time is over, or until each has had so many cases. Every failure is
printed with the command that repeats it. Memory is sampled without calling the collector: what
the process has, and what of it is allocated.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.soak.campaign import Campaign, Failure
from tests.soak.files import Crafted, Csv, Damaged, NetCDF, Npz, Parquet
from tests.soak.models import Models, Settings, Sources
from tests.soak.processes import Forks, Interrupts, Kills, Workers

CAMPAIGNS: dict[str, type[Campaign]] = {
    kind.name: kind
    for kind in (
        *(Models, Sources, Settings, Damaged, Crafted, Csv, Parquet, NetCDF, Npz),
        *(Interrupts, Kills, Forks, Workers),
    )
}
ALONE = ("forks", "workers")  # their threads and processes would slow all others down
TURN = 20  # cases of a campaign at a time
GROWTH = 1.3  # of memory, from a third of the run to its end, is a leak


def memory() -> float:
    """Return the resident memory of this process in MiB, or zero where it is not known."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * 4096 / 2**20


class _Malloc(ctypes.Structure):
    """What ``mallinfo2`` of glibc returns."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def allocated() -> float:
    """Return what is allocated in MiB, less what Python and threads keep in places of their own.

    The rest of `memory` is code, tables of libraries and what was freed but not given back. Zero
    where the system's library does not count (glibc does from 2.33 on).
    """
    try:
        count = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError, TypeError):
        return 0.0
    count.restype = _Malloc
    numbers = count()
    return (numbers.uordblks + numbers.hblkhd) / 2**20


def soak(names, minutes: float, seed: int, cases: int | None, show=print) -> dict[str, Counter]:
    """Run campaigns in turn and return how often each ended in which way."""
    end = time.monotonic() + 60.0 * minutes
    counts: dict[str, Counter] = {name: Counter() for name in names}
    samples: list[float] = []
    within: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        open_now: dict[str, Campaign] = {}
        try:
            while time.monotonic() < end:
                waiting = [n for n in names if cases is None or counts[n].total() < cases]
                if not waiting:
                    break
                for name in waiting:
                    if name not in open_now:
                        (place := Path(folder) / name).mkdir()
                        open_now[name] = CAMPAIGNS[name](place)
                    left = TURN if cases is None else min(TURN, cases - counts[name].total())
                    for _ in range(left):
                        if time.monotonic() >= end:
                            break
                        _one(open_now[name], seed + counts[name].total(), counts[name], show)
                samples.append(memory())
                within.append(allocated())
        finally:
            for campaign in open_now.values():
                campaign.close()
    _check_memory(samples, within, counts, show)
    return counts


def _one(campaign: Campaign, seed: int, counts: Counter, show) -> None:
    """Try one case and count how it ended."""
    again = f"python -m tests.soak --campaign {campaign.name} --seed {seed} --cases 1"
    try:
        counts[campaign.run(seed)] += 1
    except Failure as failure:
        counts["FAILED"] += 1
        show(f"{again}\n    {failure}", flush=True)
    except Exception as error:
        counts["FAILED"] += 1
        show(f"{again}\n    {type(error).__name__}: {error}", flush=True)


def _check_memory(samples: list[float], within: list[float], counts, show) -> None:
    """Compare the memory of the last third of the rounds with that of the third before it.

    ``within`` is what was allocated of it.
    """
    third = len(samples) // 3
    if third < 3 or not samples[0]:
        return
    middle, last = max(samples[third : 2 * third]), max(samples[2 * third :])
    show(f"memory: {samples[0]:.0f} MiB at first, at most {middle:.0f}, then {last:.0f}")
    parts = within[0], max(within[third : 2 * third]), max(within[2 * third :])
    show("of it allocated: {:.0f} MiB at first, at most {:.0f}, then {:.0f}".format(*parts))
    if last > GROWTH * middle:
        counts["memory"] = Counter({"FAILED": 1})


def main(arguments=None) -> int:
    """Run the campaigns that were asked for and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--campaign", action="append", choices=list(CAMPAIGNS))
    parser.add_argument("--cases", type=int, help="at most so many of each campaign")
    given = parser.parse_args(arguments)
    names = given.campaign or [name for name in CAMPAIGNS if name not in ALONE]
    counts = soak(names, given.minutes, given.seed, given.cases)
    for name, ends in counts.items():
        told = ", ".join(f"{word} {count}" for word, count in sorted(ends.items()))
        print(f"{name:12} {ends.total():7} cases   {told}")
    return int(any(ends["FAILED"] for ends in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
