"""lakeFS's words for refusals: clients compare them. Our own message and the next step follow.

repository not found: there is no repository 'shop' (next: penstock lake repo list)
"""

from typing import Final

from penstock.kernel.errors import (
    AlreadyExists,
    DataMissing,
    Gone,
    MergeConflict,
    NotFound,
    PenstockError,
    PreconditionFailed,
)

__all__ = ["message_of"]

_WORDS: Final[dict[type[PenstockError], str]] = {
    MergeConflict: "conflict found",
    PreconditionFailed: "Precondition failed",
    AlreadyExists: "not unique",
    DataMissing: "No data",
    Gone: "resource gone",
}


def message_of(error: PenstockError) -> str:
    """Return what a client of lakeFS shows.

    >>> message_of(NotFound("there is no branch 'x' in shop", kind="branch"))
    "branch not found: there is no branch 'x' in shop"
    """
    words = _words_of(error)
    told = error.message if not words or words.lower() in error.message.lower() else f"{words}: {error.message}"
    return f"{told} (next: {error.next_step})" if error.next_step else told


def _words_of(error: PenstockError) -> str:
    if isinstance(error, NotFound):
        kind = error.details.get("kind")
        return f"{kind} not found" if kind else "not found"
    return next((_WORDS[kind] for kind in type(error).__mro__ if kind in _WORDS), "")
