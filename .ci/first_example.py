"""Run the first Python block of a page, as a new user would paste it."""

import re
import sys
from pathlib import Path

page = Path(sys.argv[1])
found = re.search(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
if found is None:
    sys.exit(f"{page} has no Python block")
exec(compile(found[1], str(page), "exec"), {"__name__": "__main__"})
