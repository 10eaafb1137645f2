"""The graph of commits: log and merge base.

Both are generators which yield the id of a commit they need and are sent the commit, so that a dictionary, a cache and
an object store can drive them alike. Generations rise from parent to child, which is all they rest on.
"""

import heapq
from collections.abc import Callable, Generator
from typing import TypeVar

import msgspec

from penstock.lake.core.refs.commit import Commit
from penstock.lake.core.staging.records import CommitId

__all__ = ["CommitLog", "Logged", "Search", "merge_base", "run_search"]

R = TypeVar("R")

Search = Generator[CommitId, Commit, R]  # yields ids, is sent commits, returns its result


def run_search(search: Search[R], get: Callable[[CommitId], Commit]) -> R:
    """The result of a search over commits which are at hand."""
    try:
        wanted = next(search)
        while True:
            wanted = search.send(get(wanted))
    except StopIteration as found:
        result: R = found.value
        return result


def merge_base(left: CommitId, right: CommitId) -> Search[CommitId | None]:
    """A common ancestor of the highest generation: none of the others descends from it. Of several, the least id.

    Commits are visited by falling generation, and each tells its parents from which sides it was reached. Whatever
    could reach a commit has been visited before it, so the first one reached from both sides is it.
    """
    reached = {left: {"left"}, right: {"right"}} if left != right else {left: {"left", "right"}}
    commits: dict[CommitId, Commit] = {}
    waiting: list[tuple[int, CommitId]] = []
    for start in reached:
        commits[start] = yield start
        heapq.heappush(waiting, (-commits[start].generation, start))
    while waiting:
        _, visited = heapq.heappop(waiting)
        sides = reached[visited]
        if len(sides) == 2:
            return visited
        for parent in commits[visited].parents:
            if parent not in reached:
                commits[parent] = yield parent
                heapq.heappush(waiting, (-commits[parent].generation, parent))
            reached.setdefault(parent, set()).update(sides)
    return None


class Logged(msgspec.Struct, frozen=True):
    """A line of a log."""

    id: CommitId
    commit: Commit


class CommitLog:
    """A commit and its ancestors, newest first; of equal times the higher generation first.

    `following()` is a search for the next line; it gives none at the end. A parent is met through its child, so it
    never comes before all of its children, whatever their committers' clocks said.
    """

    def __init__(self, head: CommitId, *, first_parent: bool = False) -> None:
        self._first_parent = first_parent
        self._met = {head}
        self._unread = [head]
        self._waiting: list[tuple[int, int, CommitId]] = []
        self._commits: dict[CommitId, Commit] = {}

    def following(self) -> Search[Logged | None]:
        while self._unread:
            id_ = self._unread.pop()
            commit = self._commits[id_] = yield id_
            heapq.heappush(self._waiting, (-commit.created_ns, -commit.generation, id_))
        if not self._waiting:
            return None
        _, _, id_ = heapq.heappop(self._waiting)
        commit = self._commits.pop(id_)
        for parent in commit.parents[:1] if self._first_parent else commit.parents:
            if parent not in self._met:
                self._met.add(parent)
                self._unread.append(parent)
        return Logged(id_, commit)
