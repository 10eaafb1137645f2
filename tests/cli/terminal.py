"""What tests of the command line share: types of the fixtures, and transcripts."""

from collections.abc import Callable, Sequence

import msgspec

__all__ = ["Golden", "Outcome", "Penstock", "transcript"]


class Outcome(msgspec.Struct, frozen=True):
    """What a command left behind."""

    status: int
    stdout: str
    stderr: str


Penstock = Callable[..., Outcome]
Golden = Callable[[str, str], None]


def transcript(penstock: Penstock, commands: Sequence[str]) -> str:
    """Commands and all they print, as a person would see it."""
    lines = []
    for command in commands:
        outcome = penstock(*command.split())
        lines.append(f"$ penstock {command}\n{outcome.stdout}{outcome.stderr}[{outcome.status}]\n")
    return "\n".join(lines)
