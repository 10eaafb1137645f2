"""List a branch: the names of its commit's tree, merged with those of its uncommitted changes. Design: B2, B3.

Both sides are folded before they are merged, so what a folder holds is passed over on both. A committed folder is
hidden only if all its paths are. That is asked only where changes lie below it and none of them shows the folder.

`list_branch` is a generator that yields its questions and is sent the answers, so it does no I/O.
"""

from collections.abc import Generator
from typing import Any, Final, NamedTuple

from penstock.lake.core.committed.listing import LISTING_MAX, ListPage
from penstock.lake.core.staging.areas.folding import StagedChanges, after_prefix
from penstock.lake.core.staging.entry import Entry

__all__ = ["Ask", "CommittedNames", "FolderShown", "ListLine", "StagedNames", "hides_all", "list_branch"]

MORE: Final = 4  # times the names of a page that hidden names left too short


class ListLine(NamedTuple):
    """One line of a list: an entry, or a folder if there is none."""

    path: str
    entry: Entry | None


class CommittedNames(NamedTuple):
    """Wanted: a `ListPage` of the commit's tree."""

    after: str
    limit: int


class StagedNames(NamedTuple):
    """Wanted: the first names of the uncommitted changes, as `fold` returns them."""

    after: str
    limit: int


class FolderShown(NamedTuple):
    """Wanted: whether the commit's tree has a path in this folder that no change hides."""

    folder: str


Ask = CommittedNames | StagedNames | FolderShown


def list_branch(staged: StagedChanges, after: str, limit: int) -> Generator[Ask, Any, list[ListLine]]:
    """Return the first names after `after`, sorted; fewer than `limit` if that was all."""
    shown: list[ListLine] = []
    wanted = limit
    while True:
        committed: ListPage = yield CommittedNames(after, min(wanted, LISTING_MAX))
        mine: list[tuple[str, Entry | None]] = yield StagedNames(after, wanted)
        ends = [end for end in (committed.next_after, mine[-1][0] if len(mine) == wanted else "") if end]
        end = min(ends, default="")  # beyond it one side is not known
        names = dict(mine)
        for line in sorted(
            [*(ListLine(*each) for each in mine), *_committed_lines(committed, names, staged)], key=_path
        ):
            if end and line.path > end:
                break
            if line.entry is None and line.path not in names and staged.changed_in(line.path, after_prefix(line.path)):
                is_shown: bool = yield FolderShown(line.path)
                if not is_shown:
                    continue
            shown.append(line)
            if len(shown) == limit:
                return shown
        if not end:
            return shown
        after, wanted = end, MORE * wanted


def _committed_lines(page: ListPage, names: dict[str, Entry | None], staged: StagedChanges) -> list[ListLine]:
    """Return the lines of a page of the tree that no change hides, or shows as well."""
    paths = page.paths
    lines = [ListLine(folder, None) for folder in page.folders if folder not in names]
    if paths:
        hidden = staged.covers(paths)
        lines += [ListLine(*line) for line, is_hidden in zip(page.lines(), hidden, strict=True) if not is_hidden]
    return lines


def hides_all(staged: StagedChanges, min_key: str, max_key: str, count: int) -> bool:
    """Return whether changes may hide all of the entries between two keys: not if there are more entries."""
    return staged.changed_in(min_key, max_key + "\0") >= count


def _path(line: ListLine) -> str:
    return line.path
