"""What travels on lakeFS's REST API: bodies which clients send, and how our records look in answers.

The names are lakeFS's. Its clients check strictly: whole numbers are whole, lists come with a `pagination`, metadata is
an object and never null.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import msgspec

from penstock.kernel.bounds import Address, Count, Metadata, Moment, Name, Paragraph, Size, Span
from penstock.lake.core.refs.protection import ACTIONS
from penstock.lake.records.service import (
    Branch,
    Change,
    ChangeKind,
    Commit,
    ImportStatus,
    Lake,
    Object,
    Page,
    Repository,
    Tag,
)
from penstock.plumbing.http.request import Request

__all__ = [
    "BranchBody",
    "CherryPickBody",
    "CommitBody",
    "CopyBody",
    "GarbageBody",
    "ImportBody",
    "LinkBody",
    "LoginBody",
    "MergeBody",
    "MetadataBody",
    "PathsBody",
    "ProtectionBody",
    "RepositoryBody",
    "ResetBody",
    "RevertBody",
    "TagBody",
    "asked",
    "branch_json",
    "change_json",
    "commit_json",
    "import_json",
    "object_json",
    "page_json",
    "repository_json",
]

AMOUNT_MAX = 1000
T = TypeVar("T")
Json = dict[str, Any]


# bodies


class RepositoryBody(msgspec.Struct):
    """Make a repository."""

    name: Name
    storage_namespace: Address
    default_branch: Name = "main"
    sample_data: bool | None = False
    read_only: bool | None = False
    storage_id: Name | None = ""


class ProtectionBody(msgspec.Struct):
    """A rule of branch protection. lakeFS's rules block both actions; `blocks` is ours."""

    pattern: Name
    blocks: Annotated[tuple[Name, ...], msgspec.Meta(max_length=10)] = ACTIONS


class BranchBody(msgspec.Struct):
    """Make a branch."""

    name: Name
    source: Name
    hidden: bool | None = False
    force: bool | None = False


class TagBody(msgspec.Struct):
    """Make a tag."""

    id: Name
    ref: Name
    force: bool | None = False


class CommitBody(msgspec.Struct):
    """Commit the uncommitted changes."""

    message: Paragraph = ""
    metadata: Metadata | None = None
    date: Moment | None = None
    allow_empty: bool | None = False
    force: bool | None = False


class MergeBody(msgspec.Struct):
    """Merge a ref into a branch."""

    message: Paragraph | None = ""
    metadata: Metadata | None = None
    strategy: Name | None = ""
    force: bool | None = False
    allow_empty: bool | None = False
    squash_merge: bool | None = False


class RevertBody(msgspec.Struct):
    """Undo a commit."""

    ref: Name
    parent_number: Count = 0
    allow_empty: bool | None = False
    force: bool | None = False


class CherryPickBody(msgspec.Struct):
    """Do again what a commit did."""

    ref: Name
    parent_number: Count | None = 0
    force: bool | None = False


class ResetBody(msgspec.Struct):
    """Discard uncommitted changes."""

    type: Name
    path: Paragraph | None = ""
    force: bool | None = False


class PathsBody(msgspec.Struct):
    """Delete several objects."""

    paths: list[Paragraph]


class CopyBody(msgspec.Struct):
    """Copy an object."""

    src_path: Paragraph
    src_ref: Name | None = ""
    force: bool | None = False
    shallow: bool | None = False


class MetadataBody(msgspec.Struct):
    """Replace the metadata of an object."""

    set: Metadata
    force: bool | None = False


class Staging(msgspec.Struct):
    """The address of a two-phase upload."""

    physical_address: Address = ""


class LinkBody(msgspec.Struct):
    """Phase two of an upload."""

    staging: Staging
    checksum: Name
    size_bytes: Size
    user_metadata: Metadata | None = None
    content_type: Name | None = ""
    mtime: Moment | None = None
    force: bool | None = False


class GarbageBody(msgspec.Struct):
    """Collect garbage."""

    grace_seconds: Span = 3600.0


class ImportLocation(msgspec.Struct):
    """One thing to import."""

    path: Address
    destination: Name
    type: Name


class ImportCommit(msgspec.Struct):
    """The commit of an import."""

    message: Paragraph = ""
    metadata: Metadata | None = None


class ImportBody(msgspec.Struct):
    """Import objects without copying them."""

    paths: Annotated[list[ImportLocation], msgspec.Meta(max_length=1_000)]
    commit: ImportCommit
    force: bool | None = False
    allow_empty: bool = True  # ours: lakeFS commits also where nothing was found, or nothing changes


class LoginBody(msgspec.Struct):
    """A key for a token."""

    access_key_id: Name
    secret_access_key: Name


def asked(lake: Lake, request: Request, body: Any = None) -> Lake:
    """Return the lake for a request: one that says `force` changes read-only repositories too."""
    is_forced = bool(getattr(body, "force", False)) or (request.query_value("force") or "").lower() == "true"
    return lake.asked_by(force=True) if is_forced else lake


# answers


def page_json(page: Page[T], show: Callable[[T], Json]) -> Json:
    return list_json((show(each) for each in page.results), page.next)


def list_json(results: Iterable[Json], next_offset: str = "") -> Json:
    shown = list(results)
    pagination = {
        "has_more": next_offset != "",
        "next_offset": next_offset,
        "results": len(shown),
        "max_per_page": AMOUNT_MAX,
    }
    return {"pagination": pagination, "results": shown}


def repository_json(repository: Repository) -> Json:
    return {
        "id": repository.name,
        "storage_id": "",
        "storage_namespace": repository.storage,
        "default_branch": repository.default_branch,
        "creation_date": int(repository.created_at),
        "read_only": repository.is_read_only,
    }


def branch_json(ref: Branch | Tag) -> Json:
    return {"id": ref.name, "commit_id": ref.commit}


def commit_json(commit: Commit) -> Json:
    return {
        "id": commit.id,
        "parents": commit.parents,
        "committer": commit.committer,
        "message": commit.message,
        "creation_date": int(commit.created_at),
        "meta_range_id": commit.metarange,
        "metadata": commit.metadata,
        "generation": commit.generation,
        "version": 1,
    }


def object_json(found: Object, *, with_metadata: bool = True) -> Json:
    entry = found.entry
    if entry is None:
        return {"path": found.path, "path_type": "common_prefix", "physical_address": "", "checksum": "", "mtime": 0}
    shown = {
        "path": found.path,
        "path_type": "object",
        "physical_address": found.address,
        "checksum": entry.etag,
        "size_bytes": entry.size,
        "mtime": entry.mtime_ns // 1_000_000_000,
        "content_type": entry.content_type,
    }
    if with_metadata:
        shown["metadata"] = found.metadata
    return shown


def change_json(change: Change, *, with_right: bool = False) -> Json:
    shown: Json = {
        "type": change.kind.value,
        "path": change.path,
        "path_type": "common_prefix" if change.kind is ChangeKind.PREFIX_CHANGED else "object",
        "size_bytes": change.entry.size if change.entry is not None else 0,
    }
    if with_right and change.entry is not None:
        shown["right"] = {
            "checksum": change.entry.etag,
            "mtime": change.entry.mtime_ns // 1_000_000_000,
            "content_type": change.entry.content_type,
        }
    return shown


def import_json(status: ImportStatus) -> Json:
    # To lakeFS's clients completed means that it worked: they look for an error only where it is not.
    shown: Json = {
        "completed": status.commit is not None,
        "update_time": datetime.fromtimestamp(status.updated_at, UTC).isoformat(),
        "ingested_objects": status.objects,
    }
    if status.commit is not None:
        shown["commit"] = commit_json(status.commit)
        shown["metarange_id"] = status.commit.metarange
    if status.error is not None:
        shown["error"] = {"message": status.error.message, "penstock": status.error}
    return shown
