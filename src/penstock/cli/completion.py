"""`penstock completion SHELL`: the script that completes commands, flags and names in a shell."""

from typing import Annotated, Literal

from cyclopts import Parameter

from penstock.cli.noun import InSession, noun

__all__ = ["app"]

app = noun(
    "completion",
    "Print the script that completes commands in your shell.",
    try_this=(
        'eval "$(penstock completion bash)"    # now; in ~/.bashrc for good',
        'penstock completion zsh > "${fpath[1]}/_penstock"',
        "penstock completion fish | source",
    ),
)


@app.default
def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], Parameter(help="Which shell will read the script: bash, zsh or fish.")
    ],
    /,
    *,
    session: InSession,
) -> None:
    """Print the script that completes commands, flags and names in your shell."""
    from penstock.cli.main import command_tree

    script = command_tree().meta.generate_completion(prog_name="penstock", shell=shell)
    session.emit_verbatim({"shell": shell, "script": script}, script)
