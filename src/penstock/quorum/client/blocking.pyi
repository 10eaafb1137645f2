"""The client without `await`: the same names, for scripts, notebooks and threads.

    with BlockingQuorumLog(["127.0.0.1:7101"], "main") as log:
        appended = log.append(b"...")
        value = log.read(query)

Calls may come from any thread: see `loop_thread.py`.
"""

from collections.abc import Iterator, Sequence
from types import TracebackType

from penstock.kernel.errors import PenstockError
from penstock.kernel.ids import EntryId, Offset
from penstock.plumbing.process.blocking import Blocking
from penstock.plumbing.wire.tls import Tls
from penstock.quorum.client.quorum import Ack, Appended, QuorumLog
from penstock.quorum.records.api import ReadResult, ShardStatus
from penstock.quorum.records.entry import Txn
from penstock.quorum.records.resolution import Resolution

__all__ = ["BlockingQuorumLog"]

class BlockingQuorumLog(Blocking[QuorumLog]):
    """One shard of the quorum log, seen by one client: `penstock.aio.QuorumLog`, without `await`."""

    def __init__(
        self,
        addresses: Sequence[str],
        shard: str = "main",
        *,
        client_id: str | None = None,
        token: str | None = None,
        tls: Tls | None = None,
        window_bytes: int = ...,
    ) -> None:
        """After a fork the child is a client of its own; it is refused if `client_id` is set, which names one only."""

    def __enter__(self) -> BlockingQuorumLog: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def close(self) -> None:
        """Close the connections of this process."""

    def append(
        self,
        ops: bytes,
        *,
        sync: bool = True,
        ack: Ack = "majority",
        timeout: float = 5.0,
        roll_back: bool = False,
        seq: int | None = None,
    ) -> Appended:
        """Append a transaction.

        Returns when it is committed (sync), or durable on the leader after every sync one before it (async). A time-out
        raises `Indeterminate`; with `roll_back`, the leader first tries to make that a definite `Refused`. To repeat a
        transaction whose fate is unknown, give its `seq` again: it takes effect once, and the answer is about the
        transaction, whichever copy of it the log took."""

    def begin_session(self, *, timeout: float = 5.0) -> None:
        """Find out which numbers earlier processes of this `client_id` have used: this one begins above them.

        `append` does this itself where it must. One process at a time may use a `client_id`."""

    def read(
        self, query: bytes, *, linearizable: bool = True, after: EntryId | None = None, timeout: float = 5.0
    ) -> ReadResult:
        """Ask the state machine. Not linearizable: what the asked node has applied, at least up to `after`."""

    def resolve(self, entry: EntryId, *, timeout: float = 5.0) -> Resolution:
        """Return the outcome of an entry. PENDING only if it is still open after `timeout`."""

    def subscribe(
        self, first: Offset = ..., *, follow: bool = True, is_gapless: bool = False
    ) -> Iterator[tuple[Offset, Txn]]:
        """Committed transactions from an offset on, each once, through restarts of nodes and elections.

        Without `follow` it ends after the last transaction that was committed at the call. If the log begins later than
        `first`, the subscription begins there; with `is_gapless` it raises `Compacted`. After its first transaction it
        leaves none out: a subscriber that the log has overtaken gets `Compacted`."""

    @property
    def addresses(self) -> list[str]: ...
    def take_snapshot(self) -> None:
        """Have the first node write its state down now, and trim its log."""

    def status(self, *, timeout: float = 2.0) -> dict[str, list[tuple[ShardStatus, str]] | PenstockError]:
        """Return every node's status of its replicas, by address; with the reason in words why appends wait, if they
        do."""
