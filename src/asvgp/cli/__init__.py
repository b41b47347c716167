"""The command ``asvgp``: ``pip install 'asvgp[cli]'``.

`main` is the console script. `app` holds the group of commands and turns errors into exit codes;
every command is a file, imported when it is called, and imports the library inside its function,
so that ``--help`` is quick. What commands print goes through `session`: answers to standard
output, everything else to standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, and leave with its exit code."""
    try:
        import click  # noqa: F401
    except ImportError:
        print("asvgp: the command line needs click: pip install 'asvgp[cli]'", file=sys.stderr)
        sys.exit(2)
    from asvgp.cli.app import app, end_on_termination

    end_on_termination()
    app.main(args=arguments, prog_name="asvgp")
