"""Entry ids compare by epoch first."""

import doctest

from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel import codec, ids
from penstock.kernel.ids import NO_ENTRY, EntryId, Epoch, Offset

entry_ids = st.builds(EntryId, st.integers(0, 5).map(Epoch), st.integers(0, 5).map(Offset))


@given(entry_ids, entry_ids)
def test_order_is_epoch_then_offset(a: EntryId, b: EntryId) -> None:
    assert (a < b) == ((a.epoch, a.offset) < (b.epoch, b.offset))
    assert a >= NO_ENTRY


def test_an_entry_id_reads_as_people_write_it() -> None:
    assert str(EntryId(Epoch(7), Offset(1042))) == "7/1042"


def test_the_examples_hold() -> None:
    assert doctest.testmod(ids).failed == 0
    assert doctest.testmod(codec).failed == 0
