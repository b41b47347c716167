"""The picture of `docs/five_minutes.md`, by the code of that page.

python docs/figures/five_minutes.py
"""

import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

DOCS = Path(__file__).parent.parent


def main():
    page = (DOCS / "five_minutes.md").read_text(encoding="utf-8")
    namespace = {}
    for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        exec(block, namespace)
        if "ax" in namespace:
            break
    figure = namespace["ax"].figure
    figure.set_size_inches(9.0, 3.6)
    figure.savefig(DOCS / "images" / "five_minutes.png", dpi=110, bbox_inches="tight")


if __name__ == "__main__":
    main()
