"""What nodes write into their logs, and cut from them. Invariants of quorum-log.md:

I1 one payload per id (by the book) · I2 one appender per epoch, and only while it leads · I3 barriers first, epochs
never fall · I5 nothing applied or confirmed is ever truncated · I6 what a CONFIRM may say · I8 what a ROLLBACK may
doom · I25 what a restart finds.
"""

from collections.abc import Sequence

from penstock.kernel.effects import Effect, Persist, SaveState, TrimLog, TruncateLog
from penstock.kernel.probes import reached
from penstock.quorum.records.entry import Barrier, Confirm, Entry, Rollback, Txn
from penstock.quorum.records.messages import Role
from penstock_lab.sim.checkers.book import Author, Book
from penstock_lab.sim.checkers.hosts import CheckedHost

__all__ = ["LogChecker"]


class LogChecker:
    """Follows every log by the effects of its node."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.confirmed: dict[int, int] = {}  # by epoch: the last CONFIRM its leader wrote
        self.rollbacks: dict[int, list[tuple[int, int]]] = {}  # by epoch: every (f, j) its leader ever wrote
        self._last_confirm: dict[Author, int] = {}
        self._new: list[tuple[int, Txn]] = []

    def booted(self, host: CheckedHost) -> None:
        """I25: a restarted node has the log of its disk, knows the commits that it confirms, and leads no other
        node.
        """
        core, log, record = host.core, host.log, host.record
        assert core is not None
        assert core.role is Role.FENCED, f"I25: {host.name} starts as {core.role}"
        assert core.log.head == log.head, f"I25: {host.name} starts with {core.log.head}, its disk has {log.head}"
        assert core.log.durable == log.end, f"I25: {host.name} found its log on the disk, so it is durable"
        said = max([entry.upto for entry in log.entries if type(entry) is Confirm], default=0)
        known = max(said, host.node.disk.state.confirmed, log.base.offset, host.node.disk.state.snapshot.head.offset)
        assert core.log.confirmed == known, f"I25: {host.name} starts confirmed to {core.log.confirmed}, not {known}"
        assert known >= record.confirmed, f"P4: {host.name} has forgotten that {record.confirmed} is confirmed"
        assert core.epoch >= record.promised, f"P9: {host.name} has forgotten epoch {record.promised}"

    def cut(self, host: CheckedHost, effects: Sequence[Effect]) -> bool:
        """Note the entries that a step cuts from the log, or replaces. Returns whether it writes anything."""
        is_reset = has_durable = False
        for effect in effects:
            kind = type(effect)
            if kind is Persist:
                has_durable = True
            elif kind is SaveState:
                has_durable = True
                is_reset = self._save(host, effect) or is_reset  # type: ignore[arg-type]
            elif kind is TruncateLog:
                has_durable = True
                if not is_reset:
                    self._truncate(host, effect.lsn)  # type: ignore[attr-defined]
            elif kind is TrimLog:
                self._trim(host, effect.lsn)  # type: ignore[attr-defined]
        return has_durable

    def _trim(self, host: CheckedHost, first: int) -> None:
        snapshot = host.node.disk.state.snapshot.head.offset
        assert first <= snapshot + 1, f"{host.name} trims to {first}, but its durable snapshot is at {snapshot}"
        host.log.trim(first)

    def wrote(self, host: CheckedHost, effects: Sequence[Effect]) -> None:
        """Note the entries that a step appends. It comes last in a step."""
        for effect in effects:
            if type(effect) is Persist:
                self._persist(host, effect)

    def _persist(self, host: CheckedHost, effect: Persist) -> None:
        log, book = host.log, self.book
        author = (host.node.name, host.node.run)
        epoch_before = log.epoch_at(log.end)
        offset = int(effect.first)
        log.append(offset, effect.records)
        for entry in effect.records:
            if book.write(author, offset, entry, epoch_before):
                self._wrote_new(host, offset, entry)
            self._check_first(offset, entry, epoch_before)
            epoch_before = entry.epoch
            offset += 1

    def _check_first(self, offset: int, entry: Entry, epoch_before: int) -> None:
        assert entry.epoch >= epoch_before, f"I3: {entry.epoch}/{offset} stands behind epoch {epoch_before}"
        is_first = entry.epoch != epoch_before
        assert is_first == (type(entry) is Barrier), f"I3: {entry} at {offset}, behind epoch {epoch_before}"

    def _wrote_new(self, host: CheckedHost, offset: int, entry: Entry) -> None:
        """An entry no log has had before."""
        self._check_author(host, entry)
        if type(entry) is Txn:
            self._new.append((offset, entry))
        elif type(entry) is Confirm:
            self._confirm(host, offset, entry)
        elif type(entry) is Rollback:
            self._rollback(host, offset, entry)

    def _check_author(self, host: CheckedHost, entry: Entry) -> None:
        core = host.core
        assert core is not None
        assert core.leader is not None, f"I2: {host.name} appends {entry}, and does not lead"
        assert entry.epoch == core.epoch, f"I2: {host.name} appends {entry} in epoch {core.epoch}"

    def take_new(self) -> list[tuple[int, Txn]]:
        """Transactions appended for the first time anywhere since this was last asked."""
        new, self._new = self._new, []
        return new

    def _confirm(self, host: CheckedHost, offset: int, entry: Confirm) -> None:
        log, upto, epoch = host.log, entry.upto, entry.epoch
        assert upto < offset, f"I6: CONFIRM({upto}) at {offset}"
        assert log.epoch_at(upto) == epoch, f"I6: CONFIRM({upto}) of {epoch} names epoch {log.epoch_at(upto)}"
        assert upto <= host.commit, f"I6: CONFIRM({upto}), but {host.name} has committed {host.commit}"
        assert upto <= self.book.end, f"I7: CONFIRM({upto}), but only {self.book.end} are committed"
        before = self.confirmed.get(epoch, 0)
        assert upto > before, f"I6: CONFIRM({upto}) behind CONFIRM({before})"
        last = self._last_confirm.get((host.node.name, host.node.run), 0)
        covered = self.book.committed[last:upto]
        assert any(type(each) in (Txn, Barrier) for each in covered), f"I6: CONFIRM({upto}) covers no TXN or BARRIER"
        self.confirmed[epoch] = self._last_confirm[host.node.name, host.node.run] = upto

    def _rollback(self, host: CheckedHost, offset: int, entry: Rollback) -> None:
        first, epoch, log = entry.first, entry.epoch, host.log
        assert first < offset, f"I8: ROLLBACK({first}) at {offset}"
        assert log.epoch_at(first) == epoch, f"I8: ROLLBACK({first}) of {epoch} names epoch {log.epoch_at(first)}"
        assert first > host.commit, f"I8: ROLLBACK({first}), but {host.name} has committed {host.commit}"
        doomed = log.entry_at(first)
        assert type(doomed) is Txn, f"I8: ROLLBACK of {doomed}"
        assert doomed.is_sync, f"I8: ROLLBACK({first}) names an async transaction"
        known = self.rollbacks.setdefault(epoch, [])
        for begin, end in known:
            is_apart = end < first or first <= begin
            assert is_apart, f"I8: [{first}, {offset}) and [{begin}, {end}) are neither disjoint nor nested"
        known.append((first, offset))

    def is_doomed_anywhere(self, epoch: int, offset: int) -> bool:
        """Has the leader of this epoch ever written a ROLLBACK of it, committed or not?"""
        return any(first <= offset < at for first, at in self.rollbacks.get(epoch, ()))

    def _save(self, host: CheckedHost, effect: SaveState) -> bool:
        """Returns whether the state brings a snapshot which takes the log's place."""
        state, log = effect.state, host.log
        assert state.member == host.member, f"P14: {host.name} saves itself as {state.member}"
        head = state.snapshot.head
        if head.offset <= log.base.offset or log.epoch_at(head.offset) == head.epoch:
            return False
        assert head.offset >= host.known, f"I5: a snapshot at {head} takes the place of what is known to {host.known}"
        log.reset(head)
        host.is_cutting = True
        reached("quorum.snapshot_installed")
        return True

    def _truncate(self, host: CheckedHost, to: int) -> None:
        assert to >= host.applied, f"I5: {host.name} truncates to {to}, but has applied {host.applied}"
        assert to >= host.record.confirmed, f"I5: {host.name} truncates to {to}, below CONFIRM({host.record.confirmed})"
        lost = host.log.entries[to - host.log.base.offset :]
        if any(type(entry) is Confirm and entry.upto == host.record.confirmed for entry in lost):
            reached("quorum.confirm_truncated")
        host.is_cutting = True
        reached("quorum.truncated")
        host.log.truncate(to)
