"""What a ref of the lake holds, as places Spark can read: the files of a table, the files which differ, the ranges.

Resolved once, to a commit: whatever is committed meanwhile, all pages and files are of that one.
"""

from datetime import UTC, datetime
from typing import Any, Final, Literal
from urllib.parse import unquote, urlsplit

import msgspec

from penstock.kernel.errors import NotFound
from penstock.lake.client.lake import LakeUrl
from penstock.lake.records.sink_batch import TABLE_SCHEMA, TreePlace
from penstock.spark.tables.lake_access import LakeAccess

__all__ = [
    "ChangedFile",
    "Moment",
    "TableFile",
    "TableFiles",
    "changed_files",
    "files_of",
    "key_of",
    "place_at",
    "spark_root",
    "spark_url",
]

Moment = datetime | str | None  # a time, as ISO 8601 if it is text
_SCHEMES: Final = {"s3": "s3a"}  # what Hadoop calls them


class TableFile(msgspec.Struct, frozen=True):
    """One file: its path in the lake, and where its bytes are."""

    path: str
    url: str
    size: int
    modified: int = 0


class TableFiles(msgspec.Struct, frozen=True):
    """The files of a table at a commit, by path."""

    place: TreePlace
    files: tuple[TableFile, ...]
    schema_etag: str = ""  # of the file that has the table's columns; empty: there is none

    @property
    def newest(self) -> TableFile:
        return max(self.files, key=lambda each: (each.modified, each.path))


class ChangedFile(msgspec.Struct, frozen=True):
    """A file which one side has and the other has not."""

    file: TableFile
    kind: Literal["insert", "delete"]


def place_at(access: LakeAccess, target: LakeUrl, as_of: Moment = None) -> TreePlace:
    """The tree a ref names; with a time, what its branch was then."""
    url = target if as_of is None else LakeUrl(target.repository, _commit_at(access, target, as_of), target.path)
    return msgspec.convert(access.ask("GET", f"{url.ref_api}/tree"), TreePlace)


def files_of(access: LakeAccess, target: LakeUrl, as_of: Moment = None) -> TableFiles:
    """The files of a table."""
    place = place_at(access, target, as_of)
    at = LakeUrl(target.repository, place.commit)
    found = access.pages(f"{at.ref_api}/objects/ls", prefix=target.path)
    files = [
        TableFile(each["path"], spark_url(place, each["physical_address"]), each["size_bytes"], each["mtime"])
        for each in found
        if _is_data(each["path"])
    ]
    etags = (each["checksum"] for each in found if each["path"] == target.path + TABLE_SCHEMA)
    return TableFiles(place, tuple(files), next(etags, ""))


def changed_files(access: LakeAccess, target: LakeUrl, since: str, until: str) -> tuple[ChangedFile, ...]:
    """Return the changes of a table between two commits; a changed file is gone, and came as a new one."""
    old, new = (place_at(access, LakeUrl(target.repository, ref)) for ref in (since, until))
    inserted = _one_way(access, target, old, new)
    deleted = _one_way(access, target, new, old)
    return (
        *(ChangedFile(each, "delete") for each in deleted),
        *(ChangedFile(each, "insert") for each in inserted),
    )


def _one_way(access: LakeAccess, target: LakeUrl, left: TreePlace, right: TreePlace) -> list[TableFile]:
    """The files which the right side has, and the left has not, or not so."""
    api = f"{LakeUrl(target.repository, left.commit).ref_api}/tree/diff/{right.commit}"
    return [
        TableFile(each["path"], spark_url(right, _full(right, each["address"])), each["size_bytes"])
        for each in access.pages(api, prefix=target.path)
        if not each["removed"] and _is_data(each["path"])
    ]


def spark_root(store: str) -> str:
    """Return Spark's spelling of a store. A local path is spelled out: Hadoop takes percent signs literally.

    >>> spark_root("file:///data/my%20objects"), spark_root("s3://shop/lake?region=eu-central-1")
    ('file:///data/my objects/', 's3a://shop/lake/')
    """
    parts = urlsplit(store)
    if parts.scheme == "file":
        return f"file://{unquote(parts.path).rstrip('/')}/"
    scheme = _SCHEMES.get(parts.scheme, parts.scheme)
    return f"{scheme}://{parts.netloc}{parts.path}".rstrip("/") + "/"


def spark_url(place: TreePlace, address: str) -> str:
    """A full address as Spark reads it."""
    if address.startswith(place.prefix):
        return spark_root(place.store) + address[len(place.prefix) :]
    return address.replace("s3://", "s3a://", 1) if address.startswith("s3://") else address


def key_of(place: TreePlace, file: TableFile) -> str:
    """Return a file's key in the lake's own store."""
    return file.url.removeprefix(spark_root(place.store))


def _full(place: TreePlace, address: str) -> str:
    return address if "://" in address else f"{place.storage}/{address}"


def _is_data(path: str) -> bool:
    """Return whether Spark takes a path for data: a name that begins with _ or . is none."""
    return path.rpartition("/")[2][:1] not in ("_", ".", "")


def _commit_at(access: LakeAccess, target: LakeUrl, as_of: datetime | str) -> str:
    moment = datetime.fromisoformat(as_of) if isinstance(as_of, str) else as_of
    seconds = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    after = ""
    while True:
        page: Any = access.ask(
            "GET", f"{target.ref_api}/commits", first_parent=True, amount=1000, limit=True, after=after
        )
        for each in page["results"]:
            if each["creation_date"] <= seconds:
                return str(each["id"])
        if len(page["results"]) < 1000:
            raise NotFound(f"{target.ref} of {target.repository} has no commit as old as {moment.isoformat()}")
        after = page["results"][-1]["id"]
