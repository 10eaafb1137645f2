"""The rules of every failure that a command prints (words: E1 to E5). The fixture `penstock` checks each of them."""

import re
import shlex
from contextlib import suppress

from cyclopts import MissingArgumentError

from penstock.cli.main import command_tree

WORDS = ("error", "refused", "unavailable", "unknown")
OUTCOMES = ("Nothing was written.", "It was written.", "It may have been written.")
_FAILURE = re.compile(rf"^(?:{'|'.join(WORDS)}): .*\Z", re.MULTILINE | re.DOTALL)


def check_failure(stderr: str) -> None:
    """Check the failure at the end of stderr, if it has one: its outcome once at most, and steps that parse."""
    found = _FAILURE.search(stderr)
    if found is None:
        return
    text = found[0]
    stated = sum(text.lower().count(outcome.rstrip(".").lower()) for outcome in OUTCOMES)
    assert stated <= 1, text
    assert stated == 1 or not text.startswith("unknown"), text
    for command in re.findall(r"^(?:Next|More): (penstock .*)$", text, re.MULTILINE):
        check_command(command)


def check_command(command: str) -> None:
    """Parse a command of a next step, and run nothing. A sentence may follow after two spaces or a colon."""
    words = shlex.split(command.split("  ")[0])
    words = [word for word in words[1:] if word not in ("--help", "…")]
    with suppress(MissingArgumentError):
        command_tree().parse_args(words, print_error=False, exit_on_error=False)
