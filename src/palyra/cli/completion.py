# SPDX-License-Identifier: Apache-2.0
"""``palyra completion``: the script that teaches a shell to complete our commands."""

from __future__ import annotations

import click

from palyra.cli.frame import Command
from palyra.cli.output import Reply

_COMMENTS = {
    "bash": '# Add to ~/.bashrc: eval "$(palyra completion bash)"',
    "zsh": '# Add to ~/.zshrc: eval "$(palyra completion zsh)"',
    "fish": "# Save as ~/.config/fish/completions/palyra.fish",
}


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(sorted(_COMMENTS)))
@click.pass_context
def command(ctx: click.Context, *, shell: str) -> Reply:
    """Print the completion script of SHELL."""
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    completion = kind(ctx.find_root().command, {}, "palyra", "_PALYRA_COMPLETE")
    # Not the class's own source(): for bash it would start a process to ask for its version.
    script = f"{_COMMENTS[shell]}\n{ShellComplete.source(completion).strip()}"
    return Reply(document={"shell": shell, "script": script}, text=(script,))
