"""Campaigns: what one case does with a random generator, and what counts as a failure."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np

CLEAR = (ValueError, TypeError, OSError, ImportError)  # errors that say what is wrong


class Failure(Exception):
    """A case that shows a defect."""


class Campaign(ABC):
    """Random cases of one kind, made in a folder of their own."""

    name: str

    def __init__(self, folder: Path):
        self.folder = folder
        self.setup()

    def setup(self) -> None:  # noqa: B027  (most need nothing)
        """Make what all cases share."""

    def close(self) -> None:  # noqa: B027
        """End what was begun."""

    @abstractmethod
    def case(self, rng: np.random.Generator) -> str:
        """Try one case and say how it went in a word; raise `Failure` for a defect."""

    def run(self, seed: int) -> str:
        """Try the case of a seed."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.case(np.random.default_rng([seed, 31]))


def refused(error: BaseException) -> str:
    """Return "refused" for an error with a sentence, and raise `Failure` for any other."""
    clear = isinstance(error, CLEAR) and not isinstance(error, np.linalg.LinAlgError)
    if clear and len(str(error).split()) >= 3:
        return "refused"
    raise Failure(f"{type(error).__name__}: {error}") from error


def check_numbers(*arrays) -> None:
    """Raise `Failure` if a number is not finite."""
    for array in arrays:
        if not np.all(np.isfinite(array)):
            raise Failure("an answer is not finite")
