"""The result of a look at files: the damage, and how many files were seen."""

from collections import Counter

import msgspec

__all__ = ["DamagedFile", "FsckReport"]


class DamagedFile(msgspec.Struct, frozen=True):
    """One file, object or range that is not as it was written."""

    where: str
    kind: str
    why: str
    next_step: str = ""


class FsckReport:
    """The findings of one run."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()  # files by kind
        self.unknown: list[str] = []  # files that no release put there
        self.damages: list[DamagedFile] = []

    def add(self, where: str, kind: str, error: Exception) -> None:
        """Note an error that a check has raised."""
        why = getattr(error, "message", None) or str(error)
        self.damages.append(DamagedFile(where, kind, why, getattr(error, "next_step", None) or ""))
