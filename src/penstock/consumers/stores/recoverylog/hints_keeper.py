"""Where hints to a recovery log are kept: in the KeySpace, the newest and some backups.

    {prefix}/primary       by the process that records now, from time to time
    {prefix}/backup-0      the last hints, or nearly, of the process before it; then older ones

A process reads them, plays the log back, and then, once its store is restored, moves them on: the primary ones become
the first backup. Hints only ever move forward along the log: a process which was replaced cannot put back its own.
Backups serve if hints are lost or damaged: they lead to the same state, by reading more.
"""

from typing import Final

from penstock.consumers.core.recoverylog.hints import Hints
from penstock.kernel.errors import InvalidArgument, MalformedFrame
from penstock.keyspace.core.records import NO_REVISION, KeyValue
from penstock.keyspace.core.transaction import PutKey, is_at
from penstock.keyspace.shell.port import KeySpace
from penstock.plumbing.process.logs import get_logger

__all__ = ["HintsKeeper"]

BACKUPS_MAX: Final = 16
ATTEMPTS_MAX: Final = 10  # of changes at the same time as others

log = get_logger()


class HintsKeeper:
    """The hints of one shard to one log."""

    def __init__(self, keyspace: KeySpace, prefix: str, name: str, *, backups: int = 2) -> None:
        if not 0 <= backups <= BACKUPS_MAX:
            raise InvalidArgument(f"{backups} backups of hints: expected 0 to {BACKUPS_MAX}")
        self.log = name
        self._keyspace = keyspace
        self._primary = f"{prefix}/primary"
        self._keys = [self._primary, *(f"{prefix}/backup-{number}" for number in range(backups))]
        self._prefix = f"{prefix}/"

    async def pick(self) -> Hints:
        """The primary hints; the first backup which can be read, if they cannot; else those to the log's beginning."""
        found = await self._found()
        for key in self._keys:
            hints = self._decoded(found.get(key))
            if hints is not None:
                if key != self._primary:
                    log.warning("hints are missing: a backup is used", log=self.log, key=key)
                return hints
        return Hints(self.log)

    async def all(self) -> list[Hints]:
        """Return all hints by which the log may be played back. MalformedFrame if one cannot be read, because its
        segments are then unknown.
        """
        found = await self._found()  # also of who keeps more backups than we do
        return [Hints.decode(found[key].value) for key in sorted(found, key=lambda key: (key != self._primary, key))]

    async def move_on(self, hints: Hints) -> bool:
        """Keep the first hints of a process which has taken over; those before become backups. False: too late."""
        return await self._change(hints, is_moving=True)

    async def keep(self, hints: Hints) -> bool:
        """Replace the primary hints. False: there are newer ones, by a process which has taken over."""
        return await self._change(hints, is_moving=False)

    async def _change(self, hints: Hints, *, is_moving: bool) -> bool:
        assert hints.log == self.log
        for _ in range(ATTEMPTS_MAX):
            found = await self._found()
            primary = found.get(self._primary)
            before = self._decoded(primary)
            if before is not None and before.end.seq_no >= hints.end.seq_no:
                return before == hints
            kept = [found[key].value for key in self._keys if self._decoded(found.get(key)) is not None]
            backups = zip(self._keys[1:], kept if is_moving else [], strict=False)
            changes = [PutKey(self._primary, hints.encode()), *(PutKey(key, value) for key, value in backups)]
            revision = primary.mod_revision if primary is not None else NO_REVISION
            if (await self._keyspace.transact([is_at(self._primary, revision)], changes)).succeeded:
                return True
        return False

    async def _found(self) -> dict[str, KeyValue]:
        return {each.key: each for each in (await self._keyspace.range(self._prefix)).entries}

    def _decoded(self, entry: KeyValue | None) -> Hints | None:
        if entry is None:
            return None
        try:
            hints = Hints.decode(entry.value)
        except MalformedFrame as error:
            log.warning("hints are damaged", log=self.log, key=entry.key, reason=error.message)
            return None
        return hints if hints.log == self.log else None
