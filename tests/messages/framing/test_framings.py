"""What every framing must do."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.ids import Clock
from penstock.messages.framing.arrow import ArrowBatches
from penstock.messages.framing.csv_rows import CsvRows
from penstock.messages.framing.fixed import Fixed
from penstock.messages.framing.framing import Framing
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.uuid import ProducerId, Uuid

UUID = Uuid(ProducerId(0x080607050309), Clock(0x1234567812345678), 1)
SCHEMA = pa.schema([("name", pa.string()), ("n", pa.int64())])


def batch(*rows: tuple[str | None, int | None]) -> Any:
    names, numbers = zip(*rows, strict=True)
    return pa.record_batch([pa.array(names, pa.string()), pa.array(numbers, pa.int64())], schema=SCHEMA)


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=10)
VALUES: dict[str, tuple[Framing, st.SearchStrategy[Any]]] = {
    "json": (
        JsonLines(),
        st.dictionaries(TEXT.filter(lambda key: key != "_meta"), st.integers(-9, 9) | TEXT, max_size=3),
    ),
    "csv": (CsvRows(), st.lists(TEXT, min_size=1, max_size=4)),
    "fixed": (Fixed(), st.binary(max_size=20)),
    "arrow": (
        ArrowBatches(SCHEMA),
        st.lists(st.tuples(st.none() | TEXT, st.none() | st.integers(-9, 9)), min_size=1, max_size=3).map(
            lambda rows: batch(*rows)
        ),
    ),
}


@pytest.mark.parametrize("name", VALUES)
@given(data=st.data())
def test_frames_give_back_what_went_in_wherever_they_are_cut(name: str, data: st.DataObject) -> None:
    framing, strategy = VALUES[name]
    values = data.draw(st.lists(st.tuples(strategy, st.sampled_from([UUID, None])), max_size=4))
    frames = [framing.encode(value, uuid) for value, uuid in values]
    whole = b"".join(frames)
    cut = data.draw(st.integers(0, len(whole)))
    first = framing.split(whole[:cut])
    rest = framing.split(whole[first.consumed :])
    assert not [*first.bad, *rest.bad]
    assert rest.consumed + first.consumed == len(whole)
    found = first.frames + rest.frames
    assert [framing.uuid(frame) for frame in found] == [uuid for _, uuid in values]
    assert [framing.decode(frame) for frame in found] == [value for value, _ in values]
    ends = first.ends + [first.consumed + end for end in rest.ends]
    assert ends == [len(b"".join(frames[: count + 1])) for count in range(len(frames))]


@pytest.mark.parametrize("name", VALUES)
def test_an_acknowledgement_is_a_frame_of_a_uuid(name: str) -> None:
    framing, _ = VALUES[name]
    frame = framing.acknowledgement(UUID)
    split = framing.split(frame * 2)
    assert len(split.frames) == 2
    assert framing.uuid(split.frames[1]) == UUID
    assert len(framing.decode(split.frames[1])) == 0
