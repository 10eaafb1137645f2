from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.codec import Codec
from penstock.kernel.ids import Epoch, Offset
from penstock.quorum.records.entry import (
    OVERHEAD_BYTES,
    Barrier,
    ClientId,
    Confirm,
    Entry,
    Rollback,
    Txn,
    size_of,
    sizes_of,
)

numbers = st.integers(0, 1 << 40)
txns = st.builds(
    Txn, numbers.map(Epoch), st.text(max_size=9).map(ClientId), numbers, st.binary(max_size=99), st.booleans()
)
entries: st.SearchStrategy[Entry] = st.one_of(
    txns,
    st.builds(Barrier, numbers.map(Epoch)),
    st.builds(Confirm, numbers.map(Epoch), numbers.map(Offset), numbers.map(Offset), st.integers(0, (1 << 32) - 1)),
    st.builds(Rollback, numbers.map(Epoch), numbers.map(Offset)),
)


@given(entries)
def test_an_entry_is_its_bytes(entry: Entry) -> None:
    codec: Codec[Entry] = Codec(Entry)
    assert codec.decode(codec.encode(entry)) == entry


@given(st.lists(entries))
def test_sizes_add_up(many: list[Entry]) -> None:
    assert sizes_of(many) == sum(map(size_of, many))


def test_a_transaction_counts_its_ops() -> None:
    assert size_of(Txn(Epoch(1), ClientId("c"), 1, b"12345")) == OVERHEAD_BYTES + 5
    assert size_of(Barrier(Epoch(1))) == OVERHEAD_BYTES
