"""A store in one JSON file: an application's whole state as a value, with the checkpoint, rewritten by each commit.

For small states. The file is recorded into a recovery log, so a process which takes over has it at once; each commit
appends the state to the log, and nothing older is needed any more. Fencing is the log's (`log_writer.py`).

    state.json    {"checkpoint": "…", "state": …}
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec

from penstock.consumers.core.checkpoint import Checkpoint
from penstock.consumers.stores.recoverylog.recorded_folder import RecordedFolder
from penstock.consumers.stores.recoverylog.recording import RecordingBarrier
from penstock.consumers.stores.recoverylog.recovery_log import RecoveryLog
from penstock.kernel.errors import InvalidArgument, StorageError

__all__ = ["JsonFileStore"]

STATE: Final = "state.json"
NEXT: Final = "next.json"
T = TypeVar("T")


class _File(msgspec.Struct):
    checkpoint: bytes
    state: msgspec.Raw


class JsonFileStore(Generic[T]):
    """Keeps a value of one type: a msgspec Struct, a dict, ... The application changes it in place."""

    def __init__(self, log: RecoveryLog, new: Callable[[], T], *, type: Any = None) -> None:
        self.log = log
        self._state = new()
        self._type = type if type is not None else self._state.__class__
        self._folder: RecordedFolder | None = None
        self._sealed: RecordingBarrier | None = None

    async def standby(self) -> None:
        """Be ready to restore soon: return when the log is played back, and continue to follow it."""
        await self.log.standby()

    async def restore(self) -> Checkpoint:
        """Take the recovery log over, and read the file which it leads to."""
        self._folder = RecordedFolder(await self.log.restore())
        checkpoint = Checkpoint()
        file = self._folder.folder / STATE
        if file.exists():
            checkpoint = self._read(file)
        await self.log.restored()
        return checkpoint

    def _read(self, file: Path) -> Checkpoint:
        try:
            found = msgspec.json.decode(file.read_bytes(), type=_File)
            self._state = msgspec.json.decode(found.state, type=self._type)
        except msgspec.DecodeError as error:
            raise StorageError(f"{self.log.name}: {STATE} is not what the application keeps: {error}") from error
        return Checkpoint.decode(found.checkpoint)

    async def transaction(self) -> T:
        """The state. Changes to it belong to the transaction that is sealed next."""
        return self._state

    async def seal(self, checkpoint: Checkpoint) -> None:
        """Write the file: as a new one, which then takes the old one's place."""
        assert self._sealed is None, "the transaction before is not committed"
        assert self._folder is not None, "not restored"
        try:
            state = msgspec.Raw(msgspec.json.encode(self._state))
        except (TypeError, ValueError) as error:
            raise InvalidArgument(f"this state cannot be written as JSON: {error}") from error
        self._folder.create(NEXT, msgspec.json.encode(_File(checkpoint.encode(), state)))
        self._folder.rename(NEXT, STATE)
        self._sealed = self._folder.recording.barrier()

    async def commit(self) -> None:
        """Append the written file to the log."""
        assert self._sealed is not None, "nothing is sealed"
        await self.log.commit(self._sealed)
        self._sealed = None

    async def close(self) -> None:
        self._folder = None
        await self.log.close()
