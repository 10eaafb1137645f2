"""What a small world is made of, and how much may happen in it. Everything has a bound, or a search would not end."""

from typing import NamedTuple

import msgspec

from penstock.kernel.ids import MILLISECOND
from penstock.quorum.core.config import NodeConfig, OperatorConfig
from penstock.quorum.records.messages import ChangeOp

__all__ = ["Left", "Setup", "TxnSpec"]

FOR_EVER = 1 << 40


class TxnSpec(msgspec.Struct, frozen=True):
    """A transaction some client will append, once, on whichever node leads then."""

    is_sync: bool = True
    rolls_back: bool = False
    patience_ms: int = 10  # later requests give up later


class Setup(msgspec.Struct, frozen=True):
    """One configuration."""

    about: str
    nodes: str = "ABC"
    spares: str = ""  # nodes without data
    operators: int = 1
    txns: tuple[TxnSpec, ...] = ()
    epochs: int = 2  # no operator may write a higher one
    crashes: int = 0  # of nodes: each loses its unsynced writes, or some of them, and starts again
    crash_of: str = ""  # which nodes may crash; empty: all
    slow: str = ""  # nodes whose writes take a step of their own
    timeouts: int = 0  # how often waiting clients give up
    heartbeats: int = 0  # of leaders
    duplicates: int = 0  # messages which come twice
    overtakes: int = (
        0  # entries and acknowledgements which come before older ones of their link; these may come, or not
    )
    change: tuple[ChangeOp, str, str] | None = None  # what an operator is asked to do, once: (op, old, new)
    operator_crashes: int = 0
    ticks: int = 0  # of operators which are not late
    has_slow_keyspace: bool = False  # a write to the metadata takes a step of its own
    snapshot_entries: int = FOR_EVER
    pushes_singly: bool = False  # one entry per AddEntry
    shows_commit: bool = False  # leave the leader's commit index in its messages: no node acts by it
    prelude: tuple[str, ...] = ()  # steps which have happened, by how their labels begin

    def left(self) -> "Left":
        """Everything."""
        return Left(
            len(self.txns), self.crashes, self.timeouts, self.heartbeats, self.duplicates, self.overtakes,
            int(self.change is not None), self.operator_crashes, self.ticks,
        )  # fmt: skip

    def node_config(self) -> NodeConfig:
        return NodeConfig(
            snapshot_entries=self.snapshot_entries,
            retain_entries=0 if self.snapshot_entries < FOR_EVER else 1 << 20,
            push_bytes_max=1 if self.pushes_singly else 1 << 20,
            timeout_grain_ns=MILLISECOND,
        )

    def operator_config(self) -> OperatorConfig:
        return OperatorConfig()


class Left(NamedTuple):
    """How much of it may still happen."""

    txns: int
    crashes: int
    timeouts: int
    heartbeats: int
    duplicates: int
    overtakes: int
    changes: int
    operator_crashes: int
    ticks: int

    def less(self, what: str) -> "Left":
        """With one of these used up."""
        return self._replace(**{what: getattr(self, what) - 1})
