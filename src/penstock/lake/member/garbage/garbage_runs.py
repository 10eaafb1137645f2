"""What earlier runs of the garbage collector found: an object goes only if two runs found that nothing refers to it.

    <namespace>/_penstock/gc/<seen, 8 digits>-<seconds since 1970>      one Parquet file for each run

`seen` is the collector's epoch after the run had listed the commits: every commit in its list was built in that epoch
or before. So a commit without a branch which is in a list of epoch g - 2 can no longer be performed in run g (L15 a:
its link epoch is below the floor), and may be condemned; a younger one may be just on its way.
"""

from collections.abc import Iterable
from io import BytesIO
from typing import Final

import msgspec
import polars as pl

from penstock.lake.member.shelves import LakeShelf

__all__ = ["GarbageRun", "Runs"]

FOLDER: Final = "_penstock/gc/"
RUNS_MAX: Final = 64
_SCHEMA: Final = pl.Schema({"is_commit": pl.Boolean(), "key": pl.String()})


class GarbageRun(msgspec.Struct, frozen=True):
    """One run's file."""

    key: str
    seen: int
    taken_at: int  # seconds since 1970; may delay a deletion, never permit one


class Runs:
    """The runs of one repository."""

    def __init__(self, shelf: LakeShelf) -> None:
        self._shelf = shelf
        self._folder = shelf.folder + FOLDER

    async def known(self) -> list[GarbageRun]:
        """Oldest first."""
        found: list[GarbageRun] = []
        async for page in self._shelf.store.list(self._folder):
            for each in page.objects:
                seen, _, taken_at = each.key[len(self._folder) :].partition("-")
                if seen.isdecimal() and taken_at.isdecimal():
                    found.append(GarbageRun(each.key, int(seen), int(taken_at)))
        return found

    async def read(self, run: GarbageRun) -> tuple[pl.DataFrame, set[str]]:
        """The objects nothing referred to, and the commits."""
        data = (await self._shelf.store.get(run.key)).data
        frame = pl.read_parquet(BytesIO(data))
        commits = frame.filter("is_commit")["key"].to_list()
        return frame.filter(~pl.col("is_commit")).select("key"), set(commits)

    async def save(self, seen: int, unmarked: pl.Series, commits: Iterable[str]) -> None:
        rows = pl.concat(
            [
                pl.DataFrame({"is_commit": [False] * len(unmarked), "key": unmarked}, schema=_SCHEMA),
                pl.DataFrame([(True, each) for each in sorted(commits)], schema=_SCHEMA, orient="row"),
            ]
        )
        file = BytesIO()
        rows.write_parquet(file)
        await self._shelf.store.put(
            f"{self._folder}{seen:08d}-{self._shelf.ports.clock.time_ns() // 10**9:010d}", file.getvalue()
        )

    async def forget(self, runs: list[GarbageRun], needed: Iterable[GarbageRun]) -> None:
        """Drop runs older than all that are needed; and the oldest, if there are too many."""
        oldest = min((runs.index(each) for each in needed), default=0)
        await self._shelf.store.delete(*(each.key for each in runs[: max(oldest, len(runs) - RUNS_MAX)]))
