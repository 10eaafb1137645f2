"""Queries of the store: keys now and at a revision, changes since a revision, leases. Blocking.

Each method of `Queries` sees one state of the store: several statements run in one read transaction, or inside the
caller's write transaction.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from penstock.kernel.errors import Compacted, LeaseExpired, PreconditionFailed
from penstock.kernel.ids import Revision
from penstock.keyspace.core.envelope import check_value
from penstock.keyspace.core.keys import prefix_end
from penstock.keyspace.core.records import KeyChange, KeySnapshot, KeySpaceStatus, KeyValue, LeaseId, WatchBatch

__all__ = ["LeaseRow", "Queries"]

_COLUMNS: Final = "v.key, v.value, v.create_revision, v.revision, v.version, v.lease, v.sum"
_NOW: Final = f"SELECT {_COLUMNS} FROM live JOIN version AS v USING (key, revision) WHERE"
# SQLite takes the bare columns from the row which has the maximum.
_AT: Final = (
    "SELECT v.key, v.value, v.create_revision, max(v.revision), v.version, v.lease, v.sum FROM version AS v WHERE"
)
_SINCE: Final = (
    f"SELECT {_COLUMNS} FROM version AS v INDEXED BY version_by_revision WHERE v.revision > ? AND v.revision"
)


class LeaseRow(NamedTuple):
    """A lease as it is stored."""

    id: LeaseId
    ttl_ms: int
    clock: str
    deadline_ns: int


class Queries:
    """Reads one store through one connection. Each value that it returns has the sum that it was put with."""

    def __init__(self, connection: sqlite3.Connection, where: str) -> None:
        """`where`: the store's folder, as errors name it."""
        self.execute = connection.execute
        self._where = where
        self._connection = connection

    def status(self) -> KeySpaceStatus:
        store_id, revision, compacted = self.execute("SELECT store_id, revision, compacted FROM state").fetchone()
        return KeySpaceStatus(store_id, Revision(revision), Revision(compacted))

    def get(self, key: str, at: Revision | None = None) -> KeyValue | None:
        if at is None:
            row = self.execute(f"{_NOW} live.key = ?", (key.encode(),)).fetchone()
            return None if row is None else self._entry(row)
        with self._one_state():
            self._check_revision(at)
            row = self.execute(f"{_AT} v.key = ? AND v.revision <= ?", (key.encode(), at)).fetchone()
            return None if row[1] is None else self._entry(row)

    def range(self, prefix: str) -> Iterator[KeyValue]:
        """Return all present keys under a prefix, sorted."""
        condition, values = _under(prefix, "live.key")
        return map(self._entry, self.execute(f"{_NOW} {condition} ORDER BY live.key", values))

    def snapshot(self, prefix: str, at: Revision | None = None) -> KeySnapshot:
        with self._one_state():
            if at is None:
                return KeySnapshot(self.status().revision, tuple(self.range(prefix)))
            self._check_revision(at)
            condition, values = _under(prefix, "v.key")
            rows = self.execute(f"{_AT} {condition} AND v.revision <= ? GROUP BY v.key ORDER BY v.key", (*values, at))
            return KeySnapshot(at, tuple(self._entry(row) for row in rows if row[1] is not None))

    def changes(self, prefix: str, after: Revision, changes_max: int) -> WatchBatch:
        """Return the changes under a prefix after a revision: whole revisions, few enough to hold."""
        with self._one_state():
            status = self.status()
            if after < status.compacted:
                raise Compacted(
                    f"changes from revision {after + 1} on are gone: compacted up to {status.compacted}",
                    compacted=status.compacted,
                )
            upto = self._bound(after, status.revision, changes_max)
            condition, values = _under(prefix, "v.key")
            rows = self.execute(f"{_SINCE} <= ? AND {condition} ORDER BY v.revision, v.key", (after, upto, *values))
            return WatchBatch(upto, tuple(map(self._change, rows)))

    def leases(self) -> list[LeaseRow]:
        return [LeaseRow(*row) for row in self.execute("SELECT id, ttl_ms, clock, deadline_ns FROM lease ORDER BY id")]

    def lease(self, lease: LeaseId) -> LeaseRow:
        row = self.execute("SELECT id, ttl_ms, clock, deadline_ns FROM lease WHERE id = ?", (lease,)).fetchone()
        if row is None:
            raise LeaseExpired(f"lease {lease:x} does not exist any more", lease=lease)
        return LeaseRow(*row)

    def has_lease(self, lease: LeaseId) -> bool:
        return self.execute("SELECT 1 FROM lease WHERE id = ?", (lease,)).fetchone() is not None

    def keys_of(self, lease: LeaseId) -> tuple[str, ...]:
        rows = self.execute("SELECT key FROM live WHERE lease = ? AND lease <> 0 ORDER BY key", (lease,))
        return tuple(key.decode() for (key,) in rows)

    def _check_revision(self, at: Revision) -> None:
        status = self.status()
        if at > status.revision:
            raise PreconditionFailed(f"revision {at} is still to come: the KeySpace is at {status.revision}")
        if at < status.compacted:
            raise Compacted(f"revision {at} is gone: compacted up to {status.compacted}", compacted=status.compacted)

    def _bound(self, after: Revision, newest: Revision, changes_max: int) -> Revision:
        """The last revision of a batch: there is a change in each, so counting changes bounds it."""
        row = self.execute(
            "SELECT revision FROM version WHERE revision > ? ORDER BY revision LIMIT 1 OFFSET ?", (after, changes_max)
        ).fetchone()
        return newest if row is None else Revision(max(row[0] - 1, after + 1))

    def _entry(self, row: tuple[Any, ...]) -> KeyValue:
        key, value, create_revision, revision, version, lease, sum_ = row
        return check_value(KeyValue(key.decode(), value, create_revision, revision, version, lease), sum_, self._where)

    def _change(self, row: tuple[Any, ...]) -> KeyChange:
        return KeyChange(row[3], row[0].decode(), None if row[1] is None else self._entry(row))

    @contextmanager
    def _one_state(self) -> Iterator[None]:
        if self._connection.in_transaction:
            yield
            return
        self.execute("BEGIN")
        try:
            yield
        finally:
            self.execute("ROLLBACK")


def _under(prefix: str, column: str) -> tuple[str, tuple[bytes, ...]]:
    start = prefix.encode()
    end = prefix_end(start)
    return (f"{column} >= ?", (start,)) if end is None else (f"{column} >= ? AND {column} < ?", (start, end))
