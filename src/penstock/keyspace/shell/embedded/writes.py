"""What changes the store. Blocking, and always inside a write transaction which the `Writer` began.

Every change goes through `_apply`, which takes the next revision: so revisions have no gaps, and each has a change.

Leases. A deadline counts by the clock it was set with. Any reader of that same clock may end the lease once the
deadline is past. Under another clock (an earlier boot, a foreign time namespace) the deadline means nothing. Such a
lease ends when an observer has seen it unrenewed for its whole time by the observer's own clock. Either way no lease
ends early.
"""

import sqlite3
from collections.abc import Mapping
from typing import Final

from penstock.kernel.errors import PreconditionFailed
from penstock.kernel.ids import MILLISECOND, Revision
from penstock.keyspace.core.envelope import DIGEST_BYTES, digest_of, row_hash, value_sum
from penstock.keyspace.core.records import NO_REVISION, KeyValue, Lease, LeaseId
from penstock.keyspace.core.transaction import Transaction, TransactOutcome, execute
from penstock.keyspace.shell.embedded.clock import LeaseClock
from penstock.keyspace.shell.embedded.confirmed import Confirmed, stored_digest
from penstock.keyspace.shell.embedded.queries import LeaseRow, Queries

__all__ = ["Writes"]

_STORE: Final = (
    "INSERT INTO version (key, revision, create_revision, version, lease, value, sum) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_SUPERSEDED: Final = """
DELETE FROM version WHERE revision <= ?1 AND (
    value IS NULL OR EXISTS (
        SELECT 1 FROM version AS newer
        WHERE newer.key = version.key AND newer.revision > version.revision AND newer.revision <= ?1))
"""


class Writes(Queries):
    """Changes one store through one connection, on behalf of a process with this clock."""

    def __init__(self, connection: sqlite3.Connection, clock: LeaseClock, where: str) -> None:
        super().__init__(connection, where)
        self._clock = clock
        self._delta = 0  # by which the digest has changed in this transaction
        self._began_at = NO_REVISION  # the revision before it
        self.changed_bytes = 0  # since it was last set to 0; the amount that a checkpoint would have to move

    def transact(self, transaction: Transaction) -> TransactOutcome:
        """Run a transaction which passed `check_transaction`."""
        revision = self.status().revision
        execution = execute(transaction, self, Revision(revision + 1))
        if execution.writes:
            revision = self._apply(execution.writes)
        return TransactOutcome(execution.succeeded, revision, execution.results)

    def grant(self, ttl_ms: int) -> Lease:
        """Ids are never used again: a lease that ended cannot be mistaken for a new one."""
        (number,) = self.execute("UPDATE state SET last_lease = last_lease + 1 RETURNING last_lease").fetchone()
        self.execute(
            "INSERT INTO lease VALUES (?, ?, ?, ?)",
            (number, ttl_ms, self._clock.id, self._clock.now_ns() + ttl_ms * MILLISECOND),
        )
        return Lease(LeaseId(number), ttl_ms)

    def keep_alive(self, lease: LeaseId, asked_ns: int) -> Lease | None:
        """Renew a lease; None if it had ended when that was asked for, and then it is gone for everyone.

        What counts is when the holder asked, not how long it then waited for the lock.
        """
        row = self.lease(lease)
        if row.clock == self._clock.id and row.deadline_ns <= asked_ns:
            self.end(lease)
            return None
        self.execute(
            "UPDATE lease SET clock = ?, deadline_ns = ? WHERE id = ?",
            (self._clock.id, asked_ns + row.ttl_ms * MILLISECOND, lease),
        )
        return Lease(lease, row.ttl_ms)

    def revoke(self, lease: LeaseId) -> None:
        self.lease(lease)
        self.end(lease)

    def end_due(self, due: list[LeaseRow]) -> None:
        """End those leases which are still as they were when they were found due."""
        for row in due:
            if self.has_lease(row.id) and self.lease(row.id) == row:
                self.end(row.id)

    def end(self, lease: LeaseId) -> None:
        """A lease's keys vanish with it, all in one revision."""
        keys = self.keys_of(lease)
        if keys:
            self._apply(dict.fromkeys(keys))
        self.execute("DELETE FROM lease WHERE id = ?", (lease,))

    def compact(self, revision: Revision) -> None:
        """Drop all versions which no state from `revision` on shows."""
        status = self.status()
        if revision > status.revision:
            raise PreconditionFailed(f"revision {revision} is still to come: the KeySpace is at {status.revision}")
        if revision > status.compacted:
            self.execute(_SUPERSEDED, (revision,))
            self.execute("UPDATE state SET compacted = ?", (revision,))

    def begin(self) -> None:
        """A transaction begins: nothing has changed in it."""
        self._delta = 0
        self._began_at = self.status().revision

    def confirm(self) -> Confirmed:
        """Return the state as it is now, with its digest, which is in the store when this returns."""
        status, stored = self.status(), stored_digest(self._connection)
        if stored is not None and stored[0] == self._began_at:
            digest = (stored[1] + self._delta) % (1 << 128)
        else:  # none yet, or an older release has written since
            digest = digest_of(self.range(""))
        if stored is None or stored[0] != status.revision:
            row = (status.revision, digest.to_bytes(DIGEST_BYTES, "big"))
            self.execute("INSERT OR REPLACE INTO digest VALUES (1, ?, ?)", row)
        return Confirmed(status.store_id, status.revision, digest)

    def _apply(self, writes: Mapping[str, KeyValue | None]) -> Revision:
        (revision,) = self.execute("UPDATE state SET revision = revision + 1 RETURNING revision").fetchone()
        for name, entry in writes.items():
            key = name.encode()
            before = self.get(name)
            self._delta -= row_hash(before) if before is not None else 0
            if entry is None:
                self.execute(_STORE, (key, revision, 0, 0, 0, None, None))
                self.execute("DELETE FROM live WHERE key = ?", (key,))
            else:
                assert entry.mod_revision == revision, (entry, revision)
                sum_ = value_sum(name, entry.value)
                row = (key, revision, entry.create_revision, entry.version, entry.lease, entry.value, sum_)
                self.execute(_STORE, row)
                self._delta += row_hash(entry)
                self.execute("INSERT OR REPLACE INTO live VALUES (?, ?, ?)", (key, revision, entry.lease))
                self.changed_bytes += len(entry.value)
            self.changed_bytes += 8_192  # a page of each table, roughly
        return Revision(revision)
