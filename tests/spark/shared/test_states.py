"""Sequencer states in a store: put once, found by offset, and no failure of theirs is one of the reader's."""

from pathlib import Path

from penstock.journals.storage.fragment_store import FragmentStores
from penstock.kernel.ids import Clock, Offset
from penstock.messages.read_state import NO_SPAN, ProducerState, ReadState
from penstock.messages.uuid import producer_id
from penstock.spark.shared.states import HORIZON, KEPT, States, scan_begin


def state(offset: int, ack: int = 1) -> ReadState:
    producer = ProducerState(producer_id(1), Clock(ack), Clock(ack), NO_SPAN, Offset(offset - 1))
    return ReadState(Offset(offset), Clock(ack), (producer,))


async def test_a_state_is_put_once_and_found_at_or_before_an_offset(tmp_path: Path) -> None:
    async with FragmentStores() as stores:
        states = States(stores, f"{tmp_path.as_uri()}/", "shop/orders", "c1.json", is_default=True)
        assert await states.load(10) is None
        assert await states.nearest(10) is None
        await states.put(10, state(9))
        await states.put(10, state(9, ack=7))  # whoever comes second changes nothing
        await states.put(20, state(20))
        assert await states.load(10) == state(9)
        assert await states.nearest(19) == state(9)
        assert await states.nearest(20) == state(20)
        other = States(stores, f"{tmp_path.as_uri()}/", "shop/orders", "u1.json", is_default=True)
        assert await other.nearest(100) is None  # of another kind of reading
        assert (tmp_path / ".seq/shop/orders/000000000000000a-c1.json").exists()


async def test_damaged_states_and_no_store_at_all_are_as_if_there_were_none(tmp_path: Path) -> None:
    async with FragmentStores() as stores:
        states = States(stores, f"{tmp_path.as_uri()}/", "shop/orders", "c1.json", is_default=False)
        await states.put(10, state(10))
        await states.put(20, state(20))
        (tmp_path / "shop/orders/0000000000000014-c1.json").write_bytes(b"damaged")
        assert await states.load(20) is None
        assert await states.nearest(30) == state(10)
        nowhere = States(stores, "", "shop/orders", "c1.json", is_default=True)
        await nowhere.put(10, state(10))
        assert await nowhere.load(10) is None
        assert await nowhere.nearest(10) is None


async def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    async with FragmentStores() as stores:
        states = States(stores, f"{tmp_path.as_uri()}/", "shop/orders", "c1.json", is_default=True)
        for offset in range(1, 2 * KEPT + 3):
            await states.put(offset, state(offset))
        await states.drop_old(2 * KEPT + 2)
        assert await states.load(KEPT + 1) is None
        assert await states.load(KEPT + 2) is not None
        assert await states.load(2 * KEPT + 2) is not None


def test_producers_are_remembered_so_far_back() -> None:
    assert scan_begin(5) == 0
    assert scan_begin(HORIZON.bytes + 5) == 5
