"""Kernels written as text, for command lines and settings: read, never executed."""

from __future__ import annotations

import ast
import re
from difflib import get_close_matches
from typing import Any

from asvgp.kernels import EFFECTS, PROCESSES, Matern
from asvgp.kernels.base import Kernel
from asvgp.kernels.effects import Effect

PARTS = {part.__name__.lower(): part for part in (*PROCESSES, Matern, *EFFECTS)}
# A number with a unit is a duration; what is quoted is left alone.
_QUOTED_OR_DURATION = re.compile(r"""("[^"]*"|'[^']*')|(?<![\w.])(\d+\.?\d*\s?(?!e[-+\d])[a-z]+)""")


def parse_kernel(text: str) -> Kernel:
    """Read the kernel that a text describes.

    Names of kernels in any case, with or without arguments; durations as ``1d`` or ``36 hours``;
    columns by name, quoted or not; ``+`` and ``*``.

    Examples
    --------
    >>> parse_kernel("matern32 + sho(period=1d) + constant")
    Matern32(lengthscale=1.0, variance=1.0) + SHO(period='1 day', quality=1.0, variance=1.0) \
+ Constant()
    >>> parse_kernel("matern32(5, dim=lon) * matern32(5, dim=lat) + linear(height)")
    Matern32(lengthscale=5.0, variance=1.0, dim='lon') \
* Matern32(lengthscale=5.0, variance=1.0, dim='lat') + Linear('height')
    """
    quoted = _QUOTED_OR_DURATION.sub(lambda m: m[1] or f"'{m[2]}'", text.strip())
    try:
        tree = ast.parse(quoted, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ValueError(
            f"The kernel {text!r} cannot be read. Write it as 'matern32 + sho(period=1d)' or "
            "'matern32(dim=lon) * matern32(dim=lat) + constant'."
        ) from None
    try:
        kernel = _read(tree, text)
    except RecursionError:
        raise ValueError(f"The kernel {text!r:.60} is nested too deeply.") from None
    if not isinstance(kernel, Kernel) or not kernel.components:
        raise ValueError(f"{text!r} has no process in it: add one, for example matern32 + {text}.")
    return kernel


def _read(node: ast.expr, text: str) -> Kernel | Effect:
    """Read one node of the expression."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mult):
        left, right = _read(node.left, text), _read(node.right, text)
        sign = "+" if isinstance(node.op, ast.Add) else "*"
        try:
            return left + right if sign == "+" else left * right  # pyright: ignore[reportOperatorIssue]
        except TypeError:
            raise ValueError(f"In {text!r}: {left!r} {sign} {right!r} has no meaning.") from None
    if isinstance(node, ast.Name):
        node = ast.Call(node, [], [])
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        part = _part(node.func.id, text)
        values = [_value(argument, text) for argument in node.args]
        named = {word.arg: _value(word.value, text) for word in node.keywords if word.arg}
        if len(named) < len(node.keywords):
            raise ValueError(f"In {text!r}: ** has no meaning here.")
        try:
            return part(*values, **named)
        except (TypeError, ValueError) as error:
            shown = ast.unparse(node)
            raise ValueError(f"In the kernel {text!r}, {shown}: {error}") from None
    raise ValueError(
        f"In the kernel {text!r}, {ast.unparse(node)!r} is no kernel. Known are "
        f"{', '.join(PARTS)}, joined by + and *."
    )


def _part(name: str, text: str) -> Any:
    """Look a kernel or an effect up by its name."""
    found = PARTS.get(name.lower())
    if found is None:
        near = get_close_matches(name.lower(), PARTS, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ValueError(
            f"In {text!r}: there is no kernel {name!r}.{hint} Known are {', '.join(PARTS)}."
        )
    return found


def _value(node: ast.expr, text: str):
    """Read an argument: a number, a string, or a bare word for a column."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Tuple):
        return tuple(_value(each, text) for each in node.elts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):  # nu=3/2
        return _value(node.left, text) / _value(node.right, text)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise ValueError(
            f"In {text!r}: {ast.unparse(node)!r} is no number, duration or name."
        ) from None
