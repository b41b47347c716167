"""Pictures of `docs/plots.md`, made by the code of the page itself.

python docs/figures/plots.py
"""

import os
import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

DOCS = Path(__file__).parent.parent


def main():
    page = (DOCS / "plots.md").read_text(encoding="utf-8")
    os.chdir(DOCS / "images")
    namespace = {}
    for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        exec(block, namespace)


if __name__ == "__main__":
    main()
