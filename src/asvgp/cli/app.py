"""The group of commands, the exit codes that errors become, and completion by the tab key."""

from __future__ import annotations

import signal
import sys
from importlib import import_module
from typing import Any

import click

from asvgp import __version__
from asvgp.cli.session import Session, drop_output, examples, in_one_line
from asvgp.runtime.interrupts import plain_interrupts

# By name, with the file of each; in the order in which they are needed.
COMMANDS = {
    "fit": "asvgp.cli.fit",
    "predict": "asvgp.cli.predict",
    "forecast": "asvgp.cli.forecast",
    "update": "asvgp.cli.update",
    "merge": "asvgp.cli.merge",
    "info": "asvgp.cli.info",
    "plot": "asvgp.cli.plot",
    "report": "asvgp.cli.report",
    "demo": "asvgp.cli.demo",
    "completion": "asvgp.cli.app",
}
FAILED, INTERRUPTED, CLOSED = 1, 130, 141  # the last two as a shell would say it

# What the library raises where data, models or the machine are not as they should be.
_EXPECTED = (ValueError, TypeError, OSError, ImportError, MemoryError, RuntimeError)


class App(click.Group):
    """Commands that are imported when they are called, and errors in plain sentences."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return one command."""
        home = COMMANDS.get(cmd_name)
        return None if home is None else getattr(import_module(home), cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; exit code 1 for data and models, 2 for usage, 130 for Ctrl-C."""
        session = ctx.obj = Session()
        try:
            with session.plain_warnings(), plain_interrupts():
                return super().invoke(ctx)
        except (click.exceptions.Exit, click.ClickException, click.Abort):
            raise
        except KeyboardInterrupt as stop:
            why = f": {in_one_line(stop)}" if stop.args else ""
            click.echo(f"interrupted{why}", err=True)
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:  # whoever read the output has had enough
            drop_output()
            ctx.exit(CLOSED)
        except Exception as error:
            if session.debug:
                raise
            text = in_one_line(error)
            if not isinstance(error, _EXPECTED):
                text = f"unexpected {type(error).__name__}: {text}. --debug shows where"
            click.echo(f"error: {text}", err=True)
            ctx.exit(FAILED)


def end_on_termination() -> None:
    """Turn a request to end (SIGTERM) into an exit, which leaves no half-written file."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))


@click.group(
    cls=App,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "asvgp fit power.parquet --target power --input time -o power.asvgp",
        "asvgp predict power.asvgp --at 2024-03-01:2024-03-08:1h -o week.csv",
        "asvgp plot power.asvgp power.parquet -o power.png",
    ),
)
@click.version_option(__version__, prog_name="asvgp")
def app() -> None:
    """Gaussian processes on millions of observations, by B-splines.

    Data are read in one pass from Parquet, CSV, Feather, NumPy, NetCDF and Zarr files, of any
    size; the model is one file, whose size follows from its basis functions, not from the data.

    Exit codes: 0 success, 1 error in data or model, 2 wrong usage, 130 after Ctrl-C.
    """


@click.command(
    short_help="The script for completion by the tab key.",
    epilog=examples(
        'eval "$(asvgp completion bash)"    # in ~/.bashrc',
        'eval "$(asvgp completion zsh)"     # in ~/.zshrc',
        "asvgp completion fish > ~/.config/fish/completions/asvgp.fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that lets SHELL complete asvgp's commands."""
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    # The class's own source() first asks the installed bash for its version.
    click.echo(ShellComplete.source(kind(app, {}, "asvgp", "_ASVGP_COMPLETE")))
