"""Names of flags and commands that changed. Old names work for one release, with a note on stderr.

One table per kind, by command: `("journals", "append")` holds for that command, `("journals",)` for all of the noun.
The tables apply to the tokens of the command line before it is parsed, so help and completion show new names only.
"""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.kernel.errors import InvalidArgument

__all__ = ["FLAGS", "REFUSED", "current"]

Chain = tuple[str, ...]

_CLUSTER: Final = ("down", "kill", "pause", "resume", "start", "status", "up")
FLAGS: Final[dict[Chain, dict[str, str]]] = {
    ("journals", "append"): {"--check": "--check-registers"},
    **{("cluster", verb): {"--folder": "--cluster"} for verb in _CLUSTER},
    **{("quorum", verb): {"--node-address": "--node"} for verb in ("append", "resolve", "status", "tail")},
    ("lake", "serve"): {"--node-address": "--node"},
    ("broker",): {"--limit": "--max-journals", "--lease-ms": "--lease"},
    ("consumer", "run"): {"--limit": "--max-shards", "--lease-ms": "--lease"},
    ("operator",): {"--failure-ms": "--failure-after"},
}
# Old names that mean something else now: the command line is refused and names the new flag.
REFUSED: Final[dict[Chain, dict[str, str]]] = {
    ("journals", "append"): {"--set": "--set-register"},
}
_GLOBAL_WITH_VALUE: Final = ("--output", "--config", "--set", "--log-level")
_CHAIN_MAX: Final = 3


def current(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments with new names, and a note for each old one. Raises InvalidArgument for refused names."""
    tokens, notes = list(arguments), []
    end = tokens.index("--") if "--" in tokens else len(tokens)
    words: Chain = ()
    is_value = is_milliseconds = False
    for index, token in enumerate(tokens[:end]):
        flag, equals, value = token.partition("=")
        new = _name(FLAGS, words, flag)
        if is_milliseconds:
            is_milliseconds, tokens[index] = False, f"{token}ms"
        elif is_value:
            is_value = False
        elif _name(REFUSED, words, flag):
            raise _ambiguous(tokens, index, words, flag)
        elif new:
            if any(each.partition("=")[0] == new for each in arguments[:end]):
                raise _misuse(f"{flag} and {new} are the same flag")
            unit = "ms" if flag.endswith("-ms") else ""  # a bare number of the new flag is in seconds
            is_milliseconds = bool(unit) and not equals
            tokens[index] = f"{new}{equals}{value}{unit if equals else ''}"
            notes.append(f"{flag} is now {new}")
        elif token in _GLOBAL_WITH_VALUE:
            is_value = True
        elif not token.startswith("-"):
            words = (*words, token)[:_CHAIN_MAX]
    return tokens, notes


def _name(table: dict[Chain, dict[str, str]], words: Chain, flag: str) -> str:
    return next((names[flag] for chain, names in table.items() if words[: len(chain)] == chain and flag in names), "")


def _ambiguous(tokens: list[str], index: int, words: Chain, flag: str) -> "InvalidArgument":
    new = _name(REFUSED, words, flag)
    instead = [*tokens[:index], tokens[index].replace(flag, new, 1), *tokens[index + 1 :]]
    return _misuse(
        f"{flag} after {words[0]} {words[1]} is ambiguous; write {new}, or put {flag} before the command",
        next_step=f"penstock {shlex.join(instead)}",
    )


def _misuse(message: str, next_step: str = "") -> "InvalidArgument":
    from penstock.kernel.errors import InvalidArgument  # `penstock --help` must not load msgspec

    return InvalidArgument(message, next_step=next_step)
