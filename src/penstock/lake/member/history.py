"""Commits in an object store: saved, found, and searched by `lake/core/refs/graph.py`. Design: lake.md L8.

Since an id names its content, a commit is read once only while it is remembered.
"""

from collections import OrderedDict
from collections.abc import AsyncGenerator
from typing import Final, TypeVar

from penstock.kernel.errors import DataMissing, NotFound
from penstock.lake.core.refs.commit import Commit, commit_id, commit_key, decode_commit, encode_commit
from penstock.lake.core.refs.graph import CommitLog, Logged, Search, merge_base
from penstock.lake.core.staging.records import CommitId
from penstock.plumbing.objects import ObjectStore

__all__ = ["History"]

REMEMBERED_MAX: Final = 50_000
R = TypeVar("R")


class History:
    """The commits of one repository. For one event loop."""

    def __init__(self, store: ObjectStore, namespace: str) -> None:
        self._store = store
        self._namespace = namespace
        self._known: OrderedDict[str, Commit] = OrderedDict()

    async def save(self, commit: Commit) -> CommitId:
        """Make it durable; its id."""
        id_ = commit_id(commit)
        await self._store.put(self._namespace + commit_key(id_), encode_commit(commit))
        self._remember(id_, commit)
        return id_

    async def get(self, id_: str, *, is_asked: bool = False) -> Commit:
        """Return a commit. A missing one is `DataMissing`, because something names it; or `NotFound` if only a client
        asked for it.
        """
        commit = self._known.get(id_)
        if commit is not None:
            self._known.move_to_end(id_)
            return commit
        try:
            data = (await self._store.get(self._namespace + commit_key(CommitId(id_)))).data
        except NotFound as error:
            if is_asked:
                raise NotFound(f"there is no commit {id_}", kind="commit") from None
            raise DataMissing(
                f"commit {id_} is missing: {error.message}",
                next_step="restore the object into the store, under this name",
            ) from None
        commit = decode_commit(data, CommitId(id_))
        self._remember(id_, commit)
        return commit

    async def search(self, search: Search[R]) -> R:
        """The result of a search over the graph of commits."""
        try:
            wanted = next(search)
            while True:
                wanted = search.send(await self.get(wanted))
        except StopIteration as found:
            result: R = found.value
            return result

    async def merge_base(self, left: str, right: str) -> CommitId | None:
        return await self.search(merge_base(CommitId(left), CommitId(right)))

    async def walk(self, head: str, *, first_parent: bool = False) -> AsyncGenerator[Logged, None]:
        """A commit and its ancestors, newest first."""
        log = CommitLog(CommitId(head), first_parent=first_parent)
        while (line := await self.search(log.following())) is not None:
            yield line

    async def find(self, beginning: str) -> CommitId | None:
        """The only commit whose id begins so; None if there is none, or more than one."""
        folder = self._namespace + commit_key(CommitId(""))
        found: list[CommitId] = []
        async for page in self._store.list(folder, after=folder + beginning):
            for each in page.objects:
                id_ = CommitId(each.key[len(folder) :])
                if not id_.startswith(beginning) or len(found) > 1:
                    return found[0] if len(found) == 1 else None
                found.append(id_)
        return found[0] if len(found) == 1 else None

    def _remember(self, id_: str, commit: Commit) -> None:
        self._known[id_] = commit
        if len(self._known) > REMEMBERED_MAX:
            self._known.popitem(last=False)
