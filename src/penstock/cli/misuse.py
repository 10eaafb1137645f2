"""A misuse of the command line, in our words: the part that does not fit, and a guess of the intended one."""

import difflib
from collections.abc import Iterable

from cyclopts import App, CycloptsError, UnknownCommandError, UnknownOptionError, UnusedCliTokensError

from penstock.kernel.errors import InvalidArgument

__all__ = ["explain_misuse"]


def explain_misuse(error: CycloptsError, app: App, nouns: Iterable[str]) -> InvalidArgument:
    """Return the error as an `InvalidArgument`, with the help page to look at as its next step."""
    error.verbose = False
    chain = list(error.command_chain or ())
    return InvalidArgument(_message(error, app, chain, list(nouns)), next_step=" ".join(["penstock", *chain, "--help"]))


def _message(error: CycloptsError, app: App, chain: list[str], nouns: list[str]) -> str:
    unused = error.unused_tokens or [""]
    match error:
        case UnknownCommandError() if not chain:
            # Cyclopts would import every noun to find the nearest.
            return f"no command is named {unused[0]}{_guess(unused[0], nouns) or '; there are ' + ', '.join(nouns)}"
        case UnusedCliTokensError():
            return f"nothing takes {' '.join(unused)}"
        case UnknownOptionError():
            # Cyclopts knows the command's own flags, not the global ones.
            flag = error.token.keyword or error.token.value
            own = [name for argument in error.argument_collection for name in argument.names]
            shared = [name for argument in app.meta.assemble_argument_collection() for name in argument.names]
            return f"no flag is named {flag}{_guess(flag, [*own, *shared])}"
        case _:
            return str(error)


def _guess(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""
