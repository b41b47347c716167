"""``asvgp completion``: commands, options, files and columns by the tab key."""

from __future__ import annotations

import click

from asvgp.cli.session import examples


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

    from asvgp.cli.app import app

    kind = get_completion_class(shell)
    assert kind is not None
    # The class's own source() first asks the installed bash for its version.
    click.echo(ShellComplete.source(kind(app, {}, "asvgp", "_ASVGP_COMPLETE")))
