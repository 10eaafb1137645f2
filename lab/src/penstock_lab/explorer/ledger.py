"""The facts that a world must never contradict: who led which epoch and wrote which entries, the committed log, the
answers to clients.

A `Ledger` is a value. `Ledger.note` takes the facts of a step and returns the next ledger, or raises: this is where the
invariants which span nodes and time are counted by brute force. It remembers as little as they need, so that worlds
which differ only in how they came about are one. Invariants of quorum-log.md judged here:

I1 one payload per id, and logs that agree on an id agree before it · I2 one appender per epoch, none after its restart
· I3 barriers first · I4 (but for the votes: `World`) · I5 the committed log only grows, and every later leader has it ·
I6, I7 CONFIRMs · I8 ROLLBACKs · I9 no commit, CONFIRM or snapshot inside a doomed range · I10 applied is the committed
log · I11 what reads may show · I12, I13, I15, I16 the answers to clients.
"""

from collections.abc import Iterable, Sequence
from typing import assert_never

import msgspec

from penstock.kernel.ids import EntryId, Epoch, NodeId
from penstock.quorum.records.answers import Fate
from penstock.quorum.records.entry import Barrier, Confirm, Entry, Rollback, Txn
from penstock.quorum.records.resolution import Resolution
from penstock_lab.explorer.facts import (
    AppendFact,
    Applies,
    CommitFact,
    Crashes,
    Exposes,
    Fact,
    Holds,
    Knows,
    Lands,
    Opens,
    Tells,
)

__all__ = ["EMPTY", "Ledger", "Reign"]

Entries = tuple[Entry, ...]
NEVER_APPENDED = (Fate.NOT_LEADER, Fate.OVERLOADED, Fate.INVALID)


class Reign(msgspec.Struct, frozen=True):
    """One epoch as its leader wrote it."""

    epoch: Epoch
    node: NodeId
    start: int  # how much of the log existed before
    log: Entries  # all of it, from offset 1 on
    is_open: bool = True  # False: its leader has restarted, and may append no more


class Told(msgspec.Struct, frozen=True):
    """The answers that a client got."""

    request: int
    fate: Fate
    epoch: Epoch
    offset: int


class Ledger(msgspec.Struct, frozen=True):
    """The memory of a world."""

    reigns: tuple[Reign, ...] = ()  # by epoch
    committed: Entries = ()
    committed_in: tuple[Epoch, ...] = ()  # for each of them: the lowest epoch whose leader committed it
    told: tuple[Told, ...] = ()
    exposed: tuple[tuple[NodeId, int], ...] = ()  # how much each node has shown to readers

    def note(self, facts: Iterable[Fact]) -> "Ledger":
        """The ledger after these facts. Raises AssertionError where they contradict it."""
        ledger = self
        for fact in facts:
            ledger = ledger._note(fact)
        return ledger

    def _note(self, fact: Fact) -> "Ledger":  # noqa: C901 (one case per fact)
        match fact:
            case Opens():
                return self._open(fact)
            case AppendFact():
                return self._append(fact)
            case CommitFact():
                return self._commit(fact)
            case Tells():
                return self._tell(fact)
            case Exposes():
                return self._expose(fact)
            case Crashes(node):
                closed = [
                    msgspec.structs.replace(each, is_open=each.is_open and each.node != node) for each in self.reigns
                ]
                return msgspec.structs.replace(self, reigns=tuple(closed))
            case Holds():
                self._check_log(fact)
            case Knows():
                self._check_known(fact)
            case Applies():
                self._check_applied(fact)
            case Lands(node, at):
                assert at <= len(self.committed), f"{node} takes a snapshot at {at}, which is not committed"
                assert not is_doomed(self.committed, at), f"I9: {node} takes a snapshot at {at}, in a doomed range"
            case _:
                assert_never(fact)
        return self

    def reign(self, epoch: Epoch) -> Reign | None:
        return next((each for each in self.reigns if each.epoch == epoch), None)

    def _with(self, reign: Reign) -> tuple[Reign, ...]:
        others = [each for each in self.reigns if each.epoch != reign.epoch]
        return tuple(sorted([*others, reign], key=lambda each: each.epoch))

    # leading

    def _open(self, fact: Opens) -> "Ledger":
        node, epoch = fact.node, fact.epoch
        assert self.reign(epoch) is None, f"I2: {node} begins to lead {epoch}, which had a leader"
        log = self.committed[: fact.first - 1] + fact.entries
        reign = Reign(epoch, node, len(log), log)
        self._check_has_committed(reign)
        return msgspec.structs.replace(self, reigns=self._with(reign))

    def _check_has_committed(self, reign: Reign) -> None:
        """I5: whatever a leader of a lower epoch committed, or will be found to have committed, is in this log."""
        count = sum(epoch < reign.epoch for epoch in self.committed_in)
        has_all = reign.log[:count] == self.committed[:count]
        assert has_all, f"I5: {reign.node} leads {reign.epoch} without what was committed before: {ids(reign.log)}"

    def _append(self, fact: AppendFact) -> "Ledger":
        reign = self.reign(fact.epoch)
        assert reign is not None, f"I2: {fact.node} appends in {fact.epoch} without leading"
        assert reign.node == fact.node, f"I2: {fact.node} appends in {fact.epoch}, which {reign.node} leads"
        assert reign.is_open, f"I2: {fact.node} appends in {fact.epoch}, and has restarted since it led"
        assert fact.first == len(reign.log) + 1, f"I1: {fact.node} writes {fact.first} behind {len(reign.log)}"
        for entry in fact.entries:
            self._check_entry(reign, entry, fact.commit)
            reign = msgspec.structs.replace(reign, log=(*reign.log, entry))
        return msgspec.structs.replace(self, reigns=self._with(reign))

    def _check_entry(self, reign: Reign, entry: Entry, commit: int) -> None:
        offset = len(reign.log) + 1
        assert entry.epoch == reign.epoch, f"I3: {reign.node} leads {reign.epoch} and writes {entry}"
        is_first = len(reign.log) == reign.start
        assert isinstance(entry, Barrier) == is_first, f"I3: {entry} at {offset}; the epoch starts behind {reign.start}"
        match entry:
            case Confirm():
                self._check_confirm(reign, entry, offset, commit)
            case Rollback():
                self._check_rollback(reign, entry, offset, commit)
            case Txn():
                told = [each for each in self.told if each.request == entry.seq]
                assert not told, f"I13: {entry} is appended after its client was told {told}"
            case Barrier():
                pass

    def _check_confirm(self, reign: Reign, entry: Confirm, offset: int, commit: int) -> None:
        upto, log = entry.upto, reign.log
        assert 0 < upto < offset, f"I6: CONFIRM({upto}) at {offset}"
        assert log[upto - 1].epoch == entry.epoch, f"I6: CONFIRM({upto}) of {entry.epoch} names another epoch"
        assert upto <= commit, f"I6: CONFIRM({upto}), and {commit} are committed"
        before = max([each.upto for each in log[reign.start :] if isinstance(each, Confirm)], default=reign.start)
        assert upto > before, f"I6: CONFIRM({upto}) behind CONFIRM({before})"
        is_fact = any(isinstance(each, Txn | Barrier) for each in log[before:upto])
        assert is_fact, f"I6: CONFIRM({upto}) behind {before} covers no TXN and no BARRIER"
        assert self.committed[:upto] == log[:upto], f"I7: CONFIRM({upto}), and that is not committed"
        assert not is_doomed(log, upto), f"I9: CONFIRM({upto}) lies in a doomed range"

    def _check_rollback(self, reign: Reign, entry: Rollback, offset: int, commit: int) -> None:
        first, log = entry.first, reign.log
        assert 0 < first < offset, f"I8: ROLLBACK({first}) at {offset}"
        doomed = log[first - 1]
        assert doomed.epoch == entry.epoch, f"I8: ROLLBACK({first}) of {entry.epoch} names {doomed}"
        assert isinstance(doomed, Txn), f"I8: ROLLBACK({first}) names {doomed}"
        assert doomed.is_sync, f"I8: ROLLBACK({first}) names an async transaction"
        assert first > commit, f"I8: ROLLBACK({first}), and {commit} are committed"
        for begin, end in doomed_ranges(log):
            assert end < first or first <= begin, f"I8: [{first}, {offset}) and [{begin}, {end}) overlap"
        for each in self.told:
            is_covered = each.epoch == entry.epoch and first <= each.offset < offset
            assert each.fate is not Fate.ACKNOWLEDGED or not is_covered, f"I16: {each} is rolled back at {offset}"

    # committing

    def _commit(self, fact: CommitFact) -> "Ledger":
        reign = self.reign(fact.epoch)
        assert reign is not None, f"I4: {fact.node} commits in {fact.epoch} without leading"
        log, upto = reign.log[: fact.upto], fact.upto
        assert len(log) == upto, f"I4: {fact.node} commits {upto}, and has {len(log)}"
        assert log[-1].epoch == fact.epoch, f"I4: {fact.node} commits {ids(log[-1:])} in epoch {fact.epoch}"
        assert not is_doomed(reign.log, upto), f"I9: {fact.node} commits {upto}, inside a doomed range"
        known = min(upto, len(self.committed))
        assert log[:known] == self.committed[:known], f"I5: {fact.node} commits {ids(log)} over {ids(self.committed)}"
        epochs = [*(min(epoch, fact.epoch) for epoch in self.committed_in[:upto]), *self.committed_in[upto:]]
        epochs += [fact.epoch] * (upto - known)
        committed = log if upto > known else self.committed
        ledger = msgspec.structs.replace(self, committed=committed, committed_in=tuple(epochs))
        for each in ledger.reigns:
            ledger._check_has_committed(each)
        ledger._check_acknowledged()
        return ledger

    def _check_acknowledged(self) -> None:
        """I16: an acknowledged entry is lost only as part of a suffix.

        All later entries of its epoch are lost with it.
        """
        for told in self.told:
            if told.fate is Fate.ACKNOWLEDGED and any(
                each.epoch == told.epoch for each in self.committed[told.offset :]
            ):
                kept = self.committed[told.offset - 1]
                assert kept.epoch == told.epoch, f"I16: {told} is lost, and later ones of its epoch are not"

    def _check_log(self, fact: Holds) -> None:
        """I1, and more: a log which holds an entry is, up to there, what the leader who wrote that entry had."""
        if not fact.entries:
            return
        reign = self.reign(fact.entries[-1].epoch)
        assert reign is not None, f"I2: {fact.node} holds an entry nobody wrote: {ids(fact.entries)}"
        theirs = reign.log[fact.first - 1 : fact.first - 1 + len(fact.entries)]
        assert theirs == fact.entries, f"I1: {fact.node} holds {ids(fact.entries)}, its leader had {ids(theirs)}"

    def _check_known(self, fact: Knows) -> None:
        end = len(self.committed)
        assert fact.upto <= end, f"I7: {fact.node} takes {fact.upto} for committed, and {end} are"
        theirs = self.committed[fact.first - 1 : fact.upto]
        assert theirs == fact.entries, f"I5: {fact.node} takes {ids(fact.entries)} for committed; it is {ids(theirs)}"

    def _check_applied(self, fact: Applies) -> None:
        for offset, entry in enumerate(fact.entries, fact.first):
            assert offset <= len(self.committed), f"I10: {fact.node} applies {offset}, which is not committed"
            known = self.committed[offset - 1]
            assert known == entry, f"I10: {fact.node} applies {entry} at {offset}: it is {known}"
            if isinstance(entry, Txn):
                is_rolled_back = is_doomed(self.committed, offset)
                assert (offset in fact.doomed) == is_rolled_back, f"I10: {fact.node} applies {offset}, doomed or not"

    def _expose(self, fact: Exposes) -> "Ledger":
        shown = dict(self.exposed)
        before = shown.get(fact.node, 0)
        assert fact.applied >= before, f"I11: {fact.node} shows {fact.applied} to readers, and has shown {before}"
        shown[fact.node] = fact.applied
        return msgspec.structs.replace(self, exposed=tuple(sorted(shown.items())))

    # telling

    def _tell(self, fact: Tells) -> "Ledger":
        request, fate, id_ = fact.request, fact.fate, EntryId(fact.epoch, fact.offset)
        assert all(each.request != request for each in self.told), f"I15: {request} is answered twice"
        match fate:
            case Fate.COMMITTED | Fate.COMMITTED_BELOW_LEVEL:
                assert self.verdict(id_) is Resolution.COMMITTED, f"I12: {request} at {id_} was told {fate}"
                entry = self.committed[fact.offset - 1]
                assert isinstance(entry, Txn), f"I12: {request} was told of {entry}"
                assert entry.seq == request, f"I12: {request} was told of {entry}"
            case Fate.ABORTED if fact.offset:
                assert self.verdict(id_) is Resolution.ABORTED, f"I13: {request} at {id_} was told ABORTED"
            case Fate.ABORTED | Fate.NOT_LEADER | Fate.OVERLOADED | Fate.INVALID:
                assert not self._is_written(request), f"I13: {request} was told {fate}, and is in a log"
            case Fate.ACKNOWLEDGED | Fate.INDETERMINATE | Fate.EXPIRED:
                assert self._is_written(request), f"{request} was told {fate}, and is in no log"
        told = sorted([*self.told, Told(request, fate, fact.epoch, fact.offset)], key=lambda each: each.request)
        return msgspec.structs.replace(self, told=tuple(told))

    def _is_written(self, request: int) -> bool:
        return any(isinstance(each, Txn) and each.seq == request for reign in self.reigns for each in reign.log)

    def verdict(self, id_: EntryId) -> Resolution:
        """Return the fate of an entry, by the committed log alone. COMMITTED and ABORTED are for ever."""
        committed = self.committed
        if id_.offset <= len(committed):
            is_there = committed[id_.offset - 1].epoch == id_.epoch and not is_doomed(committed, id_.offset)
            return Resolution.COMMITTED if is_there else Resolution.ABORTED
        is_displaced = any(entry.epoch > id_.epoch for entry in committed)
        return Resolution.ABORTED if is_displaced else Resolution.PENDING

    def txns(self) -> list[EntryId]:
        """Every transaction ever written, by id."""
        found = {
            EntryId(entry.epoch, at)  # type: ignore[arg-type]
            for reign in self.reigns
            for at, entry in enumerate(reign.log, 1)
            if isinstance(entry, Txn)
        }
        return sorted(found)


EMPTY = Ledger()


def doomed_ranges(log: Sequence[Entry]) -> list[tuple[int, int]]:
    """(f, j) of every ROLLBACK(f) at j."""
    return [(entry.first, at) for at, entry in enumerate(log, 1) if isinstance(entry, Rollback)]


def is_doomed(log: Sequence[Entry], offset: int) -> bool:
    """Does this offset lie in [f, j) of a ROLLBACK of this log?"""
    return any(first <= offset < at for first, at in doomed_ranges(log))


def ids(log: Sequence[Entry]) -> str:
    """A log for people."""
    return "[" + " ".join(f"{entry.epoch}{type(entry).__name__[0]}" for entry in log) + "]"
