"""The memory of pairs: bounded, fair between clients, and the same on every replica."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.ids import EntryId, Epoch, Offset
from penstock.quorum.core.machines.pairs import PairLimits, Pairs, Seen
from penstock.quorum.records.entry import ClientId

A, B, C = ClientId("a"), ClientId("b"), ClientId("c")


def seen(client: ClientId, seq: int, result: object = None) -> Seen:
    return Seen(client, seq, EntryId(Epoch(1), Offset(seq)), result)


def filled(limits: PairLimits, *pairs: Seen) -> Pairs:
    memory = Pairs(limits)
    for each in pairs:
        memory.keep(each)
        memory.check()
    return memory


def test_a_busy_client_pushes_out_its_own_pairs_only() -> None:
    memory = filled(PairLimits(of_client_max=2), seen(A, 1), *(seen(B, seq) for seq in range(1, 9)))
    assert memory.find(A, 1) == seen(A, 1)
    assert (memory.find(B, 6), memory.is_expired(B, 6), memory.is_expired(B, 9)) == (None, True, False)
    assert not memory.is_expired(C, 1), "of a client never heard of nothing was forgotten"


def test_when_all_is_full_the_client_longest_silent_is_forgotten_first() -> None:
    memory = filled(PairLimits(pairs_max=3), seen(A, 1), seen(B, 1), seen(A, 2), seen(C, 1))
    assert memory.find(B, 1) is None
    assert memory.is_expired(B, 1)
    assert [memory.find(A, 1), memory.find(C, 1)] == [seen(A, 1), seen(C, 1)]


def test_results_are_bounded_by_bytes() -> None:
    memory = filled(PairLimits(result_bytes_max=100), *(seen(A, seq, b"x" * 40) for seq in (1, 2, 3)))
    assert (memory.count, memory.result_bytes) == (2, 80)
    memory.keep(seen(A, 4, b"x" * 200))
    memory.check()
    assert memory.count == 0
    assert memory.is_expired(A, 4), "too large to keep: its repeat is told that nobody knows"


def test_clients_of_whom_only_the_floor_is_left_are_bounded() -> None:
    memory = filled(PairLimits(pairs_max=1, clients_max=1), seen(A, 5), seen(B, 1), seen(C, 1))
    assert (memory.is_expired(A, 5), memory.is_expired(B, 1)) == (False, True)


def test_a_client_learns_the_highest_number_it_has_used() -> None:
    memory = filled(PairLimits(of_client_max=1), seen(A, 9), seen(A, 4))
    assert (memory.highest(A), memory.highest(B)) == (9, 0)


@given(st.lists(st.tuples(st.sampled_from([A, B, C]), st.integers(1, 6)), max_size=30), st.integers(0, 30))
def test_what_is_loaded_forgets_in_the_same_order(history: list[tuple[ClientId, int]], cut: int) -> None:
    limits = PairLimits(of_client_max=2, pairs_max=4, clients_max=2)
    straight, broken = Pairs(limits), Pairs(limits)
    for at, (client, seq) in enumerate(history):
        if at == cut:
            loaded = Pairs(limits)
            loaded.load(*broken.dump())
            broken = loaded
        for memory in (straight, broken):
            if memory.find(client, seq) is None and not memory.is_expired(client, seq):
                memory.keep(seen(client, seq))
            memory.check()
    assert straight.dump() == broken.dump()
    assert [straight.highest(each) for each in (A, B, C)] == [broken.highest(each) for each in (A, B, C)]
