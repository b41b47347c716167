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
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness.environments import ROOT, Absent, interpreter
from experiments.harness.scores import scores
from experiments.harness.splits import Split

METHODS = ROOT / "experiments" / "methods"
LATE = "more than"


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
    row: dict[str, Any] = {
        "method": method.label,
        "dataset": split.dataset,
        "n": split.size,
        "seed": split.seed,
        "settings": method.settings,
    }
    try:
        python = interpreter(method.environment)
    except Absent as error:
        return row | {"reason": str(error)}
    with tempfile.TemporaryDirectory() as folder:
        job, answer = Path(folder, "job.npz"), Path(folder, "answer.npz")
        settings = json.dumps(method.settings)
        np.savez(job, x=split.x, y=split.y, x_test=split.x_test, settings=settings)
        command = [python, str(METHODS / method.script), str(job), str(answer)]
        reason = _wait(command, limit, variables or {})
        if reason is not None and not answer.exists():
            return row | {"reason": reason}
        if reason is not None and reason.startswith(LATE):  # the answer may be half written
            return row | {"reason": reason}
        if not answer.exists():
            return row | {"reason": "it ended without an answer"}
        with np.load(answer, allow_pickle=False) as found:
            report = json.loads(str(found["report"]))
            if "reason" in report:
                return row | report
            mean, std = found["mean"], found["std"]
    if not np.all(np.isfinite(mean)) or len(mean) != len(split.y_test):
        return row | {"reason": "predictions are not finite"}
    known = std if len(std) else None
    if known is not None and not (len(std) == len(mean) and np.all(std > 0.0)):
        return row | {"reason": "standard deviations are missing, or not positive"}
    row |= scores(split.y_test, mean, known) | report
    return row | ({"mean": mean, "std": known} if keep else {})


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
        return f"{LATE} {limit:.0f} s"
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
