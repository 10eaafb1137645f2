"""The lake from Python without `await`: a ref is a dict of files, a branch one that can be changed.

    shop = BlockingRepository(lake, "shop")
    main = shop.branch("main")
    main["prices/2026.csv"] = Path("prices.csv")        # or bytes, or a file opened for reading
    for path in main: ...                                # sorted; also in, len, items, del
    main.commit("new prices")
    with main.transaction("all of it, or nothing") as changes:
        changes["a"] = b"..."

A path which has no object raises KeyError, as dicts do. One background thread runs the event loop of all of them; calls
may come from any thread.
"""

from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, TypeVar

from penstock.kernel.errors import NotFound
from penstock.lake.client.lake_api import LakeApi
from penstock.lake.client.lake_place import LakePlace
from penstock.lake.client.lake_repository import Branch, Content, LakeFile, Ref, Repository, Transaction
from penstock.lake.records.service import Change, Commit, Strategy
from penstock.plumbing.process.loop_thread import LoopThread

__all__ = ["BlockingBranch", "BlockingLake", "BlockingRef", "BlockingRepository", "BlockingTransaction"]

T = TypeVar("T")


class BlockingLake:
    """One lake's server."""

    def __init__(self, place: LakePlace) -> None:
        self.place = place
        self.api = LakeApi(place)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return LoopThread.shared().run(work)

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Yield items one by one, as they arrive. Leaving the loop early ends it over there too."""
        return LoopThread.shared().iterate(items)

    def repository(self, name: str) -> "BlockingRepository":
        return BlockingRepository(self, name)

    def repositories(self) -> list[str]:
        return [each["id"] for each in self.iterate(self.api.pages("/repositories"))]

    def close(self) -> None:
        self.run(self.api.close())


class BlockingRepository:
    """`Repository`, without `await`."""

    def __init__(self, lake: BlockingLake, name: str) -> None:
        self.lake = lake
        self.name = name
        self._repository = Repository(lake.api, name)

    def __repr__(self) -> str:
        return repr(self._repository)

    def create(self, *, storage: str = "", default_branch: str = "main", exists_ok: bool = False) -> None:
        """Make it, with an empty default branch."""
        self.lake.run(self._repository.create(storage=storage, default_branch=default_branch, exists_ok=exists_ok))

    def exists(self) -> bool:
        """Return whether the repository exists."""
        return self.lake.run(self._repository.exists())

    def delete(self) -> None:
        """Delete the repository, its branches and tags. Its objects stay in the store."""
        self.lake.run(self._repository.delete())

    def ref(self, name: str) -> "BlockingRef":
        """Anything that names a commit: a branch, a tag, an id, main~2. To read only."""
        return BlockingRef(self.lake, self._repository.ref(name))

    def branch(self, name: str, *, source: str | None = None) -> "BlockingBranch":
        """A branch; with a source, a new one."""
        if source is not None:
            self.lake.run(self._repository.create_branch(name, source))
        return BlockingBranch(self.lake, self._repository.branch(name))

    def branches(self) -> list[str]:
        """Return the names of all branches."""
        return self.lake.run(self._repository.branches())

    def tag(self, name: str, ref: str) -> "BlockingRef":
        """Make a tag."""
        return BlockingRef(self.lake, self.lake.run(self._repository.create_tag(name, ref)))

    def delete_tag(self, name: str) -> None:
        """Delete a tag. Its commit stays."""
        self.lake.run(self._repository.delete_tag(name))

    def tags(self) -> dict[str, str]:
        """Return all tags with their commit ids."""
        return self.lake.run(self._repository.tags())

    def merge(
        self, source: str, into: str, message: str = "", *, strategy: Strategy = "", squash: bool = False
    ) -> Commit:
        """Merge a ref into a branch. `MergeConflict` names the paths, and nothing has happened."""
        return self.lake.run(self._repository.merge(source, into, message, strategy=strategy, squash=squash))


class BlockingRef(Mapping[str, bytes]):
    """`Ref`, without `await`: what a ref shows, as a dict of files."""

    def __init__(self, lake: BlockingLake, ref: Ref) -> None:
        self.lake = lake
        self.name = ref.name
        self._ref = ref

    def __repr__(self) -> str:
        return repr(self._ref)

    def __getitem__(self, path: str) -> bytes:
        try:
            return self.read(path)
        except NotFound as error:
            if error.details.get("kind", "object") != "object":
                raise
            raise KeyError(path) from None

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and self.lake.run(self._ref.exists(path))

    def __iter__(self) -> Iterator[str]:
        return (each.path for each in self.list())

    def __len__(self) -> int:
        return sum(1 for _ in self.list())

    def read(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """An object's bytes, or [start, end) of them."""
        return self.lake.run(self._ref.read(path, start, end))

    def chunks(self, path: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The same, as it comes. It is one version of the object throughout."""
        return self.lake.iterate(self._ref.chunks(path, start, end))

    def stat(self, path: str) -> LakeFile:
        """Return an object's metadata, without its bytes."""
        return self.lake.run(self._ref.stat(path))

    def list(self, prefix: str = "", *, delimiter: str = "", limit: int | None = None) -> Iterator[LakeFile]:
        """Objects below a prefix, sorted by path; with a delimiter, folders as one line each."""
        return self.lake.iterate(self._ref.list(prefix, delimiter=delimiter, limit=limit))

    def head(self) -> Commit:
        """The commit it names."""
        return self.lake.run(self._ref.head())

    def log(self, *, path: str = "", limit: int | None = None) -> Iterator[Commit]:
        """Yield its history, newest first; with a path, the commits that changed it."""
        return self.lake.iterate(self._ref.log(path=path, limit=limit))

    def diff(self, other: str, *, prefix: str = "") -> Iterator[Change]:
        """Yield the changes of another ref since the merge base."""
        return self.lake.iterate(self._ref.diff(other, prefix=prefix))


class BlockingBranch(BlockingRef, MutableMapping[str, bytes]):
    """`Branch`, without `await`: a dict of files which can be changed."""

    def __init__(self, lake: BlockingLake, branch: Branch) -> None:
        super().__init__(lake, branch)
        self._branch = branch

    def __setitem__(self, path: str, content: Content) -> None:
        self.put(path, content)

    def __delitem__(self, path: str) -> None:
        if path not in self:
            raise KeyError(path)
        self.remove([path])

    def put(self, path: str, content: Content, *, content_type: str = "", if_absent: bool = False) -> LakeFile:
        """Put an object, whole or not at all."""
        return self.lake.run(self._branch.put(path, content, content_type=content_type, if_absent=if_absent))

    def remove(self, paths: Iterable[str]) -> None:
        """Delete objects. Paths which have none are no error."""
        given = list(iter(paths))  # here: it may be another of these dicts
        self.lake.run(self._branch.remove(given))

    def copy(self, source: str, path: str, *, ref: str = "") -> LakeFile:
        """The same bytes under another path, without copying them; also from another ref of the repository."""
        return self.lake.run(self._branch.copy(source, path, ref=ref))

    def commit(self, message: str, *, metadata: Mapping[str, str] | None = None, allow_empty: bool = False) -> Commit:
        """Commit the uncommitted changes. Writers can continue during the commit."""
        return self.lake.run(self._branch.commit(message, metadata=metadata, allow_empty=allow_empty))

    def uncommitted(self, *, prefix: str = "") -> Iterator[Change]:
        """Yield the uncommitted changes."""
        return self.lake.iterate(self._branch.uncommitted(prefix=prefix))

    def reset(self, path: str = "") -> None:
        """Discard uncommitted changes: all of them, those below a prefix (ending in /), or of one object."""
        self.lake.run(self._branch.reset(path))

    def revert(self, ref: str, *, parent: int = 0) -> Commit:
        """Undo what a commit did, by a new commit."""
        return self.lake.run(self._branch.revert(ref, parent=parent))

    def delete(self) -> None:
        """Delete the branch and its uncommitted changes."""
        self.lake.run(self._branch.delete())

    @contextmanager
    def transaction(
        self, message: str, *, metadata: Mapping[str, str] | None = None
    ) -> Iterator["BlockingTransaction"]:
        """Changes which become one commit when the block ends; if it raises, nothing has happened."""
        block = self._branch.transaction(message, metadata=metadata)
        changes = self.lake.run(_enter(block))
        try:
            yield BlockingTransaction(self.lake, changes)
        except BaseException as error:
            if not self.lake.run(_exit(block, error)):
                raise
        else:
            self.lake.run(_exit(block, None))


class BlockingTransaction(BlockingBranch):
    """`Transaction`, without `await`."""

    def __init__(self, lake: BlockingLake, changes: Transaction) -> None:
        super().__init__(lake, changes)
        self._changes = changes

    @property
    def committed(self) -> Commit | None:
        """The commit, once the block has ended; None if nothing changed."""
        return self._changes.committed


async def _enter(block: Any) -> Transaction:
    entered: Transaction = await block.__aenter__()
    return entered


async def _exit(block: Any, error: BaseException | None) -> bool:
    try:
        return bool(await block.__aexit__(type(error) if error else None, error, error and error.__traceback__))
    except BaseException as raised:
        if raised is error:
            return False  # raised again where it came from
        raise
