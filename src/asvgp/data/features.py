"""Number and names of the columns of X, kept and compared by scikit-learn's rules."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from asvgp.data.columns import Columns, Gridded, Table

_SHOWN = 5  # names in a message


@dataclass(frozen=True)
class Features:
    """Columns of the first X, as an estimator's ``n_features_in_`` and ``feature_names_in_``.

    Examples
    --------
    >>> import numpy as np
    >>> features = Features.of(Table(np.zeros((5, 2))))
    >>> features.check(Table(np.zeros((5, 3))))
    Traceback (most recent call last):
    ValueError: X has 3 features, but GPRegressor is expecting 2 features as input.
    """

    count: int
    names: tuple[str, ...] | None = None  # None where columns have none, or others than text
    owner: str = "GPRegressor"  # the estimator's class in messages

    @classmethod
    def of(cls, table: Table) -> Features:
        """Return the number and the names of a table's columns."""
        return cls(table.width, _names(table))

    def check(self, table: Table) -> None:
        """Check that another table has as many columns, of the same names.

        Names on one side only are worth a warning, as in scikit-learn; rows of a source, axes of
        a grid and a single column given as a vector need none.
        """
        if table.width != self.count:
            shape = "Reshape your data to (n, columns): " if len(table.shape) == 1 else ""
            raise ValueError(
                f"{shape}X has {table.width} features, but {self.owner} is expecting {self.count} "
                "features as input."
            )
        names = _names(table)
        if names is not None and self.names is not None:
            if names != self.names:
                raise ValueError(_difference(self.names, names))
            return
        of_source = isinstance(table.values, Columns | Gridded)
        if names == self.names or of_source or len(table.shape) == 1:
            return
        if names is None:
            message = f"X does not have valid feature names, but {self.owner} was fitted with "
        else:
            message = f"X has feature names, but {self.owner} was fitted without "
        warnings.warn(message + "feature names", UserWarning, stacklevel=5)


def _names(table: Table) -> tuple[str, ...] | None:
    """Return the names of columns, where all of them are text."""
    if not table.frame:
        return None if table.names is None else tuple(table.names)
    given: list[Any] = list(table.values.columns)
    text = [isinstance(name, str) for name in given]
    if any(text) and not all(text):
        kinds = sorted({type(name).__qualname__ for name in given})
        raise TypeError(
            "Feature names are only supported if all input features have string names, but your "
            f"input has {kinds} as feature name / column name types. Convert them all to strings, "
            "for example by X.columns = X.columns.astype(str)."
        )
    return tuple(map(str, given)) if given and all(text) else None


def _difference(known: tuple[str, ...], names: tuple[str, ...]) -> str:
    """Say how the names of columns differ from those of the first X."""
    message = "The feature names should match those that were passed during fit.\n"
    unseen, missing = sorted({*names} - {*known}), sorted({*known} - {*names})
    for title, some in (
        ("Feature names unseen at fit time:\n", unseen),
        ("Feature names seen at fit time, yet now missing:\n", missing),
    ):
        if some:
            shown = [f"- {name}\n" for name in some[:_SHOWN]]
            message += title + "".join(shown) + ("- ...\n" if len(some) > _SHOWN else "")
    if not unseen and not missing:
        message += "Feature names must be in the same order as they were in fit.\n"
    return message
