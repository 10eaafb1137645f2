"""The lake as a service: what REST, the S3 gateway, the command line and the Python API ask for. Design: lake.md.

    lake: Lake
    await lake.create_repository("shop")
    await lake.put("shop", "main", "prices.csv", b"...")
    commit = await lake.commit("shop", "main", "new prices")
    async with lake.open("shop", "main@", "prices.csv") as reading:
        async for chunk in reading.chunks: ...

What always holds: a call which returned has taken effect, and every call begun afterwards, through any member, sees it
(reads are linearizable; `stale_ok` gives that up for speed). A call which raised did nothing, unless the error says
`written` is unknown. A `ref` is a branch, a tag, a commit id or an expression on one (`main~2`, `v1^2`, `main@`).

Errors: `NotFound` (its `details["kind"]` says of what: repository, branch, tag, ref, commit, object, upload),
`AlreadyExists`, `PreconditionFailed` (an If-Match or If-None-Match that does not hold), `NoChanges`, `DirtyBranch`,
`MergeConflict` (`details["paths"]`), `Gone` (the garbage collector has it), `Forbidden` (the default branch, a
protected one, a read-only repository), and `InvalidArgument`.
"""

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import Enum
from typing import Generic, Literal, Protocol, TypeVar

import msgspec

from penstock.kernel.errors import ErrorRecord
from penstock.lake.core.refs.protection import ProtectionRule
from penstock.lake.core.refs.rules import RetentionRules
from penstock.lake.core.staging.entry import Entry
from penstock.lake.core.staging.records import Precondition
from penstock.lake.records.sink_batch import BatchBody, BatchOutcome, Roots, SinkBody, SinkPlace, TreeBody, TreePlace
from penstock.plumbing.objects.port import Buffer, ObjectStore

__all__ = [
    "AMOUNT_MAX",
    "Branch",
    "Change",
    "ChangeKind",
    "Commit",
    "Content",
    "Diffed",
    "Garbage",
    "ImportPath",
    "ImportStatus",
    "Lake",
    "Object",
    "Page",
    "Progress",
    "Reading",
    "Repository",
    "Strategy",
    "Tag",
    "UploadAddress",
]

AMOUNT_MAX = 1000  # of results in one page
T = TypeVar("T")

Content = Buffer | AsyncIterable[Buffer]  # whole, or as it comes
Strategy = Literal["", "source-wins", "dest-wins"]


class Progress(msgspec.Struct, frozen=True):
    """How far long work is. `total` is 0 while it is not known."""

    phase: str
    done: int = 0
    total: int = 0


Watch = Callable[[Progress], None]


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A part of a sorted list. `next` is the `after` of the following part; empty at the end."""

    results: Sequence[T]
    next: str = ""

    @property
    def has_more(self) -> bool:
        return self.next != ""


class Repository(msgspec.Struct, frozen=True):
    """A repository."""

    name: str
    storage: str  # its storage namespace, as it was given
    default_branch: str
    created_at: float = 0.0  # seconds since 1970
    is_read_only: bool = False


class Branch(msgspec.Struct, frozen=True):
    """A branch and its head."""

    name: str
    commit: str
    is_hidden: bool = False


class Tag(msgspec.Struct, frozen=True):
    """A tag."""

    name: str
    commit: str


class Object(msgspec.Struct, frozen=True):
    """A line of a list: an object; or a common prefix, which has no entry and ends in the delimiter."""

    path: str
    entry: Entry | None
    address: str = ""  # where the bytes are, in full
    key: str = ""  # the same as a key of `Lake.store`; empty if they are not in it

    @property
    def is_prefix(self) -> bool:
        return self.entry is None

    @property
    def metadata(self) -> dict[str, str]:
        text = self.entry.metadata if self.entry is not None else ""
        return msgspec.json.decode(text, type=dict[str, str]) if text else {}


class Reading(msgspec.Struct, frozen=True):
    """An object being read: its metadata, the range of its bytes, and the bytes. They are of one version throughout."""

    object: Object
    start: int
    end: int
    chunks: AsyncGenerator[memoryview, None]


class Commit(msgspec.Struct, frozen=True):
    """A commit."""

    id: str
    parents: tuple[str, ...]
    message: str
    committer: str
    created_at: float  # seconds since 1970
    metadata: dict[str, str]
    metarange: str  # the id of its tree: equal trees have equal ids
    generation: int = 0

    def __repr__(self) -> str:
        first, _, rest = self.message.partition("\n")
        return f"Commit({self.id[:12]} {first[:60] + ('…' if rest or first[60:] else '')!r})"

    def _repr_html_(self) -> str:
        from datetime import UTC, datetime

        from penstock.kernel.notebook import html_table

        rows = [("commit", self.id), ("message", self.message), ("committer", self.committer)]
        rows += [("created", str(datetime.fromtimestamp(self.created_at, UTC))), *sorted(self.metadata.items())]
        return html_table((), rows)


class ChangeKind(Enum):
    """How a path differs."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    CONFLICT = "conflict"
    PREFIX_CHANGED = "prefix_changed"  # something below this common prefix differs


class Change(msgspec.Struct, frozen=True):
    """A path which differs, with its entry on the right side if it has one there."""

    path: str
    kind: ChangeKind
    entry: Entry | None = None


Diffed = Page[Change]


class UploadAddress(msgspec.Struct, frozen=True):
    """Where the bytes of a two-phase upload go; `link` takes the address back. It is good for a garbage period."""

    address: str  # in full, signed
    key: str  # the same as a key of `Lake.store`
    url: str = ""  # to PUT to, where the store can sign
    expires_at: float = 0.0


class ImportPath(msgspec.Struct, frozen=True):
    """Objects that exist already: one, or all below a prefix. `source` is a full address."""

    source: str
    destination: str
    is_prefix: bool = False


class ImportStatus(msgspec.Struct, frozen=True):
    """How an import goes: under way until it has a commit, or an error which says why it has none."""

    id: str
    updated_at: float
    objects: int = 0
    commit: Commit | None = None
    error: ErrorRecord | None = None


class Garbage(msgspec.Struct, frozen=True):
    """What a run of the garbage collector found, or would delete."""

    objects: int
    bytes: int
    examples: tuple[str, ...]
    is_dry_run: bool
    too_young: int = 0  # objects which nothing refers to, but which may still be linked, or wait for another run


class Lake(Protocol):
    """Every method is safe to call from any task of the loop; names are checked (`InvalidArgument`)."""

    @property
    def store(self) -> ObjectStore:
        """The store of all bytes. Keys below `scratch/` may be used by any part of the lake, and live a day at most."""
        ...

    def asked_by(self, user: str | None = None, *, force: bool = False) -> "Lake":
        """Return the same lake for a user, who commits; with `force`, read-only repositories take its changes."""
        ...

    # repositories

    async def create_repository(
        self, name: str, *, storage: str = "", default_branch: str = "main", is_read_only: bool = False,
        with_samples: bool = False,
    ) -> Repository: ...  # fmt: skip

    async def repository(self, name: str) -> Repository: ...

    async def repositories(self, *, prefix: str = "", after: str = "", limit: int = AMOUNT_MAX) -> Page[Repository]: ...

    async def delete_repository(self, name: str) -> None: ...

    async def protection(self, repository: str) -> Sequence[ProtectionRule]:
        """Return the rules of branch protection."""
        ...

    async def set_protection(
        self, repository: str, rules: Sequence[ProtectionRule], *, expected: str | None = None
    ) -> None:
        """Replace the rules, if those in force are the expected ones (`etag_of`). Every member decides it at apply."""
        ...

    # branches and tags

    async def create_branch(self, repository: str, name: str, source: str, *, is_hidden: bool = False) -> Branch: ...

    async def branch(self, repository: str, name: str) -> Branch: ...

    async def branches(
        self, repository: str, *, prefix: str = "", after: str = "", limit: int = AMOUNT_MAX, show_hidden: bool = False
    ) -> Page[Branch]: ...

    async def delete_branch(self, repository: str, name: str) -> None: ...

    async def create_tag(self, repository: str, name: str, ref: str) -> Tag: ...

    async def tag(self, repository: str, name: str) -> Tag: ...

    async def tags(
        self, repository: str, *, prefix: str = "", after: str = "", limit: int = AMOUNT_MAX
    ) -> Page[Tag]: ...

    async def delete_tag(self, repository: str, name: str) -> None: ...

    async def reset(self, repository: str, branch: str, *, path: str = "", prefix: str = "") -> None:
        """Discard uncommitted changes: under a path, below a prefix, or all of them."""
        ...

    async def hard_reset(self, repository: str, branch: str, ref: str) -> None:
        """Set the head to a commit, and discard uncommitted changes."""
        ...

    # objects

    async def head(self, repository: str, ref: str, path: str, *, stale_ok: bool = False) -> Object:
        """Return the object under a path, without its bytes."""
        ...

    def open(
        self, repository: str, ref: str, path: str, start: int = 0, end: int | None = None
    ) -> AbstractAsyncContextManager[Reading]:
        """An object with its bytes, or [start, end) of them; a negative start counts from the end."""
        ...

    async def read(self, repository: str, ref: str, path: str, start: int = 0, end: int | None = None) -> Reading:
        """The same without a context: nothing is open before the first chunk is taken; then `aclose` the chunks."""
        ...

    async def list(
        self, repository: str, ref: str, *, prefix: str = "", after: str = "", delimiter: str = "",
        limit: int = AMOUNT_MAX, stale_ok: bool = False,
    ) -> Page[Object]:  # fmt: skip
        """List the objects of a ref, sorted by path; with a delimiter, all paths below a common prefix are one line."""
        ...

    async def put(
        self, repository: str, branch: str, path: str, content: Content, *, content_type: str = "",
        metadata: Mapping[str, str] | None = None, when: Precondition | None = None, etag: str = "",
    ) -> Object:  # fmt: skip
        """Upload and link. The ETag is the MD5 of the bytes in hexadecimal digits, unless one is given."""
        ...

    async def delete(
        self, repository: str, branch: str, paths: Iterable[str], *, when: Precondition | None = None
    ) -> None:
        """Delete objects; missing paths are no error. A precondition is for one path."""
        ...

    async def copy(
        self, repository: str, branch: str, path: str, *, source_ref: str, source_path: str,
        metadata: Mapping[str, str] | None = None, content_type: str | None = None, when: Precondition | None = None,
    ) -> Object:  # fmt: skip
        """The same bytes under another path, without copying them; metadata and content type are kept if not given."""
        ...

    async def upload_address(self, repository: str, branch: str, path: str, *, sign: bool = False) -> UploadAddress:
        """Phase one of an upload: where its bytes go."""
        ...

    async def link(
        self, repository: str, branch: str, path: str, address: str, *, size: int, etag: str, content_type: str = "",
        metadata: Mapping[str, str] | None = None, mtime: float | None = None, when: Precondition | None = None,
    ) -> Object:  # fmt: skip
        """Phase two: make the uploaded file the object under the path."""
        ...

    async def read_entry(self, repository: str, path: str, entry: Entry, start: int, end: int) -> Reading:
        """The bytes [start, end) of an entry that was shown before, whatever is under its path now."""
        ...

    # uploads to an address that was given out

    async def upload_to(
        self, repository: str, branch: str, path: str, address: str, content: AsyncIterable[Buffer]
    ) -> tuple[int, str]:
        """Write the bytes there; return their number and MD5."""
        ...

    async def begin_parts(self, repository: str, branch: str, path: str) -> str: ...

    async def put_part(
        self, repository: str, branch: str, id_: str, number: int, content: AsyncIterable[Buffer]
    ) -> str:
        """Write a part and return its ETag; the last one under a number wins."""
        ...

    async def finish_parts(
        self, repository: str, branch: str, path: str, id_: str, address: str, parts: Sequence[tuple[int, str]]
    ) -> tuple[int, str]:
        """Make one file of the parts, given by number and ETag; return its size and ETag, to be linked."""
        ...

    async def drop_parts(self, id_: str) -> None: ...

    # commits

    async def commit(
        self, repository: str, branch: str, message: str, *, metadata: Mapping[str, str] | None = None,
        committer: str = "", allow_empty: bool = False, created_at: float | None = None, watch: Watch | None = None,
    ) -> Commit: ...  # fmt: skip

    async def get_commit(self, repository: str, ref: str) -> Commit: ...

    async def log(
        self, repository: str, ref: str, *, after: str = "", limit: int = AMOUNT_MAX, first_parent: bool = False,
        since: float | None = None, stop_at: str = "", paths: Sequence[str] = (), prefixes: Sequence[str] = (),
    ) -> Page[Commit]:  # fmt: skip
        """A ref's history, newest first; with paths or prefixes, the commits which changed something there."""
        ...

    async def uncommitted(
        self, repository: str, branch: str, *, prefix: str = "", after: str = "", delimiter: str = "",
        limit: int = AMOUNT_MAX,
    ) -> Diffed: ...  # fmt: skip

    async def diff(
        self, repository: str, left: str, right: str, *, three_dot: bool = True, prefix: str = "", after: str = "",
        delimiter: str = "", limit: int = AMOUNT_MAX,
    ) -> Diffed:  # fmt: skip
        """Return the differences of `right`; with three dots, since the merge base."""
        ...

    async def merge(
        self, repository: str, source: str, branch: str, *, message: str = "",
        metadata: Mapping[str, str] | None = None, committer: str = "", strategy: Strategy = "",
        allow_empty: bool = False, squash: bool = False, watch: Watch | None = None,
    ) -> Commit: ...  # fmt: skip

    async def merge_base(self, repository: str, left: str, right: str) -> str: ...

    async def revert(
        self, repository: str, branch: str, ref: str, *, parent: int = 0, committer: str = "",
        allow_empty: bool = False,
    ) -> Commit:  # fmt: skip
        """Undo what a commit did against its parent (which must be named, from 1, if it has several)."""
        ...

    async def cherry_pick(
        self, repository: str, branch: str, ref: str, *, parent: int = 0, committer: str = ""
    ) -> Commit: ...

    # sinks: what Spark writes, and how it finds what to read

    async def sink_place(self, repository: str, branch: str) -> SinkPlace: ...

    async def sinks(self, repository: str, branch: str) -> Sequence[SinkBody]: ...

    async def commit_batch(self, repository: str, branch: str, body: BatchBody) -> BatchOutcome:
        """Commit a batch of a sink once; `PreconditionFailed` if it is neither the next nor the last."""
        ...

    async def stage_file(self, repository: str, branch: str, address: str, content: AsyncIterable[bytes]) -> int:
        """Write a file of a batch for a task that cannot see the store; return its size."""
        ...

    async def stage_list(self, repository: str, branch: str, id_: str, data: bytes) -> None:
        """Write the list of a batch for a driver that cannot see the store."""
        ...

    async def commit_tree(self, repository: str, branch: str, body: TreeBody) -> BatchOutcome:
        """Commit a tree which was built elsewhere in place of whatever the branch has below a prefix; once."""
        ...

    async def adopt_sink(self, repository: str, branch: str, body: SinkBody) -> None: ...

    async def forget_sink(self, repository: str, branch: str, sink: str) -> None: ...

    async def tree_place(self, repository: str, ref: str) -> TreePlace: ...

    # imports and garbage

    async def start_import(
        self, repository: str, branch: str, paths: Sequence[ImportPath], message: str, *,
        metadata: Mapping[str, str] | None = None, committer: str = "", allow_empty: bool = False,
    ) -> str: ...  # fmt: skip

    async def import_status(self, repository: str, branch: str, id: str) -> ImportStatus: ...

    async def cancel_import(self, repository: str, branch: str, id: str) -> None: ...

    async def retention(self, repository: str) -> RetentionRules | None: ...

    async def set_retention(self, repository: str, rules: RetentionRules | None) -> None:
        """Set the rules for giving up old history: without any, everything that a branch or a tag reaches is kept."""
        ...

    async def find_garbage(self, repository: str) -> Garbage:
        """Return the objects that the garbage collector would delete: a dry run."""
        ...

    async def garbage_roots(self, repository: str) -> Roots:
        """Return the roots of the garbage, for a process that compares by itself."""
        ...

    async def collect_garbage(self, repository: str, *, grace_s: float = 3600.0, watch: Watch | None = None) -> Garbage:
        """Run the garbage collector once: delete objects that nothing refers to, or can come to refer to.

        A deleted object was unmarked already in an earlier run, at least `grace_s` seconds ago. `Overloaded` if another
        collector is at work: nothing was deleted.
        """
        ...
