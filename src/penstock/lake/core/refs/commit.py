"""Commits: what a tree was, who made it of which parents, and why.

A commit's id is the SHA-256 of its content: committer, message, tree id, time, parents, metadata and the request that
made it (lake.md, L2: a client that lost an answer finds the commit by that). Not in the id: where the tree is stored,
which garbage collection may have to know but history does not; and the generation, which follows from the parents.
"""

import hashlib
from typing import Final

import msgspec

from penstock.kernel.codec import Codec
from penstock.kernel.errors import ObjectStoreFailed, RemoteError
from penstock.kernel.formats import LAKE_COMMIT, LAKE_TREE, check_version, kind_of_tag
from penstock.lake.core.committed.metarange import TreeAddress
from penstock.lake.core.staging.records import CommitId

__all__ = ["Commit", "commit_id", "commit_key", "decode_commit", "encode_commit", "generation_of"]

_TAG: Final = "penstock commit 1"


class Commit(msgspec.Struct, frozen=True, tag="commit-1"):
    """One commit as it is stored."""

    tree: TreeAddress
    parents: tuple[CommitId, ...]  # a merge's first one is the head it moved
    committer: str
    message: str
    created_ns: int  # since 1970; of the record which asked for it, so that every member sees the same
    metadata: dict[str, str]
    request: str
    generation: int  # 1 more than the highest of its parents


class _CommitOfLeaves(Commit, frozen=True, tag="commit-2"):
    """One whose tree has format 3: a release that does not know leaves must not take it for a tree that is gone."""


_COMMITS: Final = Codec[Commit](Commit | _CommitOfLeaves)


def commit_id(commit: Commit) -> CommitId:
    """The id: a digest of the content, each part with its length so that no two contents read the same."""
    pairs = [text for key in sorted(commit.metadata) for text in (key, commit.metadata[key])]
    parts = [
        _TAG,
        commit.committer,
        commit.message,
        commit.tree.id,
        str(commit.created_ns),
        str(len(commit.parents)),
        *commit.parents,
        commit.request,
        *pairs,
    ]
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return CommitId(digest.hexdigest())


def commit_key(id_: CommitId) -> str:
    """Return where a commit is stored, below the repository's storage namespace."""
    return f"_penstock/commits/{id_}"


def encode_commit(commit: Commit) -> bytes:
    if commit.tree.format == 2:
        return _COMMITS.encode(commit)
    return _COMMITS.encode(_CommitOfLeaves(**msgspec.structs.asdict(commit)))


def decode_commit(data: bytes | memoryview, expected: CommitId) -> Commit:
    """Return the commit in a file, if it is the one that the id names."""
    try:
        commit = _COMMITS.decode(data)
    except RemoteError as error:
        _check_release(data, expected)
        raise ObjectStoreFailed(f"commit {expected} cannot be read: {error.message}", retryable=False) from None
    if commit_id(commit) != expected:
        raise ObjectStoreFailed(f"commit {expected} holds another commit: {commit_id(commit)}", retryable=False)
    check_version(LAKE_TREE, commit.tree.format, f"the tree of commit {expected}")
    return Commit(**msgspec.structs.asdict(commit))


def _check_release(data: bytes | memoryview, expected: CommitId) -> None:
    """Raise `FormatTooNew` if a newer release wrote the commit."""
    try:
        record = msgspec.msgpack.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    tag = kind_of_tag(record.get("type")) if isinstance(record, dict) else None
    if tag is not None and tag[0] == LAKE_COMMIT.magic.decode():
        check_version(LAKE_COMMIT, tag[1], f"commit {expected}")


def generation_of(parents: list[Commit]) -> int:
    """The generation of a commit with these parents."""
    return 1 + max((parent.generation for parent in parents), default=0)
