"""mgcv: `bam` with ``discrete=TRUE`` and fREML, in R; numbers travel as raw doubles.

As its help pages ``bam``, ``choose.k`` and ``te`` (cran.r-project.org/package=mgcv): k larger than
what the data need, cubic regression splines for many rows, a tensor product for several inputs.
The R process, mgcv.R beside this file, is started with the imports and answers line by line.

Settings: "k" (functions along each input, a list), "basis" ("cr", "ps", "ad"; default "cr"),
"additive" (a smooth for each input, summed).
"""

import json
import subprocess
import tempfile
from pathlib import Path

import child
import numpy as np

SCRIPT = Path(__file__).with_name("mgcv.R")


class R:
    """A process that is told a line and answers one."""

    def __init__(self, folder):
        command = ["Rscript", "--vanilla", str(SCRIPT), folder]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=pipe)
        child.HELPERS.append(self.process.pid)
        self.ask("hello")

    def ask(self, line):
        assert self.process.stdin
        assert self.process.stdout
        assert self.process.stderr
        if self.process.poll() is None:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            said = [line for line in self.process.stderr.read().splitlines() if line.strip()]
            raise RuntimeError(" ".join(said[-2:]) or "R ended without an answer")
        return json.loads(answer)


def write(path, values):
    np.asarray(values, dtype="<f8").ravel(order="F").tofile(path)


def main():
    with tempfile.TemporaryDirectory() as folder:
        r = R(folder)

        def fit(x, y, settings):
            write(Path(folder, "x"), x)
            write(Path(folder, "y"), y)
            k = [min(k, len(y) // 4) for k in settings["k"]]
            form = "product"
            if settings.get("additive"):  # no more functions than values
                form, k = (
                    "sum",
                    [min(k, len(np.unique(one))) for k, one in zip(k, x.T, strict=True)],
                )
            basis = settings.get("basis", "cr")
            return {"info": r.ask(f"fit {','.join(map(str, k))} {basis} {form}")}

        def predict(model, x):
            write(Path(folder, "test"), x)
            found = r.ask("predict")
            model["memory_mib"] = found["memory_mib"]
            mean, std = np.fromfile(Path(folder, "answer"), dtype="<f8").reshape(2, -1)
            return mean, std

        child.main(fit, predict)


if __name__ == "__main__":
    main()
