"""Checkpoints of a member in the object store: a state, and the cursor to continue from. Design: lake.md L1, L17.

    <folder>/<position, 20 digits>-<state hash>              the cursor and the whole state, one atomic write
    <folder>/<position, 20 digits>-<state hash>.disputed     a count of the members found this state wrong

Members take checkpoints at the same positions of the queue, and compare their states' hashes on the queue
(`core/staging/proposing/agreement.py`). A new member begins with the newest undisputed one. An unreadable checkpoint
stays in the folder, and the next older one is used (D16).
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from penstock.kernel.errors import DataDamaged, FormatTooNew, NotFound
from penstock.kernel.formats import LAKE_CHECKPOINT, check_version, kind_of_tag
from penstock.lake.core.staging.checkpoint import freeze, load
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.tables import RULES
from penstock.lake.member.queue import START
from penstock.plumbing.objects import ObjectStore
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.wal.checksum import crc32c

__all__ = ["Checkpoints"]

KEPT: Final = 3
DISPUTED: Final = ".disputed"

log = get_logger()


class _Checkpoint(msgspec.Struct, frozen=True, array_like=True, tag="lake-checkpoint-1"):
    cursor: int
    state: bytes
    sum: int = -1  # CRC-32C over both; -1: of a release before sums


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Checkpoint).decode


class Checkpoints:
    """The checkpoints of one queue, shared by its members."""

    def __init__(self, store: ObjectStore, folder: str) -> None:
        assert folder.endswith("/")
        self._store = store
        self._folder = folder
        self.unreadable: list[str] = []  # what `newest` passed over, and why

    async def newest(self) -> tuple[int, StagingMachine]:
        """The cursor and the state to begin with."""
        self.unreadable = []
        for key in reversed(_trusted(await self._keys())):
            try:
                return await self._load(key)
            except NotFound:
                continue  # another member tidied up: there is a newer one
            except DataDamaged as error:
                self.unreadable.append(str(error))
                log.error("a checkpoint of the lake is passed over", key=key, reason=str(error))
        return START, StagingMachine()

    async def _load(self, key: str) -> tuple[int, StagingMachine]:
        data = (await self._store.get(key)).data
        try:
            checkpoint = _decoded(data, key)
            if checkpoint.sum not in (-1, _sum(checkpoint.cursor, checkpoint.state)):
                raise DataDamaged(f"checkpoint {key} has another sum than it had")
            machine = load(checkpoint.state, StagingMachine)
        except (DataDamaged, FormatTooNew):
            raise
        except Exception as error:  # whatever its bytes are: they are not those that were written
            raise DataDamaged(f"checkpoint {key} cannot be read: {error}") from None
        if machine.version > RULES:
            raise FormatTooNew(
                f"checkpoint {key} is of rules {machine.version}; this release knows rules 1 to {RULES}",
                next_step="start the release that wrote it, or a newer one",
            )
        if not key.endswith(_name(machine)):
            raise DataDamaged(f"checkpoint {key} holds another state: {_name(machine)}")
        return checkpoint.cursor, machine

    def take(self, cursor: int, machine: StagingMachine) -> tuple[str, Callable[[], bytes]]:
        """The state as it is now, under its name; to be saved. The call, which takes its time, makes it bytes."""
        state = freeze(machine)
        return self._folder + _name(machine), lambda: _encoded(cursor, state())

    async def save(self, key: str, encode: Callable[[], bytes]) -> None:
        """Write it, unless another member has, and drop old ones."""
        keys = await self._keys()
        if key not in keys:
            await self._store.put(key, await asyncio.to_thread(encode))
        older = [each for each in _trusted(keys) if each < key]
        await self._store.delete(*older[: -(KEPT - 1)])

    async def dispute(self, applied: int, hashes: Iterable[str]) -> None:
        """Mark states of a position as disputed, so that no member begins with them."""
        for each in hashes:
            await self._store.put(f"{self._folder}{applied:020d}-{each}{DISPUTED}", b"")

    async def _keys(self) -> list[str]:
        return [each.key async for page in self._store.list(self._folder) for each in page.objects]


def _trusted(keys: Iterable[str]) -> list[str]:
    """Return the undisputed checkpoints, sorted. Two states of one position dispute each other."""
    found = set(keys)
    by_position: defaultdict[str, list[str]] = defaultdict(list)
    for key in found:
        if not key.endswith(DISPUTED) and key + DISPUTED not in found:
            by_position[key[: key.rindex("-")]].append(key)
    return sorted(keys[0] for keys in by_position.values() if len(keys) == 1)


def _encoded(cursor: int, state: bytes) -> bytes:
    return _encode(_Checkpoint(cursor, state, _sum(cursor, state)))


def _sum(cursor: int, state: bytes) -> int:
    return crc32c(state, crc32c(str(cursor).encode()))


def _decoded(data: bytes | memoryview, key: str) -> _Checkpoint:
    """Return the checkpoint, or `FormatTooNew` if another release saved it."""
    try:
        return _decode(data)
    except msgspec.ValidationError:
        tag = kind_of_tag(next(iter(msgspec.msgpack.decode(data)), None))
        if tag is not None and tag[0] == LAKE_CHECKPOINT.magic.decode():
            check_version(LAKE_CHECKPOINT, tag[1], f"object {key}")
        raise


def _name(machine: StagingMachine) -> str:
    return f"{machine.applied:020d}-{machine.state_hash():032x}"
