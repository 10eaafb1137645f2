"""State machines a node can run by name.

    log    keeps counts only: for clients that need just the order, and subscribe to it
    map    keys and values: put, delete, compare-and-set, append; read by key or prefix
    keyspace  keys with revisions, leases and watches: the KeySpace of a cluster (`keyspace_machine.py`)

A machine is deterministic, total (a bad transaction is a result, never an exception) and bounded by its snapshot.
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable
from zlib import crc32

import msgspec

from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import EntryId
from penstock.quorum.core.machines.keyspace_machine import KeySpaceMachine
from penstock.quorum.core.machines.state_machine import StateMachine
from penstock.quorum.records.keyspace import KEYSPACE_SHARD

__all__ = ["MACHINES", "LogMachine", "MapMachine", "Queryable", "Watchable", "machine_of", "make_machine"]


class Queryable(StateMachine, Protocol):
    """A state machine which also answers questions, without changing."""

    def query(self, query: bytes) -> Any:
        """The answer, something msgpack can hold. A question it does not understand has an answer, too."""
        ...


@runtime_checkable
class Watchable(Protocol):
    """A state machine that shows changes: each call continues where the one before it ended."""

    def changes(self, query: bytes, after: int) -> tuple[int, bytes] | None:
        """Return the next changes after a position, and their own position; None if there are none yet."""
        ...


class LogMachine:
    """Only the order counts: how many transactions, how many bytes, which was the last."""

    def __init__(self) -> None:
        self._count = 0
        self._bytes = 0

    def apply(self, entry: EntryId, ops: bytes) -> Any:
        self._count += 1
        self._bytes += len(ops)
        return None

    def checksum(self) -> int:
        return self._count

    def query(self, query: bytes) -> Any:
        return {"transactions": self._count, "bytes": self._bytes}

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode((self._count, self._bytes))

    def restore(self, data: bytes) -> None:
        self._count, self._bytes = msgspec.msgpack.decode(data) if data else (0, 0)


class Put(msgspec.Struct, frozen=True, tag="put", array_like=True):
    """Set a key. The result is the value it had."""

    key: str
    value: bytes


class Delete(msgspec.Struct, frozen=True, tag="delete", array_like=True):
    """Remove a key. The result is the value it had."""

    key: str


class CompareAndSet(msgspec.Struct, frozen=True, tag="cas", array_like=True):
    """Set a key if it has the expected value (None: if it is absent). The result is [done, value before]."""

    key: str
    expected: bytes | None
    value: bytes


class AppendTo(msgspec.Struct, frozen=True, tag="append", array_like=True):
    """Add to the end of a value. The result is its new length."""

    key: str
    value: bytes


class Get(msgspec.Struct, frozen=True, tag="get", array_like=True):
    """A question: the value of a key, or None."""

    key: str


class ScanKeys(msgspec.Struct, frozen=True, tag="scan", array_like=True):
    """A question: the keys with this prefix, in order, with their values; at most `limit`."""

    prefix: str = ""
    limit: int = 1000


MapOp = Put | Delete | CompareAndSet | AppendTo
MapQuery = Get | ScanKeys
_decode_op = msgspec.msgpack.Decoder(MapOp).decode
_decode_query = msgspec.msgpack.Decoder(MapQuery).decode
encode_op = msgspec.msgpack.Encoder().encode


class MapMachine:
    """A small map in memory. The checksum is kept per change, so that it costs what changes."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._checksum = 0

    def apply(self, entry: EntryId, ops: bytes) -> Any:
        try:
            op: MapOp = _decode_op(ops)
        except msgspec.DecodeError as error:
            return {"error": f"not an operation of a map: {error}"}
        match op:
            case Put(key, value):
                return self._set(key, value)
            case Delete(key):
                return self._set(key, None)
            case CompareAndSet(key, expected, value):
                before = self._values.get(key)
                if before != expected:
                    return [False, before]
                self._set(key, value)
                return [True, before]
            case AppendTo(key, value):
                whole = self._values.get(key, b"") + value
                self._set(key, whole)
                return len(whole)

    def _set(self, key: str, value: bytes | None) -> bytes | None:
        before = self._values.pop(key, None) if value is None else self._values.get(key)
        if value is not None:
            self._values[key] = value
        # A sum over the present values: the same for the same map, whatever its history.
        self._checksum ^= _mix(key, before) ^ _mix(key, value)
        return before

    def checksum(self) -> int:
        return self._checksum

    def query(self, query: bytes) -> Any:
        try:
            question: MapQuery = _decode_query(query)
        except msgspec.DecodeError as error:
            return {"error": f"not a question to a map: {error}"}
        match question:
            case Get(key):
                return self._values.get(key)
            case ScanKeys(prefix, limit):
                keys = sorted(key for key in self._values if key.startswith(prefix))
                return [(key, self._values[key]) for key in keys[:limit]]

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode((self._checksum, self._values))

    def restore(self, data: bytes) -> None:
        checksum, values = msgspec.msgpack.decode(data, type=tuple[int, dict[str, bytes]]) if data else (0, {})
        self._checksum, self._values = checksum, values


def _mix(key: str, value: bytes | None) -> int:
    return 0 if value is None else crc32(value, crc32(key.encode()))


MACHINES: dict[str, Callable[[], Queryable]] = {"log": LogMachine, "map": MapMachine, "keyspace": KeySpaceMachine}


def machine_of(shard: str, usual: str) -> str:
    """Return the name of the machine that a shard runs: the node's usual one, unless the shard is the KeySpace."""
    return "keyspace" if shard == KEYSPACE_SHARD else usual


def make_machine(name: str) -> Queryable:
    """A new machine of that name."""
    if name not in MACHINES:
        raise InvalidArgument(f"there is no state machine {name!r}; there are: {', '.join(MACHINES)}")
    return MACHINES[name]()
