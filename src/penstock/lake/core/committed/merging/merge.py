"""Three-way merge: what a source did since the base, laid over a destination.

For each path which the source's tree stores differently from the base's, with b, d, s the entries there (or none):

    d stored as in b              → s        only the source changed it
    d and s of equal identity     → d        both did the same
    s of b's identity             → d        the source merely has another address
    d of b's identity             → s        so does the destination
    else                          → conflict; with a strategy, s or d

Paths are matched by join on the path itself, so files of equal content next to each other cannot be mistaken for one
another. The cost is that of the diff base → source, and of looking up its paths in the destination.

Revert and cherry-pick are the same merge with other trees: reverting c has base c and source its parent; picking c has
base its parent and source c.
"""

from enum import Enum
from typing import Final

import msgspec
import polars as pl

from penstock.lake.core.committed.diff import DIFF_SCHEMA
from penstock.lake.core.committed.entry import ENTRY_SCHEMA, STORED_COLUMNS, identity, same

__all__ = ["Merged", "Strategy", "merge_changes"]


class Strategy(Enum):
    """What to do where both sides changed a path differently."""

    REFUSE = "default"  # report the conflict; nothing is merged
    SOURCE_WINS = "source-wins"
    DEST_WINS = "dest-wins"


class Merged(msgspec.Struct, frozen=True):
    """The changes to lay over the destination, and the paths of conflicts which no strategy resolved."""

    changes: pl.DataFrame
    conflicts: pl.Series

    @property
    def is_clean(self) -> bool:
        return len(self.conflicts) == 0


_DEST: Final = {name: f"dest_{name}" for name in STORED_COLUMNS}
_AS_CHANGE: Final = [
    pl.col("path"),
    pl.col("size").is_not_null().alias("is_live"),
    *(pl.col(name).fill_null("" if ENTRY_SCHEMA[name] == pl.String else 0) for name in STORED_COLUMNS),
]


def merge_changes(diff: pl.DataFrame, dest: pl.DataFrame, strategy: Strategy = Strategy.REFUSE) -> Merged:
    """Decide every path of `diff` (base → source, address changes included); `dest` has the entries at those paths."""
    assert diff.schema == DIFF_SCHEMA
    assert dest.schema == ENTRY_SCHEMA
    rows = diff.join(dest.rename(_DEST), on="path", how="left", maintain_order="left")
    base_id, dest_id, source_id = identity("left_"), identity("dest_"), identity()
    untouched = same(*([pl.col(f"{side}{name}") for name in STORED_COLUMNS] for side in ("dest_", "left_")))
    keep = same(source_id, dest_id) | same(source_id, base_id)
    take = untouched | (~keep & same(dest_id, base_id))
    rows = rows.with_columns(take=take, conflict=~take & ~keep)
    conflicts = rows.filter("conflict")["path"]
    taken = pl.col("take") | pl.col("conflict") if strategy is Strategy.SOURCE_WINS else pl.col("take")
    changes = rows.filter(taken).select(_AS_CHANGE)
    return Merged(changes, conflicts if strategy is Strategy.REFUSE else conflicts.clear())
