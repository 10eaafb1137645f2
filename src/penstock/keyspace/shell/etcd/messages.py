"""etcd's messages as bytes: our records in and out. Field numbers are those of etcd's rpc.proto and kv.proto."""

from typing import Final

import msgspec

from penstock.kernel.ids import Revision
from penstock.keyspace.core.keys import prefix_end
from penstock.keyspace.core.records import KeyChange, KeyValue, Lease, LeaseId, LeaseStatus
from penstock.keyspace.core.transaction import (
    Compare,
    DeleteKey,
    Operation,
    PutKey,
    ReadKey,
    Relation,
    Target,
    Transaction,
    TransactOutcome,
)
from penstock.keyspace.shell.etcd.protobuf import ProtobufMessage, encode

__all__ = [
    "CreateWatch",
    "Header",
    "RangePage",
    "WatchAnswer",
    "compaction_request",
    "get_request",
    "grant_request",
    "header_of",
    "lease_request",
    "range_request",
    "read_granted",
    "read_kept",
    "read_outcome",
    "read_page",
    "read_time_to_live",
    "read_watch",
    "time_to_live_request",
    "transaction_request",
]

_RELATIONS: Final = {Relation.EQUAL: 0, Relation.GREATER: 1, Relation.LESS: 2, Relation.NOT_EQUAL: 3}
_TARGETS: Final = {  # its number, and the field of its operand
    Target.VERSION: (0, 4),
    Target.CREATE_REVISION: (1, 5),
    Target.MOD_REVISION: (2, 6),
    Target.VALUE: (3, 7),
    Target.LEASE: (4, 8),
}
_ALL: Final = b"\0"  # as a range's key: from the first one on; as its end: up to the last one


class Header(msgspec.Struct, frozen=True, gc=False):
    """The server that answered, and its KeySpace's revision."""

    cluster_id: int
    revision: Revision


class RangePage(msgspec.Struct, frozen=True):
    """Some of the keys of a range."""

    header: Header
    entries: list[KeyValue]
    last_key: bytes
    has_more: bool


class CreateWatch(msgspec.Struct, frozen=True):
    """Asks for the changes under a prefix, from a revision on."""

    prefix: str
    start: Revision

    def encode(self) -> bytes:
        create = encode([*_range(self.prefix), (3, self.start), (4, 1), (8, 1)])  # with progress, in fragments
        return encode([(1, create)])


class WatchAnswer(msgspec.Struct, frozen=True):
    """One message of a watch."""

    header: Header
    is_created: bool
    is_cancelled: bool
    compacted: Revision
    cancel_reason: str
    has_more: bool  # the last revision may continue in the next message
    changes: list[KeyChange]


# Requests


def range_request(prefix: str, at: Revision | None, limit: int, after: bytes = b"") -> bytes:
    key, end = _bounds(prefix)
    return encode([(1, after + b"\0" if after else key), (2, end), (3, limit), (4, at or 0)])


def get_request(key: str, at: Revision | None) -> bytes:
    return encode([(1, key.encode()), (4, at or 0)])


def transaction_request(transaction: Transaction) -> bytes:
    return encode(
        [(1, _compare(compare)) for compare in transaction.compares]
        + [(2, _operation(operation)) for operation in transaction.then]
        + [(3, _operation(operation)) for operation in transaction.otherwise]
    )


def compaction_request(revision: Revision) -> bytes:
    return encode([(1, revision)])


def grant_request(ttl_s: int) -> bytes:
    return encode([(1, ttl_s)])


def lease_request(lease: LeaseId) -> bytes:
    """To renew it, or to revoke it."""
    return encode([(1, lease)])


def time_to_live_request(lease: LeaseId) -> bytes:
    return encode([(1, lease), (2, 1)])


def _range(prefix: str) -> list[tuple[int, bytes]]:
    key, end = _bounds(prefix)
    return [(1, key), (2, end)]


def _bounds(prefix: str) -> tuple[bytes, bytes]:
    key = prefix.encode()
    return key or _ALL, prefix_end(key) or _ALL


def _compare(compare: Compare) -> bytes:
    target, field = _TARGETS[compare.target]
    head = encode([(1, _RELATIONS[compare.relation]), (2, target), (3, compare.key.encode())])
    # The operand is one of several: it must be present even if it is zero or empty.
    operand = encode([(field, compare.operand)]) or bytes((field << 3 | (2 if compare.operand == b"" else 0), 0))
    return head + operand


def _operation(operation: Operation) -> bytes:
    match operation:
        case PutKey(key, value, lease):
            return encode([(2, encode([(1, key.encode()), (2, value), (3, lease), (4, 1)]))])
        case ReadKey(key, is_prefix):
            return encode([(1, encode(_range(key) if is_prefix else [(1, key.encode())]))])
        case DeleteKey(key, is_prefix):
            return encode([(3, encode([*(_range(key) if is_prefix else [(1, key.encode())]), (3, 1)]))])


# Answers


def header_of(answer: ProtobufMessage) -> Header:
    header = answer.message(1)
    return Header(header.number(1) & (1 << 64) - 1, Revision(header.number(3)))


def read_page(data: bytes) -> RangePage:
    answer = ProtobufMessage(data)
    found = answer.messages(2)
    last_key = found[-1].data(1) if found else b""
    return RangePage(header_of(answer), [_entry(kv) for kv in found], last_key, bool(answer.number(3)))


def read_outcome(data: bytes) -> tuple[Header, TransactOutcome]:
    answer = ProtobufMessage(data)
    header = header_of(answer)
    results = tuple(_result(response) for response in answer.messages(3))
    return header, TransactOutcome(bool(answer.number(2)), header.revision, results)


def read_granted(data: bytes) -> Lease:
    answer = ProtobufMessage(data)
    return Lease(LeaseId(answer.number(2)), answer.number(3) * 1_000)


def read_kept(data: bytes) -> Lease | None:
    """None: the lease is gone."""
    lease = read_granted(data)
    return lease if lease.ttl_ms > 0 else None


def read_time_to_live(data: bytes) -> LeaseStatus | None:
    """None: the lease is gone."""
    answer = ProtobufMessage(data)
    if answer.number(3) < 0:
        return None
    keys = sorted(_text(key) for key in answer.all_data(5))
    return LeaseStatus(LeaseId(answer.number(2)), answer.number(4) * 1_000, answer.number(3) * 1_000, tuple(keys))


def read_watch(data: bytes) -> WatchAnswer:
    answer = ProtobufMessage(data)
    return WatchAnswer(
        header_of(answer),
        is_created=bool(answer.number(3)),
        is_cancelled=bool(answer.number(4)),
        compacted=Revision(answer.number(5)),
        cancel_reason=answer.text(6),
        has_more=bool(answer.number(7)),
        changes=[_change(event) for event in answer.messages(11)],
    )


def _result(response: ProtobufMessage) -> tuple[KeyValue, ...]:
    """Return the key-values that a Get found, a Put replaced or a Delete removed."""
    if response.has(1):
        found = response.message(1).messages(2)
    elif response.has(2):
        found = response.message(2).messages(2)
    else:
        found = response.message(3).messages(3)
    return tuple(map(_entry, found))


def _entry(kv: ProtobufMessage) -> KeyValue:
    return KeyValue(
        _text(kv.data(1)),
        kv.data(5),
        Revision(kv.number(2)),
        Revision(kv.number(3)),
        kv.number(4),
        LeaseId(kv.number(6)),
    )


def _change(event: ProtobufMessage) -> KeyChange:
    entry = _entry(event.message(2))
    is_removal = event.number(1) == 1
    return KeyChange(entry.mod_revision, entry.key, None if is_removal else entry)


def _text(key: bytes) -> str:
    """Decode a key. A foreign key may be no UTF-8: it must stay a distinct key, and raise nothing."""
    return key.decode(errors="surrogateescape")
