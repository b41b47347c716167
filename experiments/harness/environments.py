"""Python environments of the peers, made by `make peers` under ``.venvs``.

Each is a requirements file in ``experiments/environments``; peers that can live together
share one.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".venvs"


class Absent(Exception):
    """What a method needs is not there; the text says how to get it."""


def interpreter(name: str) -> str:
    """The Python of an environment, or `Absent`."""
    if name == "asvgp":
        return sys.executable
    if name == "r":
        if shutil.which("Rscript") is None:
            raise Absent("R is not installed: apt-get install r-base-core r-cran-mgcv")
        return sys.executable
    python = HOME / name / "bin" / "python"
    if not python.exists():
        raise Absent(f"not installed: make peer-{name}")
    return str(python)
