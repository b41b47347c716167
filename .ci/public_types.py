"""Say how much of the public interface has known types, by pyright; fail below 95 %.

pyright --verifytypes counts every module of the package, internal ones included. Counted here are
the classes and functions that are imported from `asvgp` and `asvgp.plot`, with their public members
and those of their base classes.
"""

import inspect
import json
import re
import subprocess
import sys

import asvgp

LEAST = 0.95


def homes() -> set[str]:
    """Where the public names are defined, base classes within the package included."""
    found = [getattr(asvgp, name) for name in asvgp.__all__ if name != "plot"]
    found += [getattr(asvgp.plot, name) for name in asvgp.plot.__all__]
    known = [base for item in found for base in (item.__mro__ if inspect.isclass(item) else [item])]
    return {f"{x.__module__}.{x.__name__}" for x in known if x.__module__.startswith("asvgp")}


def main() -> int:
    """Print the share and what lacks types."""
    asked = ["pyright", "--verifytypes", "asvgp", "--ignoreexternal", "--outputjson"]
    said = json.loads(subprocess.run(asked, capture_output=True, text=True).stdout)
    places = homes()
    symbols = [
        symbol
        for symbol in said["typeCompleteness"]["symbols"]
        if symbol["isExported"]
        and any(symbol["name"] == home or symbol["name"].startswith(f"{home}.") for home in places)
        and not re.search(r"\._[a-z]", symbol["name"])
    ]
    lacking = [symbol["name"] for symbol in symbols if not symbol["isTypeKnown"]]
    share = 1.0 - len(lacking) / len(symbols)
    whole = said["typeCompleteness"]["completenessScore"]
    print(f"{share:.1%} of {len(symbols)} public symbols have known types ({whole:.1%} of all)")
    if share < LEAST:
        print("\n".join(lacking), file=sys.stderr)
    return int(share < LEAST)


if __name__ == "__main__":
    sys.exit(main())
