"""What the KeySpace holds and tells: keys with their revisions, changes, batches of changes, leases.

Design: transactional-appends.rst (KeySpace, Revision) and etcd's data model, which every backend follows.

A `Revision` numbers the states of the whole KeySpace. An empty one is at `FIRST_REVISION`; each transaction that
changes anything takes the next number, without gaps, and all its changes have that one revision. A key's
`create_revision` tells its lives apart: a key deleted and created again has another one, however fast it went
(gazette.md §5.4).
"""

from typing import NewType

import msgspec

from penstock.kernel.ids import Revision

__all__ = [
    "FIRST_REVISION",
    "NO_LEASE",
    "NO_REVISION",
    "KeyChange",
    "KeySnapshot",
    "KeySpaceStatus",
    "KeyValue",
    "Lease",
    "LeaseId",
    "LeaseStatus",
    "WatchBatch",
]

LeaseId = NewType("LeaseId", int)

NO_LEASE = LeaseId(0)
NO_REVISION = Revision(0)  # what a key that does not exist has as create_revision and mod_revision
FIRST_REVISION = Revision(1)


class KeyValue(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A key and its value at some revision."""

    key: str
    value: bytes
    create_revision: Revision  # which transaction made this life of the key
    mod_revision: Revision  # which transaction put this value
    version: int  # how many values this life has had, from 1
    lease: LeaseId = NO_LEASE  # the key vanishes with it


class KeyChange(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One key at one revision: put, or removed."""

    revision: Revision
    key: str
    now: KeyValue | None  # None: the key is gone


class WatchBatch(msgspec.Struct, frozen=True, array_like=True):
    """Changes under a prefix, of whole revisions only, sorted by revision and then by key.

    Without changes it is a progress notification. Either way the watch has now shown every change up to `revision`.
    """

    revision: Revision
    changes: tuple[KeyChange, ...] = ()


class KeySnapshot(msgspec.Struct, frozen=True, array_like=True):
    """All keys under a prefix at one revision, sorted by key."""

    revision: Revision
    entries: tuple[KeyValue, ...]


class Lease(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A lease as it was granted or renewed."""

    id: LeaseId
    ttl_ms: int  # how long it lives without being renewed; may be more than was asked for


class LeaseStatus(msgspec.Struct, frozen=True, array_like=True):
    """The time that a lease has left, and its keys."""

    id: LeaseId
    ttl_ms: int
    remaining_ms: int
    keys: tuple[str, ...]  # sorted


class KeySpaceStatus(msgspec.Struct, frozen=True, array_like=True):
    """Which KeySpace this is, and how far it has come."""

    store_id: str  # differs between any two KeySpaces; the same for the life of one
    revision: Revision
    # history up to here is gone; NO_REVISION if all of it is kept. etcd does not report this: NO_REVISION
    compacted: Revision
