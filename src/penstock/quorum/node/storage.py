"""Where one shard of a node keeps its log and its registers: a WAL and a state file in one folder.

    <folder>/log/          the WAL: one record per entry, which carries its own offset
    <folder>/state         the node's registers (NodeState)
    <folder>/log.witness   the Lsn up to which the WAL is durable: a log that ends before it was cut or damaged
    <folder>/lost/         transactions which a truncation removed: the lost-and-found
    <folder>/snapshots/    snapshots of the state machine

An entry's place in the WAL is not its offset: after a snapshot the log may begin anywhere, while the WAL continues to
count. What always holds: `shift` maps one to the other, and is read back from the records themselves.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from struct import Struct
from typing import Any

from penstock.kernel.codec import Codec
from penstock.kernel.errors import InvalidArgument, NotFound, PenstockError, PreconditionFailed, WalCorrupt
from penstock.kernel.formats import NODE_STATE
from penstock.kernel.ids import Lsn, Offset
from penstock.plumbing.files.witness import DiskWitness
from penstock.plumbing.host.loop import Done
from penstock.plumbing.ports.ports import Ports
from penstock.plumbing.process.tasks import Tasks
from penstock.plumbing.wal import StateFile, Wal, WalOptions
from penstock.quorum.node.lost_and_found import LostAndFound
from penstock.quorum.records.effects import KeepLost
from penstock.quorum.records.entry import Entry
from penstock.quorum.records.state import NodeState

__all__ = ["NodeStorage"]

_RECORD = Codec[tuple[Offset, Entry]](tuple[Offset, Entry])
_STATE = Codec[NodeState](NodeState)
READ_BYTES = 4 << 20
_CONFIRMED = Struct("<Q")


class NodeStorage:
    """The durable side of one node in one shard. `runtime.loop.Storage` is what the machine loop sees of it."""

    def __init__(self, wal: Wal, witness: DiskWitness, state_file: StateFile, lost: LostAndFound, tasks: Tasks) -> None:
        self.wal = wal
        self._witness = witness
        self._confirmed = wal.durable_lsn
        self.lost = lost
        self._state_file = state_file
        self._tasks = tasks
        self._where = str(state_file.path.parent / "log")
        self._shift = 0  # an entry's offset less its record's Lsn
        self._first = Offset(1)  # the node's log begins here; the WAL may keep older records, whole segments of them
        self._trims = 0  # under way
        self._behind_trims: list[Callable[[], None]] = []
        self._to_keep: list[KeepLost] = []  # lost transactions to copy before the next truncation

    @classmethod
    async def open(cls, folder: Path, ports: Ports, tasks: Tasks, options: WalOptions | None = None) -> "NodeStorage":
        """Raise `WalCorrupt` where acknowledged entries cannot be read back, `FormatTooNew` for a newer folder."""
        state_file = StateFile(folder / "state", ports.disk, kind=NODE_STATE)
        state_file.load()  # a newer one is refused before the WAL changes a byte
        witness = DiskWitness(ports.disk, folder / "log.witness")
        payload = witness.read()
        confirmed = _CONFIRMED.unpack(payload)[0] if payload is not None else 0  # 0: of an older release
        wal = await Wal.open(
            folder / "log", options, disk=ports.disk, confirmed=confirmed, workers=ports.workers, chance=ports.chance
        )
        storage = cls(wal, witness, state_file, LostAndFound(folder / "lost", ports.disk), tasks)
        if wal.durable_lsn:
            storage._confirm(wal.durable_lsn)
        return storage

    # Recovery

    def load_state(self) -> NodeState | None:
        """The registers, or None in a folder which was never formatted."""
        data = self._state_file.load()
        return None if data is None else _STATE.decode(data)

    def format(self, state: NodeState) -> None:
        """Write the registers of a new incarnation. Blocks; only before the node runs."""
        self._state_file.save(_STATE.encode(state))

    async def load_entries(self) -> tuple[Offset, list[Entry]]:
        """Every entry there is, and the offset of the first (1 where there is none)."""
        entries: list[Entry] = []
        first = Offset(1)
        async for records in self.wal.walk(self.wal.first_lsn, bytes_max=READ_BYTES):
            for data in records:
                offset, entry = _RECORD.decode_known(data, self._where)
                if not entries:
                    first = offset
                elif offset != first + len(entries):
                    raise WalCorrupt(
                        f"entry {offset} is in the place of {first + len(entries)}",
                        next_step="keep the folder for inspection; the node comes back by a swap, as a new incarnation",
                    )
                entries.append(entry)
        self._shift = first - self.wal.first_lsn
        self._first = first
        return first, entries

    # What the machine loop calls

    def append(self, first: Lsn, records: Sequence[Any], done: Done) -> None:
        if first != self.wal.last_lsn + 1 + self._shift:
            assert self.wal.last_lsn < self.wal.first_lsn, "only an empty log may start somewhere else"
            self._shift = first - self.wal.last_lsn - 1
            self._first = Offset(first)
        encode = _RECORD.encode
        data = [encode((Offset(offset), entry)) for offset, entry in enumerate(records, first)]
        self._submit(partial(self.wal.submit, data, partial(self._appended, done)), done)

    def _appended(self, done: Done, lsn: Lsn, error: PenstockError | None) -> None:
        """These records are durable; of many that became so together, one is confirmed."""
        if error is None and lsn > self._confirmed and self.wal.durable_lsn >= lsn:
            self._confirm(self.wal.durable_lsn)
        done(error)

    def _confirm(self, lsn: Lsn) -> None:
        self._confirmed = lsn
        self._witness.write(_CONFIRMED.pack(lsn))

    def truncate(self, lsn: Lsn, done: Done) -> None:
        submit = partial(self._truncate, Offset(lsn), done)
        if not self._to_keep:
            submit()
            return
        kept, self._to_keep = self._to_keep, []
        self._tasks.start(self._keep_then(kept, submit, done), "lost-and-found")

    def save_state(self, state: Any, done: Done) -> None:
        data = _STATE.encode(state)
        self._submit(partial(self.wal.submit_state, self._state_file, data, lambda _, error: done(error)), done)

    def trim(self, lsn: Lsn) -> None:
        self._first = Offset(max(self._first, lsn))
        self._trims += 1
        self.wal.submit_trim(Lsn(lsn - self._shift), lambda _lsn, _error: self._trimmed())

    def _trimmed(self) -> None:
        self._trims -= 1
        if not self._trims:
            waiting, self._behind_trims = self._behind_trims, []
            for go_on in waiting:
                go_on()

    def _truncate(self, to: Offset, done: Done) -> None:
        """Drop everything after `to`; if nothing of the log is before it, also the trimmed records that the WAL keeps.

        Otherwise the log could not begin after a snapshot: the WAL has no gaps. How much it keeps is known only when no
        trim is under way.
        """
        if self._trims:
            self._behind_trims.append(partial(self._truncate, to, done))
            return
        lsn = Lsn(self.wal.first_lsn - 1 if to < self._first else to - self._shift)
        self._submit(partial(self._truncate_behind_witness, lsn, done), done)

    def _truncate_behind_witness(self, lsn: Lsn, done: Done) -> None:
        """Truncate once the witness of the shorter log is durable.

        The kernel may have written the one of the longer log back, and a loss of power would leave that one.
        """
        self._confirm(min(lsn, self._confirmed))
        self.wal.submit_job("syncing the witness", self._witness.sync, lambda _lsn, _error: None)
        self.wal.submit_truncate(lsn, lambda _, error: done(error))

    # What the shell calls

    def keep_lost(self, effect: KeepLost) -> None:
        """Copy these transactions before the truncation that follows drops them."""
        self._to_keep.append(effect)

    async def read(self, first: Offset, last: Offset, bytes_max: int) -> tuple[Entry, ...]:
        """Return entries from `first` on, at most up to `last`, one at least; none if the log no longer has them.

        A damaged entry is an error: "no entry" would make its reader wait for ever.
        """
        lsn = Lsn(first - self._shift)
        if not self.wal.first_lsn <= lsn <= self.wal.durable_lsn:
            return ()
        try:
            records = await self.wal.read(lsn, bytes_max=bytes_max)
        except (NotFound, InvalidArgument, PreconditionFailed):
            return ()  # trimmed or truncated meanwhile: the caller looks again at the present log
        entries = [_RECORD.decode_known(data, self._where)[1] for data in records]
        return tuple(entries[: last - first + 1])

    async def close(self) -> None:
        await self.wal.close()
        self._witness.close()

    def _submit(self, submit: Any, done: Done) -> None:
        try:
            submit()
        except PenstockError as error:
            done(error)

    async def _keep_then(self, kept: list[KeepLost], submit: Any, done: Done) -> None:
        try:
            for effect in kept:
                entries = await self._read_all(effect.first, effect.last)
                await self.lost.keep(effect, entries)
        except (PenstockError, OSError) as error:
            done(error)
        else:
            submit()

    async def _read_all(self, first: Offset, last: Offset) -> list[tuple[Offset, Entry]]:
        found: list[tuple[Offset, Entry]] = []
        at = first
        while at <= last and (entries := await self.read(at, last, READ_BYTES)):
            found += [(Offset(offset), entry) for offset, entry in enumerate(entries, at)]
            at = Offset(at + len(entries))
        return found
