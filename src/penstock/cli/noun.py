"""What every noun of the command line is made of, so that all of them look and behave alike.

A noun is one file: it makes an `app` with `noun(...)`, hangs its verbs on it with `@app.command(...)`, and is named in
one line of `main.NOUNS`. A verb takes the `Session` as its last, keyword-only parameter:

    app = noun("errors", "What an error code means, and what to do next.", try_this=("penstock errors list",))

    @app.command(name="list", help_epilogue=examples("penstock errors list"))
    def list_errors(*, session: InSession) -> None: ...

A verb returns None (exit status 0) or the exit status, raises a PenstockError to refuse, and may be `async`.
"""

from typing import Annotated, Any, Final

from cyclopts import App, Group, Parameter

from penstock.cli.help import HelpFormatter, examples
from penstock.server.session import Session

__all__ = ["InSession", "examples", "noun"]

COMMANDS: Final = Group("Commands", sort_key=1)
ARGUMENTS: Final = Group("Arguments", sort_key=2)
FLAGS: Final = Group("Flags", sort_key=3)
GLOBAL_FLAGS: Final = Group("Global flags", sort_key=4)

InSession = Annotated[Session, Parameter(parse=False)]


def noun(name: str, help: str, *, try_this: tuple[str, ...], **settings: Any) -> App:
    """The App of a noun (or of the program itself), with commands to try at the end of its help page."""
    return App(
        name=name,
        help=help,
        help_format="plaintext",
        help_formatter=HelpFormatter(),
        help_epilogue=examples(*try_this),
        group_commands=COMMANDS,
        group_arguments=ARGUMENTS,
        group_parameters=FLAGS,
        default_parameter=Parameter(negative=(), show_default=lambda value: value or None),
        **settings,
    )
