"""Re-parenting (L9): the result is the new head overlaid by the areas which are left, in a hundred thousand cases.

Each case is a folder of its own in one lake, so that all of them run at once, by column. Rules that look right and are
wrong (lake.md, F8) must fail on the same cases: else the cases prove nothing.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from tests.lake.core.committed.shelf import Shelf, changes_of, entry

from penstock.lake.core.committed.boundary import CHUNKING
from penstock.lake.core.committed.changes import CHANGE_SCHEMA, empty_changes, lay_over, overlay
from penstock.lake.core.committed.diff import visible
from penstock.lake.core.committed.entry import ENTRY_SCHEMA
from penstock.lake.core.committed.merging.merge import Strategy
from penstock.lake.core.committed.merging.reparent import patch_changes, paths_to_patch
from penstock.lake.core.committed.metarange import EMPTY, MetaRange

CASES = 100_000
PATHS = 2  # of each case
AREAS = 2  # announced, oldest first; the first `gone` of them are not there any more

CASE = pl.col("path").str.slice(0, 7).cast(pl.UInt32)

Rng = np.random.Generator


class Race:
    """A commit which lost its race: the old parent, its areas, how many are gone, and the new head; in every case."""

    def __init__(self, cases: int, rng: Rng) -> None:
        self.shelf = Shelf(CHUNKING, job_rows=1 << 17)
        self.parent = random_entries(cases, rng)
        self.areas = [random_changes(cases, rng) for _ in range(AREAS)]
        gone_of = pl.lit(pl.Series(rng.integers(0, AREAS + 1, cases))).gather(CASE)
        self.gone = [area.filter(gone_of > number) for number, area in enumerate(self.areas)]
        self.rest = lay_over([area.filter(gone_of <= number) for number, area in enumerate(self.areas)])
        self.head = self._moved_head(cases, rng)

    def _moved_head(self, cases: int, rng: Rng) -> pl.DataFrame:
        """Return a head of one of three kinds: the areas were committed, or committed and undone, or more was merged
        since.
        """
        committed = overlay(self.parent, lay_over(self.gone))
        merged = overlay(committed, random_changes(cases, rng))
        fate = CASE % 3
        return pl.concat([self.parent.filter(fate == 0), committed.filter(fate == 1), merged.filter(fate == 2)]).sort(
            "path"
        )

    def expected(self) -> pl.DataFrame:
        return overlay(self.head, self.rest)

    def trees(self) -> tuple[MetaRange, MetaRange, MetaRange]:
        """P, M and H."""
        parent = self.shelf.build(EMPTY, as_changes(self.parent))
        finished = self.shelf.build(parent, lay_over(self.areas))
        return parent, finished, self.shelf.build(parent, difference(self.parent, self.head))


def random_entries(cases: int, rng: Rng) -> pl.DataFrame:
    changes = random_changes(cases, rng)
    return changes.filter("is_live").select(ENTRY_SCHEMA.names())


def random_changes(cases: int, rng: Rng) -> pl.DataFrame:
    """In each case, for each path: nothing, a deletion, or an object of one of two contents at one of two addresses."""
    rows = cases * PATHS
    drawn: npt.NDArray[np.int64] = rng.integers(0, 7, rows)
    frame = pl.DataFrame({"number": np.arange(rows), "drawn": drawn}).filter(pl.col("drawn") < 5)
    live, content = pl.col("drawn") > 0, (pl.col("drawn") - 1) % 2
    return frame.select(
        path=pl.format("{}/{}", (pl.col("number") // PATHS).cast(pl.String).str.zfill(7), pl.col("number") % PATHS),
        is_live=live,
        address=pl.when(live).then(pl.format("data/{}", pl.col("drawn"))).otherwise(pl.lit("")),
        size=pl.when(live).then(content + 1).otherwise(0),
        etag=pl.when(live).then(pl.format("etag-{}", content)).otherwise(pl.lit("")),
        mtime_ns=pl.lit(0, pl.Int64),
        content_type=pl.lit(""),
        metadata=pl.lit(""),
    ).match_to_schema(CHANGE_SCHEMA)


def as_changes(entries: pl.DataFrame) -> pl.DataFrame:
    return entries.with_columns(is_live=pl.lit(True)).select(CHANGE_SCHEMA.names())


def difference(old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    removed = old.join(new, on="path", how="anti")["path"]
    return lay_over([as_changes(new), patch_changes(removed, new.clear())])


Rule = Callable[[Race, MetaRange, MetaRange, MetaRange], MetaRange]


def by_l9(race: Race, parent: MetaRange, finished: MetaRange, head: MetaRange) -> MetaRange:
    diff = race.shelf.diff(parent, head)
    paths = paths_to_patch(diff, lay_over(race.gone)["path"], race.rest["path"])
    return race.shelf.build(finished, patch_changes(paths, race.shelf.lookup(head, paths)), [head])


def without_the_areas_gone(race: Race, parent: MetaRange, finished: MetaRange, head: MetaRange) -> MetaRange:
    paths = paths_to_patch(race.shelf.diff(parent, head), empty_changes()["path"], race.rest["path"])
    return race.shelf.build(finished, patch_changes(paths, race.shelf.lookup(head, paths)))


def by_identity(race: Race, parent: MetaRange, finished: MetaRange, head: MetaRange) -> MetaRange:
    diff = visible(race.shelf.diff(parent, head))
    paths = paths_to_patch(diff, lay_over(race.gone)["path"], race.rest["path"])
    return race.shelf.build(finished, patch_changes(paths, race.shelf.lookup(head, paths)))


def by_three_way_merge(race: Race, parent: MetaRange, finished: MetaRange, head: MetaRange) -> MetaRange:
    return race.shelf.merge(parent, head, finished, Strategy.SOURCE_WINS)[0]


def wrong_cases(race: Race, built: MetaRange) -> int:
    """In how many cases the tree is not the new head overlaid by the rest."""
    wanted = race.shelf.build(EMPTY, as_changes(race.expected()))
    return int(race.shelf.diff(wanted, built)["path"].str.slice(0, 7).n_unique())


def test_a_hundred_thousand_lost_races_are_re_parented_exactly() -> None:
    race = Race(CASES, np.random.default_rng(9))
    parent, finished, head = race.trees()

    built = by_l9(race, parent, finished, head)

    assert built.id == race.shelf.build(EMPTY, as_changes(race.expected())).id
    assert wrong_cases(race, built) == 0


@pytest.mark.parametrize("rule", [without_the_areas_gone, by_identity, by_three_way_merge])
def test_rules_which_look_right_are_caught(rule: Rule) -> None:
    race = Race(5_000, np.random.default_rng(9))
    parent, finished, head = race.trees()

    assert wrong_cases(race, rule(race, parent, finished, head)) > 0
    assert wrong_cases(race, by_l9(race, parent, finished, head)) == 0


def test_after_commit_and_revert_the_reverted_areas_stay_reverted() -> None:
    """T5: D is empty, and only K says that the area is gone."""
    shelf = Shelf()
    parent = shelf.tree({"x": entry(1)})
    area = changes_of({"x": entry(2)})
    finished, head = shelf.build(parent, area), parent  # the area was committed and reverted

    paths = paths_to_patch(shelf.diff(parent, head), area["path"], empty_changes()["path"])
    built = shelf.build(finished, patch_changes(paths, shelf.lookup(head, paths)))

    assert paths.to_list() == ["x"]
    assert built.id == head.id
