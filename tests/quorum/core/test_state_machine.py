from collections.abc import Sequence

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.quorum.core.cluster import Values, entry_id

from penstock.kernel.ids import Epoch, Offset
from penstock.quorum.core.machines.pairs import PairLimits
from penstock.quorum.core.machines.state_machine import Applier, Duplicate, Expired, Retired
from penstock.quorum.records.effects import Applied, Apply
from penstock.quorum.records.entry import Barrier, ClientId, Confirm, Entry, Rollback, Txn
from penstock.quorum.records.state import Comparison

E1 = Epoch(1)


def txn(value: str, seq: int, client: str = "c") -> Txn:
    return Txn(E1, ClientId(client), seq, value.encode())


def apply(applier: Applier, *entries: Entry, doomed: Sequence[int] = ()) -> Applied:
    first = Offset(applier.applied + 1)
    applied = applier.apply(Apply(first, entries, tuple(map(Offset, doomed))))
    applier.check()
    return applied


def values(applier: Applier) -> list[bytes]:
    machine = applier.machine
    assert isinstance(machine, Values)
    return machine.values


def test_every_transaction_is_applied_in_order_and_answered() -> None:
    applier = Applier(Values())
    applied = apply(applier, Barrier(E1), txn("a", 1), txn("b", 2))
    assert (applied.upto, applied.results, applied.compared) == (3, (None, 1, 2), ())
    assert values(applier) == [b"a", b"b"]


def test_a_confirm_at_the_end_is_no_fact_to_wait_for() -> None:
    """A follower applies it only when more comes: who waits for it there on an idle log waits for ever."""
    applier = Applier(Values())
    apply(applier, Barrier(E1), txn("a", 1), Confirm(E1, Offset(2), Offset(0), 0))
    assert (applier.applied, applier.fact) == (3, 2)
    other = Applier(Values())
    other.restore(applier.snapshot())
    assert (other.applied, other.fact) == (3, 2)
    apply(applier, Barrier(Epoch(2)))
    assert applier.fact == 4


def test_a_duplicate_gets_the_first_result_by_exact_pair() -> None:
    applier = Applier(Values())
    apply(applier, txn("a", 7))
    assert apply(applier, txn("a", 7)).results == (Duplicate(entry_id(1, 1), 1),)
    assert apply(applier, txn("b", 3)).results == (2,), "a lower seq is not an old one"
    assert apply(applier, txn("c", 7, client="d")).results == (3,), "nor is another client's"
    assert values(applier) == [b"a", b"b", b"c"]


def test_a_rolled_back_pair_is_retired() -> None:
    applier = Applier(Values())
    applied = apply(applier, txn("a", 1), txn("b", 2), Rollback(E1, Offset(2)), doomed=[2])
    assert applied.results == (1, Retired(), None)
    assert apply(applier, txn("b", 2)).results == (Retired(),)
    assert apply(applier, txn("b", 9)).results == (2,), "a retry uses a new seq"
    assert values(applier) == [b"a", b"b"]


def test_a_rolled_back_duplicate_does_not_retire_what_took_effect() -> None:
    applier = Applier(Values())
    apply(applier, txn("a", 1))
    apply(applier, txn("a", 1), Rollback(E1, Offset(2)), doomed=[2])
    assert apply(applier, txn("a", 1)).results == (Duplicate(entry_id(1, 1), 1),)


def test_the_window_forgets_the_oldest() -> None:
    applier = Applier(Values(), limits=PairLimits(of_client_max=2))
    apply(applier, txn("a", 1), txn("b", 2), txn("c", 3))
    assert apply(applier, txn("b", 2)).results == (Duplicate(entry_id(1, 2), 2),)
    assert apply(applier, txn("a", 1)).results == (Expired(),), "beyond the window nobody knows, and nobody guesses"
    assert values(applier) == [b"a", b"b", b"c"]
    assert apply(applier, txn("d", 1, client="d")).results == (4,), "another client has a window of its own"


def test_who_reads_the_log_sees_each_transaction_once() -> None:
    applier = Applier(Values())
    apply(applier, txn("a", 1), txn("a", 1), txn("b", 2), Rollback(E1, Offset(3)), txn("b", 2), doomed=[3])
    shown = [offset for offset in (1, 2, 5) if applier.has_effect(Offset(offset))]
    assert shown == [1], "2 is a copy of 1, and 5 of what was rolled back at 3"
    restored = Applier(Values())
    restored.restore(applier.snapshot())
    assert not restored.has_effect(Offset(5))
    restored.forget_before(Offset(5))
    assert restored.has_effect(Offset(2)), "the log begins at 5: nobody asks"
    assert not restored.has_effect(Offset(5))


def test_a_snapshot_of_an_earlier_release_is_read() -> None:
    old = msgspec.msgpack.encode((2, 2, 7, [("c", 1, (1, 1), 1), ("c", 2, None, None)], Values().snapshot()))
    applier = Applier(Values())
    applier.restore(old)
    assert (applier.applied, applier.checksum) == (2, 7)
    assert apply(applier, txn("a", 1), txn("b", 2)).results == (Duplicate(entry_id(1, 1), 1), Retired())


def test_another_checksum_of_a_leader_shows() -> None:
    leader, follower = Applier(Values()), Applier(Values())
    entries = (Barrier(E1), txn("a", 1), txn("b", 2))
    told = apply(leader, *entries)
    machine = follower.machine
    assert isinstance(machine, Values)
    apply(follower, *entries[:2])
    machine.sum ^= 1  # a cosmic ray
    wrong = apply(follower, entries[2])
    assert wrong.checksum != told.checksum
    check = (told.upto, E1, told.checksum)
    asked = Apply(Offset(4), (Confirm(E1, told.upto, told.upto, told.checksum),), (), (check,))
    assert follower.apply(asked).compared == (Comparison(Offset(3), E1, told.checksum, wrong.checksum),)


def test_equal_replicas_do_not_diverge_however_they_batch() -> None:
    entries = (Barrier(E1), txn("a", 1), txn("b", 2), txn("c", 3))
    leader, follower = Applier(Values()), Applier(Values())
    told = apply(leader, *entries)
    for entry in entries:
        apply(follower, entry)
    checks = tuple((offset, E1, told.checksum) for offset in (Offset(0), told.upto, Offset(99)))
    compared = follower.apply(Apply(Offset(5), (Barrier(E1),), (), checks)).compared
    assert compared == (Comparison(told.upto, E1, told.checksum, told.checksum),), "what is known, and no more"


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=20), st.integers(0, 20))
def test_a_snapshot_goes_on_where_it_was_taken(history: list[tuple[int, bool]], cut: int) -> None:
    entries = [txn(str(seq), seq) for seq, _ in history]
    doomed = {offset for offset, (_, is_doomed) in enumerate(history, 1) if is_doomed}
    straight, broken, restored = Applier(Values()), Applier(Values()), Applier(Values())
    cut = min(cut, len(entries))
    apply(straight, *entries, doomed=sorted(doomed))
    apply(broken, *entries[:cut], doomed=sorted(each for each in doomed if each <= cut))
    restored.restore(broken.snapshot())
    assert restored.applied == cut
    apply(restored, *entries[cut:], doomed=sorted(each for each in doomed if each > cut))
    assert (restored.checksum, restored.snapshot()) == (straight.checksum, straight.snapshot())
    restored.restore(b"")
    assert (restored.applied, restored.checksum, values(restored)) == (0, 0, [])
