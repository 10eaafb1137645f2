"""What a transaction means. The behaviour suite holds every backend to the same; here are the corners."""

import pytest

from penstock.kernel.errors import LeaseExpired
from penstock.kernel.ids import Instant, Revision
from penstock.keyspace.core.records import KeyValue, LeaseId
from penstock.keyspace.core.store import KeyStore
from penstock.keyspace.core.transaction import (
    Compare,
    DeleteKey,
    Execution,
    PutKey,
    ReadKey,
    Relation,
    Target,
    Transaction,
    execute,
    is_absent,
    is_present,
)


def store_with(*keys: str) -> KeyStore:
    store = KeyStore()
    store.transact(Transaction(then=tuple(PutKey(key, b"") for key in keys)))
    return store


def test_execute_changes_nothing_by_itself() -> None:
    store = store_with("a")
    execution = execute(Transaction(then=(PutKey("b", b""), DeleteKey("a"))), store, Revision(3))
    a, b = KeyValue("a", b"", Revision(2), Revision(2), 1), KeyValue("b", b"", Revision(3), Revision(3), 1)
    assert execution == Execution(True, {"b": b, "a": None}, ((), (a,)))
    assert store.snapshot("").entries == (a,)


def test_a_value_is_compared_with_bytes_and_a_number_with_a_number() -> None:
    with pytest.raises(TypeError):
        Compare("a", Target.VALUE, Relation.EQUAL, 1)
    with pytest.raises(TypeError):
        Compare("a", Target.VERSION, Relation.EQUAL, b"1")


def test_a_removed_key_is_not_found_again_by_the_same_transaction() -> None:
    store = store_with("a/1", "a/2")
    delete_all = DeleteKey("a/", is_prefix=True)
    outcome = store.transact(Transaction(then=(DeleteKey("a/1"), delete_all, delete_all, ReadKey("a/1"))))
    found = [[entry.key for entry in result] for result in outcome.results]
    assert found == [["a/1"], ["a/2"], [], []]


def test_no_compares_always_hold() -> None:
    assert KeyStore().transact(Transaction(then=(ReadKey("a"),))).succeeded


def test_presence_and_absence_exclude_each_other() -> None:
    store = store_with("a")
    assert not store.transact(Transaction((is_absent("a"),))).succeeded
    assert store.transact(Transaction((is_present("a"), is_absent("b")))).succeeded


def test_a_refused_lease_refuses_the_whole_transaction() -> None:
    store = store_with("a")
    lease = store.grant(1_000, Instant(0))
    store.revoke(lease.id)
    before = store.status()
    with pytest.raises(LeaseExpired) as refused:
        store.transact(Transaction(then=(DeleteKey("a"), PutKey("b", b"", lease.id))))
    assert refused.value.details == {"lease": LeaseId(1)}
    assert store.status() == before
