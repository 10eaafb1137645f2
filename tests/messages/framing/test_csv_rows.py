import pytest

from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import Clock
from penstock.messages.framing.csv_rows import CsvRows
from penstock.messages.uuid import ProducerId, Uuid

UUID = Uuid(ProducerId(1), Clock(1 << 40), 1)


def test_a_quoted_field_may_hold_a_newline() -> None:
    rows = CsvRows()
    frame = rows.encode(["a\nb", 'say "hi"'], UUID)
    split = rows.split(frame + frame[:-3])
    assert split.frames == [frame]
    assert rows.decode(frame) == ["a\nb", 'say "hi"']


def test_rows_without_a_uuid_column_are_read_at_least_once() -> None:
    plain = CsvRows(with_uuid=False)
    assert plain.uuid(b"a,b\n") is None
    assert plain.decode(b"a,b\r\n") == ["a", "b"]
    with pytest.raises(InvalidArgument, match="no column"):
        plain.encode(["a"], UUID)
    with pytest.raises(InvalidArgument, match="no column"):
        plain.acknowledgement(UUID)


def test_records_which_are_none_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="not a UUID"):
        CsvRows().uuid(b"ann,1\n")
    with pytest.raises(InvalidArgument, match="not a record"):
        CsvRows().decode(b'x,"a" b"\n')
    with pytest.raises(InvalidArgument, match="at least one"):
        CsvRows().encode([], UUID)
