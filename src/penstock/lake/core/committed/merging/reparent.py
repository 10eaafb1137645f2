"""Re-parenting: a commit which lost its race is moved onto the new head from its finished metarange (lake.md, L9).

P is the old parent, M the finished metarange (P overlaid by the announced areas), H the new head, `rest` the announced
areas that still exist. The exact result is **H overlaid by rest**. From M, without building it again:

- D = the paths whose *stored entry* differs between P and H: not identity, or an object's new address would be lost;
- K = the paths of the announced areas which are gone meanwhile: without them a commit that was made and reverted in
  between (so that D is empty) would be undone;
- patch M at (D and K) without the paths of rest, with what H has there.

It is overlay, never a three-way merge: a commit of one's own branch has no conflicts.
"""

import polars as pl

from penstock.lake.core.committed.changes import CHANGE_SCHEMA, deletes, puts

__all__ = ["patch_changes", "paths_to_patch"]


def paths_to_patch(diff: pl.DataFrame, gone: pl.Series, rest: pl.Series) -> pl.Series:
    """D and K without the paths of rest, sorted. `diff` is P → H, address changes included; `gone` is K."""
    paths = pl.concat([diff.select("path"), gone.rename("path").to_frame()]).unique()
    return paths.join(rest.rename("path").to_frame(), on="path", how="anti").sort("path")["path"]


def patch_changes(paths: pl.Series, head: pl.DataFrame) -> pl.DataFrame:
    """Changes which give those paths what the new head has there; `head` holds its entries at the paths."""
    absent = paths.to_frame("path").join(head.select("path"), on="path", how="anti")["path"]
    return pl.concat([puts(head), deletes(absent)]).select(CHANGE_SCHEMA.names()).sort("path")
