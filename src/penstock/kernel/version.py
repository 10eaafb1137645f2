"""The version of this release, and the levels that it speaks. Design: operating.md O33.

A cluster has one level. New records, versions of files and required methods are used only when the cluster's level has
risen to theirs; until then the release before can take over again. Level 0 is the trees before levels: their folders
are read, but no release speaks it.
"""

from typing import Final, NamedTuple

__all__ = ["LEVEL_MAX", "LEVEL_MIN", "VERSION", "Release"]

VERSION: Final = "0.1.0.dev0"
LEVEL_MIN: Final = 1
LEVEL_MAX: Final = 1


class Release(NamedTuple):
    """A release, as its peers see it."""

    version: str = VERSION
    level_min: int = LEVEL_MIN
    level_max: int = LEVEL_MAX

    def speaks(self, level: int) -> bool:
        return self.level_min <= level <= self.level_max

    def describe(self) -> str:
        """Return what people read.

        >>> Release("0.4.1", 3, 4).describe()
        '0.4.1 (levels 3 to 4)'
        """
        levels = (
            f"level {self.level_max}"
            if self.level_min == self.level_max
            else f"levels {self.level_min} to {self.level_max}"
        )
        return f"{self.version or 'of before releases were named'} ({levels})"
