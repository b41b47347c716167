"""A method on a split: in a process of its own, in its own environment, with a time limit.

So peers whose versions clash can be compared, memory is each method's own, a crash or a
method that takes forever costs one row, and we are measured the same way as everybody else.
Times begin after the imports and include everything the method compiles.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness.environments import ROOT, Absent, interpreter
from experiments.harness.scores import Array, scores
from experiments.harness.splits import Split

METHODS = ROOT / "experiments" / "methods"
NO_STD = "standard deviations are missing, or not positive"


@dataclass(frozen=True)
class Method:
    """A way to regress.

    Attributes
    ----------
    label : str
        Its name in tables.
    script : str
        File under ``experiments/methods``.
    environment : str
        Where it runs: "asvgp" for the project's own, else a name of `environments`.
    settings : dict
        What the script's ``fit`` gets; numbers, words and lists only.
    """

    label: str
    script: str
    environment: str = "asvgp"
    settings: dict[str, Any] = field(default_factory=dict)

    def set(self, **settings: Any) -> Method:
        """The same with other settings."""
        return Method(self.label, self.script, self.environment, self.settings | settings)


def run(
    method: Method,
    split: Split,
    limit: float,
    keep: bool = False,
    variables: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Train, predict, score: a row of a results file.

    Parameters
    ----------
    method : Method
    split : Split
    limit : float
        Seconds after which the method is stopped.
    keep : bool
        Whether the row has the predictions too ("mean" and "std"), for pictures; to be taken
        out before it is written.
    variables : dict, optional
        More environment variables of the process.

    Returns
    -------
    dict
        "method", "dataset", "n", "seed", "settings", then either "reason" (why there is no
        result, in words) or the scores, "fit_seconds", "predict_seconds", "memory_mib"
        (beyond the data) and the method's own "info".
    """
    ((mean, std, row),) = answers(method, [split], limit, variables)
    if "reason" in row:
        return row
    if std is not None and not (std.shape == mean.shape and np.all(std > 0.0)):
        return _named(method, split) | {"reason": NO_STD}
    row |= scores(split.y_test, mean, std)
    return row | ({"mean": mean, "std": std} if keep else {})


def answers(
    method: Method,
    splits: Sequence[Split],
    limit: float,
    variables: dict[str, str] | None = None,
    warm: bool = False,
) -> list[tuple[Array, Array | None, dict[str, Any]]]:
    """Train and predict on splits one after the other, in one process; nothing is scored yet.

    Parameters
    ----------
    method : Method
    splits : sequence of Split
    limit : float
        Seconds for all of them; answers given before are kept.
    variables : dict, optional
        More environment variables of the process.
    warm : bool
        Whether the method is run on a few rows of the first split beforehand, so that no
        split's time has what is compiled; the report has "warm_seconds".

    Returns
    -------
    list of (mean, spread, row)
        For each split the means, the standard deviations or quantiles (None where the method
        has neither), and a row as that of `run`, without scores.
    """
    rows = [_named(method, split) for split in splits]
    nothing = np.empty(0)
    try:
        python = interpreter(method.environment)
    except Absent as error:
        return [(nothing, None, row | {"reason": str(error)}) for row in rows]
    out: list[tuple[Array, Array | None, dict[str, Any]]] = []
    with tempfile.TemporaryDirectory() as folder:
        job, target = Path(folder, "job.npz"), Path(folder, "answers")
        target.mkdir()
        arrays: dict[str, Any] = {"parts": len(splits), "warm": warm}
        for i, each in enumerate(splits):
            arrays |= {f"x{i}": each.x, f"y{i}": each.y, f"new{i}": each.x_test}
        np.savez(job, settings=json.dumps(method.settings), **arrays)
        command = [python, str(METHODS / method.script), str(job), str(target)]
        reason = _wait(command, limit, variables or {})
        for i, (row, split) in enumerate(zip(rows, splits, strict=True)):
            answer = target / f"{i}.npz"
            if not answer.exists():
                out.append(
                    (nothing, None, row | {"reason": reason or "it ended without an answer"})
                )
                continue
            with np.load(answer, allow_pickle=False) as found:
                row |= json.loads(str(found["report"]))
                if "reason" in row:
                    out.append((nothing, None, row))
                    continue
                mean, spread = found["mean"], found["spread"]
            if not np.all(np.isfinite(mean)) or len(mean) != len(split.y_test):
                row = _named(method, split) | {"reason": "predictions are not finite"}
            out.append((mean, spread if len(spread) else None, row))
    return out


def _named(method: Method, split: Split) -> dict[str, Any]:
    """What a row is about."""
    return {
        "method": method.label,
        "dataset": split.dataset,
        "n": split.size,
        "seed": split.seed,
        "settings": method.settings,
    }


def _wait(command: list[str], limit: float, variables: dict[str, str]) -> str | None:
    """Run a command; why it failed, or None. Its children are stopped with it."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    environment |= variables
    child = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
        start_new_session=True,
    )
    try:
        output, _ = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        _kill(child)
        return f"more than {limit:.0f} s"
    except BaseException:  # Ctrl-C as well: nothing is left running
        _kill(child)
        raise
    if child.returncode == 0:
        return None
    if child.returncode == -signal.SIGKILL:
        return "killed: out of memory"
    lines = [line for line in output.strip().splitlines() if line.strip()]
    print("\n".join(lines[-15:]), file=sys.stderr)
    return lines[-1][:300] if lines else f"exit code {child.returncode}"


def _kill(child: subprocess.Popen[str]) -> None:
    """End a process and its children."""
    with suppress(ProcessLookupError):  # it may have ended just now
        os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
