"""Commands that only read. Their errors show whether something was written only if that is unknown."""

from collections.abc import Sequence
from typing import Final

__all__ = ["READS", "writes_data"]

READS: Final = frozenset(
    {
        (),
        ("bench", "list"),
        ("cluster", "status"),
        ("completion",),
        ("config", "check"),
        ("config", "example"),
        ("config", "keys"),
        ("config", "show"),
        ("errors", "explain"),
        ("errors", "list"),
        ("journals", "cat"),
        ("journals", "explain"),
        ("journals", "fragments"),
        ("journals", "list"),
        ("journals", "read"),
        ("journals", "resolve"),
        ("lake", "branch", "list"),
        ("lake", "cat"),
        ("lake", "diff"),
        ("lake", "log"),
        ("lake", "ls"),
        ("lake", "protection", "list"),
        ("lake", "repo", "list"),
        ("lake", "retention", "show"),
        ("lake", "tag", "list"),
        ("pipeline", "garbage"),
        ("pipeline", "plan"),
        ("pipeline", "status"),
        ("quorum", "resolve"),
        ("quorum", "shards"),
        ("quorum", "status"),
        ("quorum", "tail"),
        ("shards", "list"),
        ("shards", "stat"),
        ("sim", "explore"),
        ("sim", "list"),
        ("sim", "run"),
        ("sim", "trace"),
        ("status",),
        ("version",),
    }
)


def writes_data(chain: Sequence[str]) -> bool:
    """Tell whether a command, given by its words without `penstock`, can change data.

    >>> writes_data(["journals", "append"]), writes_data(["journals", "list"])
    (True, False)
    """
    return tuple(chain) not in READS and not (len(chain) == 1 and chain[0] in _NOUNS)


_NOUNS: Final = frozenset(chain[0] for chain in READS if len(chain) > 1)
