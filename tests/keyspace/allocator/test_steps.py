"""Packing: whatever the steps are, transactions stay within the KeySpace's limits, and no step is torn."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import Revision
from penstock.keyspace.allocator.steps import Step, pack
from penstock.keyspace.limits import check_transaction
from penstock.keyspace.transaction import Put, is_at

LEADER = is_at("leader", Revision(7))


def step_of(number: int, operations: int, value_bytes: int) -> Step:
    step = Step(f"item-{number}")
    for index in range(operations):
        key = f"item-{number}/{index}"
        step.operations.append(Put(key, bytes(value_bytes)))
        step.require([is_at(key, Revision(0)), is_at("shared", Revision(3))])
    return step


@given(st.lists(st.tuples(st.integers(1, 60), st.sampled_from([0, 100, 9_000])), max_size=40))
def test_every_step_is_in_one_allowed_transaction_with_its_compares(sizes: list[tuple[int, int]]) -> None:
    steps = [step_of(number, *size) for number, size in enumerate(sizes)]
    batches = list(pack(steps, LEADER))
    assert [item for batch in batches for item in batch.items] == [step.item for step in steps]
    for batch in batches:
        check_transaction(batch.transaction)
        assert batch.transaction.compares[0] == LEADER
        packed = [step for step in steps if step.item in batch.items]
        assert list(batch.transaction.then) == [operation for step in packed for operation in step.operations]
        assert {c.key for c in batch.transaction.compares} == {"leader"} | {k for s in packed for k in s.compares}


def test_small_steps_share_a_transaction() -> None:
    batches = list(pack([step_of(number, 1, 10) for number in range(200)], LEADER))
    assert [len(batch.items) for batch in batches] == [126, 74]


def test_no_steps_are_no_transaction() -> None:
    assert list(pack([], LEADER)) == []
