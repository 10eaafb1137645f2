"""Records a run of the real core as a trace which `trace.py` holds against specs/QuorumLog.tla.

Call `metadata` after every successful compare-and-set, `stepped` after every step of a node, and `restarted` when one
has come up again. Nothing else is needed: no messages. What is shown (specs/README.md, "What a trace shows"):

- a leader as it is in memory, with how much of its log is durable;
- every other node as its disk has it, for what it has not written down counts for nobody.
"""

from collections.abc import Sequence

import msgspec
from tests.specs.trace import (
    AnswerRecord,
    Header,
    Line,
    LogEntry,
    MetadataRecord,
    Name,
    NodeRecord,
    Reconfiguration,
)

from penstock.kernel.effects import Effect
from penstock.kernel.ids import Offset
from penstock.quorum.core.log import Log
from penstock.quorum.core.node import Node
from penstock.quorum.records.answers import Answers, Fate
from penstock.quorum.records.entry import Barrier, Confirm, Entry, Txn
from penstock.quorum.records.member import Ensemble, Member
from penstock.quorum.records.metadata import Metadata
from penstock.quorum.records.state import NodeState

__all__ = ["Recorder"]

EVERYTHING = 1 << 40  # bytes: no limit
RESULTS = {
    Fate.COMMITTED: "COMMITTED",
    Fate.COMMITTED_BELOW_LEVEL: "COMMITTED",
    Fate.ACKNOWLEDGED: "ACKNOWLEDGED",
    Fate.ABORTED: "ABORTED",
}


class Recorder:
    """One run."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._names: dict[Name, None] = {}
        self._ensemble = tuple(map(self._name, ensemble))
        self._lines: list[Line] = []
        self._shown: dict[Name, NodeRecord] = {}  # since its last restart

    def text(self) -> str:
        """The trace so far."""
        header = Header(tuple(self._names), self._ensemble)
        return "\n".join(msgspec.json.encode(each).decode() for each in (header, *self._lines)) + "\n"

    def metadata(self, metadata: Metadata) -> None:
        """The metadata are like this now."""
        change = metadata.reconfiguration
        record = MetadataRecord(
            metadata.epoch,
            metadata.status.name,  # type: ignore[arg-type]
            tuple(map(self._name, metadata.ensemble)),
            None if metadata.leader is None else self._name(metadata.leader),
            None
            if change is None
            else Reconfiguration(
                change.phase.name,  # type: ignore[arg-type]
                None if change.change.old is None else self._name(change.change.old),
                None if change.change.new is None else self._name(change.change.new),
            ),
        )
        self._lines.append(Line(metadata=record))

    def stepped(
        self, node: Node, effects: Sequence[Effect], durable: NodeState, first: int, records: Sequence[Entry]
    ) -> None:
        """A node has taken a step; `durable`, and `records` from offset `first` on, are on its disk."""
        record = self._record(node, durable, first, records)
        if record != self._shown.get(record.name):
            self._show(record)
        for effect in effects:
            if isinstance(effect, Answers) and effect.fate in RESULTS:
                self._answered(record.name, node, effect)

    def restarted(self, node: Node, durable: NodeState, first: int, records: Sequence[Entry]) -> None:
        """A node has come up from its disk; not for its very first start."""
        self._shown.pop(self._name(durable.member), None)
        self._show(msgspec.structs.replace(self._record(node, durable, first, records), restarted=True))

    def _show(self, record: NodeRecord) -> None:
        self._shown[record.name] = msgspec.structs.replace(record, restarted=False)
        if record.role != "UNFORMATTED":
            self._lines.append(Line(node=record))

    def _answered(self, name: Name, node: Node, answers: Answers) -> None:
        for offset in answers.offsets:
            if offset:
                is_retired = answers.fate is Fate.ABORTED and not node.log.is_doomed(offset)
                result = "RETIRED" if is_retired else RESULTS[answers.fate]
                record = AnswerRecord(name, (answers.epoch, offset), result)  # type: ignore[arg-type]
                self._lines.append(Line(answer=record))

    def _record(self, node: Node, durable: NodeState, first: int, records: Sequence[Entry]) -> NodeRecord:
        name = self._name(durable.member)
        log = Log(durable.snapshot, durable.confirmed, EVERYTHING)
        is_replaced = not log.recover(Offset(first), records)
        if not durable.is_formatted or (durable.epoch == 0 and log.end == 0):
            return NodeRecord(name, 0, "UNFORMATTED", 0)
        entries = () if is_replaced else tuple(map(_entry, records[log.first - first :]))
        epoch = max(durable.epoch, log.head.epoch)
        record = NodeRecord(name, epoch, "FENCED", log.end, entries, log.first, log.base.epoch)
        record = self._as_leader(record, node) if node.leader is not None else self._as_disk(record, node)
        if node.replica.saving:
            return record
        return msgspec.structs.replace(record, confirmed=node.log.confirmed, applied=node.replica.applied)

    def _as_leader(self, record: NodeRecord, node: Node) -> NodeRecord:
        assert node.leader is not None
        begin, end = Offset(record.durable + 1), node.log.end
        tail = node.log.tail_between(begin, end, EVERYTHING) if begin <= end else ()
        return msgspec.structs.replace(
            record,
            epoch=node.epoch,
            role="LEADER",
            log=record.log + tuple(map(_entry, tail)),
            commit=node.replica.commit,
            voters=tuple(map(self._name, node.leader.ensemble)),
        )

    def _as_disk(self, record: NodeRecord, node: Node) -> NodeRecord:
        """A fence or a leader which is not written down yet does not show; but an epoch once shown as leader stays."""
        shown = self._shown.get(record.name)
        if shown is not None and shown.epoch > record.epoch:
            return msgspec.structs.replace(record, epoch=shown.epoch)
        return msgspec.structs.replace(record, role=node.role.name) if node.epoch == record.epoch else record

    def _name(self, member: Member) -> Name:
        name = str(member)
        self._names.setdefault(name)
        return name


def _entry(entry: Entry) -> LogEntry:
    if isinstance(entry, Txn):
        return entry.epoch, "SYNC" if entry.is_sync else "ASYNC", f"{entry.client}/{entry.seq}"
    if isinstance(entry, Barrier):
        return entry.epoch, "BARRIER", 0
    if isinstance(entry, Confirm):
        return entry.epoch, "CONFIRM", entry.upto
    return entry.epoch, "ROLLBACK", entry.first
