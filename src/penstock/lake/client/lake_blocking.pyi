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

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from typing import Self

import pandas
import polars
import pyarrow

from penstock.lake.client.lake_place import LakePlace
from penstock.lake.client.lake_repository import AsyncLake, AsyncRef, AsyncRepository, Content, LakeFile
from penstock.lake.records.service import Change, Commit, Strategy
from penstock.plumbing.process.blocking import Blocking

__all__ = ["Branch", "Lake", "Ref", "Repository", "Transaction"]

class Lake(Blocking[AsyncLake]):
    """One lake's server: all its repositories."""

    def __init__(self, place: LakePlace) -> None: ...
    def close_soon(self) -> None:
        """Close the connections later, from any thread: also from that of the event loop."""

    def __repr__(self) -> str: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def close(self) -> None:
        """Close the connections."""

    def repository(self, name: str) -> Repository:
        """Return a repository of the lake. Nothing is asked before one of its methods is called."""

    def repositories(self) -> list[str]:
        """Return the names of all repositories."""

class Repository(Blocking[AsyncRepository]):
    """One repository. Nothing is asked before a method is called."""

    @property
    def name(self) -> str:
        """The repository's name."""

    def branch(self, name: str, *, source: str | None = None) -> Branch:
        """Return a branch; with a source, a new one."""

    def __repr__(self) -> str: ...
    def create(self, *, storage: str = "", default_branch: str = "main", exists_ok: bool = False) -> None:
        """Make it, with an empty default branch."""

    def exists(self) -> bool:
        """Return whether the repository exists."""

    def delete(self) -> None:
        """Delete the repository, its branches and tags. Its objects stay in the store."""

    def ref(self, name: str) -> Ref:
        """Anything that names a commit: a branch, a tag, an id, main~2. To read only."""

    def create_branch(self, name: str, source: str, *, is_hidden: bool = False) -> Branch:
        """Make a branch that begins at a ref."""

    def branches(self) -> list[str]:
        """Return the names of all branches."""

    def tag(self, name: str, ref: str) -> Ref:
        """Make a tag."""

    def delete_tag(self, name: str) -> None:
        """Delete a tag. Its commit stays."""

    def tags(self) -> dict[str, str]:
        """Return all tags with their commit ids."""

    def merge(
        self, source: str, into: str, message: str = "", *, strategy: Strategy = "", squash: bool = False
    ) -> Commit:
        """Merge a ref into a branch. `MergeConflict` names the paths, and nothing has happened."""

class Ref(Blocking[AsyncRef], Mapping[str, bytes]):
    """What a ref shows, as a dict of files."""

    @property
    def name(self) -> str:
        """The ref's name."""

    def __getitem__(self, path: str) -> bytes: ...
    def __contains__(self, path: object) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __repr__(self) -> str: ...
    @property
    def url(self) -> str:
        """The ref as a lake URL, like lake://shop@main."""

    def head(self) -> Commit:
        """The commit it names."""

    def stat(self, path: str) -> LakeFile:
        """Return an object's metadata, without its bytes."""

    def exists(self, path: str) -> bool:
        """Return whether a path has an object."""

    def read(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """An object's bytes, or [start, end) of them."""

    def chunks(self, path: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The same, as it comes. It is one version of the object throughout."""

    def list(self, prefix: str = "", *, delimiter: str = "", limit: int | None = None) -> Iterator[LakeFile]:
        """Objects below a prefix, sorted by path; with a delimiter, folders as one line each."""

    def log(self, *, path: str = "", limit: int | None = None) -> Iterator[Commit]:
        """Yield its history, newest first; with a path, the commits that changed it."""

    def diff(self, other: str, *, prefix: str = "") -> Iterator[Change]:
        """Yield the changes of another ref since the merge base."""

    def dataset(self, path: str) -> pyarrow.dataset.Dataset:
        """Return a file, or all Parquet files of a folder, as a PyArrow dataset: a query reads only the parts it needs.

        Folders named `column=value` are partitions. `NotFound` if the path has neither."""

    def to_arrow(self, path: str, *, columns: Sequence[str] | None = None) -> pyarrow.Table:
        """Return a file, or all Parquet files of a folder, as an Arrow table."""

    def to_polars(self, path: str, *, columns: Sequence[str] | None = None) -> polars.DataFrame:
        """Return a file, or all Parquet files of a folder, as a DataFrame of Polars."""

    def to_pandas(self, path: str, *, columns: Sequence[str] | None = None) -> pandas.DataFrame:
        """Return a file, or all Parquet files of a folder, as a DataFrame of pandas."""

class Branch(Ref, MutableMapping[str, bytes]):
    """A dict of files which can be changed: changes are uncommitted until a commit makes them part of the history."""

    def __setitem__(self, path: str, content: Content) -> None: ...
    def __delitem__(self, path: str) -> None: ...
    def remove(self, paths: Iterable[str]) -> None:
        """Delete objects. Paths which have none are no error."""

    def put(self, path: str, content: Content, *, content_type: str = "", if_absent: bool = False) -> LakeFile:
        """Put an object, whole or not at all. Tables (pandas, Polars, Arrow) become files of the name's format."""

    def copy(self, source: str, path: str, *, ref: str = "") -> LakeFile:
        """The same bytes under another path, without copying them; also from another ref of the repository."""

    def commit(self, message: str, *, metadata: Mapping[str, str] | None = None, allow_empty: bool = False) -> Commit:
        """Commit the uncommitted changes. Writers can continue during the commit."""

    def uncommitted(self, *, prefix: str = "") -> Iterator[Change]:
        """Yield the uncommitted changes."""

    def reset(self, path: str = "") -> None:
        """Discard uncommitted changes: all of them, those below a prefix (ending in /), or of one object."""

    def revert(self, ref: str, *, parent: int = 0) -> Commit:
        """Undo what a commit did, by a new commit."""

    def delete(self) -> None:
        """Delete the branch and its uncommitted changes."""

    def transaction(
        self, message: str, *, metadata: Mapping[str, str] | None = None
    ) -> AbstractContextManager[Transaction]:
        """Changes which become one commit when the block ends; if it raises, nothing has happened."""

class Transaction(Branch):
    """The branch of a transaction."""

    @property
    def committed(self) -> Commit | None:
        """The commit, once the block has ended; None if nothing changed."""
