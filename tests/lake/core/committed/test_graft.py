"""A grafted tree equals the one that overlaying would have built, and only its seams are read."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lake.core.committed.shelf import SMALL, TREES, Shelf, Tree, entry, random_tree

from penstock.kernel.errors import InvalidArgument
from penstock.lake.core.committed.build import to_range
from penstock.lake.core.committed.graft import Seam, finish_graft, pieces_of_seam, plan_graft
from penstock.lake.core.committed.metarange import EMPTY, MetaRange, Range, location_of, range_key

LOCATION = location_of(2, "graft")


class Grafter(Shelf):
    """A shelf which grafts."""

    def graft(self, parent: MetaRange, source: MetaRange, prefix: str) -> MetaRange:
        plan = plan_graft(parent, source, prefix, SMALL)
        made = [self._made(parent, source, prefix, seam) for seam in plan.seams]
        built = finish_graft(parent, source, plan, made)
        built.check()
        return built

    def _made(self, parent: MetaRange, source: MetaRange, prefix: str, seam: Seam) -> list[Range]:
        rows = self._rows(parent, range(seam.first, seam.last)), self._rows(source, range(seam.start, seam.end))
        found = pieces_of_seam(prefix, seam, *rows, SMALL)
        for each in found:
            self.files[range_key(LOCATION, each.id)] = pl.DataFrame(each.table)
        return [to_range(each, {}, LOCATION) for each in found]


@settings(deadline=None, max_examples=15)
@given(TREES, TREES, st.sampled_from(["", "a/", "b/", "b/ä/", "c", "zz/"]))
def test_a_graft_is_what_overlaying_would_have_built(parent: Tree, other: Tree, prefix: str) -> None:
    shelf = Grafter()
    source = {path: each for path, each in other.items() if path.startswith(prefix)}
    expected = {path: each for path, each in parent.items() if not path.startswith(prefix)} | source
    built = shelf.graft(shelf.tree(parent), shelf.tree(source), prefix)
    assert shelf.contents(built) == expected
    assert built.id == Shelf().tree(expected).id


def test_only_the_seams_are_read() -> None:
    shelf = Grafter()
    parent = shelf.tree({f"{folder}/{number:04d}": entry(1) for folder in "ac" for number in range(100)})
    source = shelf.tree({f"b/{number:04d}": entry(2) for number in range(100)})
    shelf.reads = 0
    built = shelf.graft(parent, source, "b/")
    assert len(built) > 60
    assert shelf.reads < 10


def test_nothing_may_be_grafted_as_everything_and_strangers_may_not() -> None:
    shelf = Grafter()
    tree = shelf.tree(random_tree(30, 1))
    assert shelf.graft(tree, EMPTY, "").id == EMPTY.id
    assert shelf.graft(EMPTY, tree, "").id == tree.id
    with pytest.raises(InvalidArgument, match="not all begin with"):
        shelf.graft(EMPTY, tree, "a/")
