"""The allocator's view of shards, of consumers, and of members that may leave."""

import pytest

from penstock.consumers.client.definition import ConsumerSpec, ShardDefinition
from penstock.consumers.client.status import ShardCode, ShardStatus
from penstock.consumers.worker.allocation import ShardPolicy
from penstock.kernel.ids import Revision
from penstock.keyspace.core.allocator.layout import Layout
from penstock.keyspace.core.allocator.policy import Capacity, Demand
from penstock.keyspace.core.mirror import MirrorEntry
from penstock.keyspace.core.records import KeyValue

LAYOUT = Layout("/penstock-consumers/bank")
POLICY = ShardPolicy(LAYOUT)
IDLE, STANDBY, PRIMARY, FAILED = ShardCode.IDLE, ShardCode.STANDBY, ShardCode.PRIMARY, ShardCode.FAILED


def entry(key: str, value: bytes, decoded: object = None) -> MirrorEntry:
    return MirrorEntry(KeyValue(key, value, Revision(1), Revision(1), 1), decoded)


def item(**changes: object) -> MirrorEntry:
    definition = ShardDefinition(id="s", sources={"shop/orders": 0}, **changes)  # type: ignore[arg-type]
    return entry(LAYOUT.item_key("s"), b"", definition)


def test_a_shard_wants_a_primary_and_its_standbys_and_a_disabled_one_nobody() -> None:
    assert POLICY.demand(item(standbys=2)) == Demand(3)
    assert POLICY.demand(item(standbys=2, is_disabled=True)) == Demand(0)
    assert POLICY.demand(entry(LAYOUT.item_key("s"), b"?", b"?")) is None  # an unknown demand


def test_a_consumer_takes_what_it_says() -> None:
    spec = ConsumerSpec(endpoint="127.0.0.1:1", limit=7, is_exiting=True)
    assert POLICY.capacity(entry("m", spec.encode())) == Capacity(7, is_exiting=True)


@pytest.mark.parametrize(
    ("codes", "consistent"),
    [
        ([PRIMARY, STANDBY], [True, True]),
        ([PRIMARY, IDLE], [True, False]),
        ([PRIMARY, FAILED], [True, False]),  # the process's own fault: another one may do better
        ([FAILED, STANDBY], [True, True]),
        ([FAILED, FAILED], [True, True]),  # the shard's fault, wherever it is
        ([IDLE, FAILED], [False, False]),
    ],
)
def test_who_failed_counts_if_the_primary_failed_too(codes: list[ShardCode], consistent: list[bool]) -> None:
    assignments = [
        entry(LAYOUT.assignment_key("s", f"z#c{slot}", slot), ShardStatus(code).encode())
        for slot, code in enumerate(codes)
    ]
    assert POLICY.consistent(item(), assignments) == consistent
