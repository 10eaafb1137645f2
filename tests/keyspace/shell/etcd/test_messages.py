"""etcd's messages: what a real server cannot be made to send."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.errors import MalformedFrame
from penstock.kernel.ids import Revision
from penstock.keyspace.core.records import Lease, LeaseId, LeaseStatus
from penstock.keyspace.core.transaction import Compare, PutKey, Relation, Target, Transaction
from penstock.keyspace.shell.etcd import messages
from penstock.keyspace.shell.etcd.messages import CreateWatch, Header
from penstock.keyspace.shell.etcd.protobuf import ProtobufMessage, encode

READERS: list[Callable[[bytes], Any]] = [
    messages.read_page,
    messages.read_outcome,
    messages.read_granted,
    messages.read_kept,
    messages.read_time_to_live,
    messages.read_watch,
]


@pytest.mark.parametrize("operand", [0, b""])
def test_an_operand_is_sent_even_if_it_is_nothing(operand: int | bytes) -> None:
    """Left out, as proto3 leaves out zeros, etcd would not know which of the operands was meant."""
    target = Target.VALUE if isinstance(operand, bytes) else Target.LEASE
    request = messages.transaction_request(Transaction((Compare("k", target, Relation.EQUAL, operand),)))
    (compare,) = ProtobufMessage(request).messages(1)
    assert compare.has(7 if target is Target.VALUE else 8)


def test_a_transaction() -> None:
    compare = Compare("k", Target.MOD_REVISION, Relation.LESS, 5)
    request = messages.transaction_request(Transaction((compare,), (PutKey("k", b"v", LeaseId(9)),)))
    assert request == encode(
        [
            (1, encode([(1, 2), (2, 2), (3, b"k"), (6, 5)])),
            (2, encode([(2, encode([(1, b"k"), (2, b"v"), (3, 9), (4, 1)]))])),
        ]
    )


def test_the_empty_prefix_is_every_key() -> None:
    (create,) = ProtobufMessage(CreateWatch("", Revision(1)).encode()).messages(1)
    assert (create.data(1), create.data(2)) == (b"\0", b"\0")


def test_the_next_page_begins_behind_the_last_key() -> None:
    request = ProtobufMessage(messages.range_request("a/", Revision(7), 10, b"a/x"))
    assert (request.data(1), request.data(2), request.number(3), request.number(4)) == (b"a/x\0", b"a0", 10, 7)


def test_a_cluster_id_is_unsigned() -> None:
    answer = encode([(1, encode([(1, -1), (3, 7)]))])
    assert messages.header_of(ProtobufMessage(answer)) == Header((1 << 64) - 1, Revision(7))


def test_a_lease_which_is_gone_is_none() -> None:
    assert messages.read_kept(encode([(2, 5)])) is None
    assert messages.read_kept(encode([(2, 5), (3, 10)])) == Lease(LeaseId(5), 10_000)
    assert messages.read_time_to_live(encode([(2, 5), (3, -1)])) is None
    living = encode([(2, 5), (3, 4), (4, 10), (5, b"b"), (5, b"a")])
    assert messages.read_time_to_live(living) == LeaseStatus(LeaseId(5), 10_000, 4_000, ("a", "b"))


@pytest.mark.parametrize("read", READERS)
@given(st.binary(max_size=80))
def test_anything_is_an_answer_or_refused(read: Callable[[bytes], Any], data: bytes) -> None:
    with suppress(MalformedFrame):
        read(data)
