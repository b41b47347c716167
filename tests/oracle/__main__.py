"""Run the differential oracle: ``python -m tests.oracle 0 10000``."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.oracle.compare import check, reproducer


def main() -> int:
    """Compare models of a range of seeds with their dense twins and print what disagrees."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--slow", type=float, default=5.0, help="seconds worth a line")
    given = parser.parse_args()
    counts, refusals, values = Counter(), Counter(), 0
    for seed in range(given.first, given.last):
        begin = time.process_time()
        out = check(seed)
        seconds = time.process_time() - begin
        kind = "disagree" if out.wrong else "refused" if out.refused else "agree"
        counts[kind] += 1
        values += out.checked
        counts["tight"] += out.gap < 1e-2
        counts["without digits of derivatives, and told so"] += out.told > 0
        if out.refused:
            refusals[out.refused[:60]] += 1
        if out.wrong:
            print(out.report(), "\n# the smallest that is wrong in this way:", flush=True)
            print(reproducer(out), "\n", flush=True)
        if seconds > given.slow:
            print(f"# seed {seed} took {seconds:.1f} s\n{out.program}\n", flush=True)
        if (seed + 1 - given.first) % 500 == 0:
            print(f"# {seed + 1 - given.first} models: {dict(counts)}", flush=True)
    print(f"# {given.last - given.first} models, {values} values: {dict(counts)}")
    for text, count in refusals.most_common():
        print(f"#   refused {count}: {text}")
    return int(counts["disagree"] > 0)


if __name__ == "__main__":
    sys.exit(main())
