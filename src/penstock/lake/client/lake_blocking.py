"""The lake from Python without `await`: a ref is a dict of files, a branch one that can be changed.

    shop = Lake(find_lake()).repository("shop")
    main = shop.branch("main")
    main["prices/2026.csv"] = Path("prices.csv")        # or bytes, or a file opened for reading
    for path in main: ...                                # sorted; also in, len, items, del
    main.commit("new prices")
    with main.transaction("all of it, or nothing") as changes:
        changes["a"] = b"..."

A path which has no object raises KeyError, as dicts do. One background thread runs the event loop of all of them; calls
may come from any thread. The methods are those of `lake_repository.py`.
"""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping

from penstock.kernel.errors import NotFound
from penstock.lake.client.lake_place import LakePlace
from penstock.lake.client.lake_repository import (
    AsyncBranch,
    AsyncLake,
    AsyncRef,
    AsyncRepository,
    AsyncTransaction,
    Content,
)
from penstock.lake.records.service import Commit
from penstock.plumbing.process.blocking import Blocking, blocking
from penstock.plumbing.process.loop_thread import LoopThread

__all__ = ["Branch", "Lake", "Ref", "Repository", "Transaction"]


@blocking(AsyncLake)
class Lake(Blocking[AsyncLake]):
    """One lake's server: all its repositories."""

    def __init__(self, place: LakePlace) -> None:
        super().__init__(AsyncLake(place))

    def close_soon(self) -> None:
        """Close the connections later, from any thread: also from that of the event loop."""
        LoopThread.shared().start(self._async.close())


@blocking(AsyncRepository)
class Repository(Blocking[AsyncRepository]):
    """One repository. Nothing is asked before a method is called."""

    @property
    def name(self) -> str:
        """The repository's name."""
        return self._async.name

    def branch(self, name: str, *, source: str | None = None) -> "Branch":
        """Return a branch; with a source, a new one."""
        if source is not None:
            return self.create_branch(name, source)
        return Branch(self._async.branch(name))


@blocking(AsyncRef)
class Ref(Blocking[AsyncRef], Mapping[str, bytes]):
    """What a ref shows, as a dict of files."""

    @property
    def name(self) -> str:
        """The ref's name."""
        return self._async.name

    def __getitem__(self, path: str) -> bytes:
        try:
            return self.read(path)
        except NotFound as error:
            if error.details.get("kind", "object") != "object":
                raise
            raise KeyError(path) from None

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and self.exists(path)

    def __iter__(self) -> Iterator[str]:
        return (each.path for each in self.list())

    def __len__(self) -> int:
        return sum(1 for _ in self.list())


@blocking(AsyncBranch)
class Branch(Ref, MutableMapping[str, bytes]):
    """A dict of files which can be changed: changes are uncommitted until a commit makes them part of the history."""

    _async: AsyncBranch

    def __setitem__(self, path: str, content: Content) -> None:
        self.put(path, content)

    def __delitem__(self, path: str) -> None:
        if path not in self:
            raise KeyError(path)
        self.remove([path])

    def remove(self, paths: Iterable[str]) -> None:
        """Delete objects. Paths which have none are no error."""
        given = list(iter(paths))  # here: it may be another of these dicts
        LoopThread.shared().run(self._async.remove(given))


@blocking(AsyncTransaction)
class Transaction(Branch):
    """The branch of a transaction."""

    _async: AsyncTransaction

    @property
    def committed(self) -> Commit | None:
        """The commit, once the block has ended; None if nothing changed."""
        return self._async.committed
