"""Checkpoints of a member in the object store: a state, and the cursor to continue from. Design: lake.md L1, L17.

    <folder>/<position, 20 digits>-<state hash>    the cursor and the whole state, one atomic write

Members take them at the same positions of the queue, and the state's hash is in the name: if a member finds a
checkpoint of the same position under another hash, one of the two has diverged. A new member begins with the newest
one.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from penstock.kernel.errors import InternalError, NotFound
from penstock.lake.core.staging.checkpoint import freeze, load
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.member.queue import START
from penstock.plumbing.objects import ObjectStore

__all__ = ["Checkpoints"]

KEPT: Final = 3


class _Checkpoint(msgspec.Struct, frozen=True, array_like=True, tag="lake-checkpoint-1"):
    cursor: int
    state: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Checkpoint).decode


class Checkpoints:
    """The checkpoints of one queue, shared by its members."""

    def __init__(self, store: ObjectStore, folder: str) -> None:
        assert folder.endswith("/")
        self._store = store
        self._folder = folder

    async def newest(self) -> tuple[int, StagingMachine]:
        """The cursor and the state to begin with."""
        for key in reversed(await self._keys()):
            try:
                data = (await self._store.get(key)).data
            except NotFound:
                continue  # another member tidied up: there is a newer one
            checkpoint = _decode(data)
            machine = load(checkpoint.state, StagingMachine)
            if not key.endswith(_name(machine)):
                raise InternalError(f"checkpoint {key} holds another state: {_name(machine)}")
            return checkpoint.cursor, machine
        return START, StagingMachine()

    def take(self, cursor: int, machine: StagingMachine) -> tuple[str, Callable[[], bytes]]:
        """The state as it is now, under its name; to be saved. The call, which takes its time, makes it bytes."""
        state = freeze(machine)
        return self._folder + _name(machine), lambda: _encode(_Checkpoint(cursor, state()))

    async def save(self, key: str, encode: Callable[[], bytes]) -> None:
        """Write it, unless another member has; and drop old ones. An operation of the log, with its content."""
        keys = await self._keys()
        position = key[: key.rindex("-") + 1]
        rivals = [each for each in keys if each.startswith(position)]
        if any(each != key for each in rivals):
            raise InternalError(f"members have diverged: {rivals[0]} and {key} are of one position")
        if not rivals:
            await self._store.put(key, await asyncio.to_thread(encode))
        await self._store.delete(*[each for each in keys if each < key][: -(KEPT - 1)])

    async def _keys(self) -> list[str]:
        return [each.key async for page in self._store.list(self._folder) for each in page.objects]


def _name(machine: StagingMachine) -> str:
    return f"{machine.applied:020d}-{machine.state_hash():032x}"
