"""What can be set about a node and an operator. Every limit has a default, and nothing is without a limit."""

from typing import Final

import msgspec

from penstock.kernel.ids import MILLISECOND, SECOND
from penstock.quorum.core.limbo_queue import LimboLimits

__all__ = ["SERVED", "NodeConfig", "OperatorConfig"]


class NodeConfig(msgspec.Struct, frozen=True):
    """The settings of one node."""

    limbo: LimboLimits = LimboLimits()
    append_timeout_ns: int = 5 * SECOND  # for requests without a time-out
    append_timeout_ns_max: int = 60 * SECOND
    timeout_grain_ns: int = (
        10 * MILLISECOND
    )  # time-outs are rounded up to this: a waiter waits at most that much longer
    rollback_grace_ns: int = 5 * SECOND  # how long a ROLLBACK may take to commit before its waiters get "unknown"
    confirm_delay_ns: int = 0  # a CONFIRM may wait this long for company; 0: it goes with the step that committed
    tail_bytes_max: int = 8 << 20  # payloads kept in memory; at times twice as much
    push_bytes_max: int = 1 << 20  # entries of one AddEntry
    push_window_bytes: int = 8 << 20  # sent to one follower and not yet confirmed
    apply_bytes_max: int = 4 << 20  # entries handed to the state machine at once
    heartbeat_ns: int = 50 * MILLISECOND  # how often a leader speaks to a follower it has nothing to tell
    snapshot_entries: int = 100_000  # a snapshot is taken every N applied entries
    retain_entries: int = 10_000  # kept after a snapshot, so that a follower a little late needs no snapshot
    snapshot_chunk_bytes: int = 1 << 20
    resolve_window: int = 1_000_000  # offsets below the snapshot for which `resolve` still answers
    reads_max: int = 16_384  # linearizable reads waiting at once
    read_timeout_ns: int = 5 * SECOND
    local_read_ns: int = 10 * SECOND  # a node without a word of its leader for this long serves no local reads
    drain_ns: int = 500 * MILLISECOND  # how long a hand-over may hold appends back before the leader takes them again
    drained_ns: int = 2 * SECOND  # how long a leader that is ready to hand over waits for its successor's fence


# Of a node which serves clients. Alone, a CONFIRM costs an fdatasync on every node, in the way of the next append; some
# milliseconds later it travels with one. Followers of an idle log apply that much later.
SERVED: Final = NodeConfig(confirm_delay_ns=5 * MILLISECOND)


class OperatorConfig(msgspec.Struct, frozen=True):
    """The settings of one operator."""

    heartbeat_ns: int = 100 * MILLISECOND
    failure_ns: int = 500 * MILLISECOND  # a leader silent for so long is replaced
    lost_ns: int = 100 * MILLISECOND  # the same for one whose connection was closed
    stall_ns: int = 1 * SECOND  # a leader that no majority answers for so long is replaced, if others can be reached
    stall_ns_max: int = 30 * SECOND  # the wait doubles with each such election, up to this, until a commit
    election_ns: int = 2 * SECOND  # an election which takes longer starts again, in a new epoch
    election_ns_max: int = 30 * SECOND  # the wait doubles with each election that fails, up to this
    drain_ns: int = 600 * MILLISECOND  # a hand-over that takes longer to prepare becomes a plain election
    successor_ns: int = 200 * MILLISECOND  # an election waits so long for the answer of who should lead
    grace_ns: int = 0  # after a majority of fence responses: wait so long for more, so that fewer members come late
    reconfiguration_ns: int = 60 * SECOND  # a reconfiguration which takes longer is ended by an election
