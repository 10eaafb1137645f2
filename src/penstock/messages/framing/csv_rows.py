"""CSV: one record to a message, as RFC 4180 has it, the UUID in the first column.

A record ends at a newline outside quotes, so a quoted field may hold newlines. There is no head line: a journal has no
first message. An acknowledgement is a record of the UUID alone; so is a message of no columns, and it is refused.
"""

import csv
import io
from collections.abc import Sequence
from typing import ClassVar

from penstock.kernel.errors import InvalidArgument
from penstock.messages.framing.framing import Split
from penstock.messages.uuid import Uuid, UuidRun

__all__ = ["CsvRows"]


class CsvRows:
    """Records of text. Without the UUID column (`with_uuid=False`) they are read at least once.

    >>> rows = CsvRows(with_uuid=False)
    >>> rows.decode(rows.encode(["a", "b, c"], None))
    ['a', 'b, c']
    """

    content_type: ClassVar[str] = "text/csv"

    def __init__(self, *, with_uuid: bool = True) -> None:
        self.with_uuid = with_uuid

    def __repr__(self) -> str:
        return f"CsvRows(with_uuid={self.with_uuid})"

    def split(self, data: bytes) -> Split:
        frames: list[bytes] = []
        ends: list[int] = []
        begin = at = 0
        while (newline := data.find(b"\n", at)) >= 0:
            at = newline + 1
            if data.count(b'"', begin, at) % 2 == 0:
                frames.append(data[begin:at])
                ends.append(at)
                begin = at
        return Split(frames, ends, (), begin)

    def uuid(self, frame: bytes) -> Uuid | None:
        if not self.with_uuid:
            return None
        text = frame.partition(b",")[0].strip()
        return Uuid.parse(text) if text else None

    def uuids(self, frames: list[bytes]) -> None:
        """Each frame is looked at by itself."""

    def decode(self, frame: bytes) -> list[str]:
        try:
            row = next(csv.reader(io.StringIO(frame.decode(), newline=""), strict=True), [])
        except (csv.Error, UnicodeDecodeError) as error:
            raise InvalidArgument(f"not a record of CSV: {error}") from None
        return row[1:] if self.with_uuid else row

    def encode(self, value: Sequence[str], uuid: Uuid | None) -> bytes:
        if not value:
            raise InvalidArgument("a record of CSV has at least one column")
        if uuid is not None and not self.with_uuid:
            raise InvalidArgument("these records have no column for a UUID")
        out = io.StringIO(newline="")
        row = [uuid.text if uuid is not None else "", *value] if self.with_uuid else value
        csv.writer(out, lineterminator="\r\n").writerow(row)
        return out.getvalue().encode()

    def prepare(self, value: Sequence[str]) -> tuple[str, ...]:
        self.encode(value, None)
        return tuple(value)

    def prepare_all(self, values: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
        return [self.prepare(value) for value in values]

    def frames(self, prepared: Sequence[tuple[str, ...]], uuids: UuidRun) -> bytes:
        return b"".join([self.encode(value, uuid) for value, uuid in zip(prepared, uuids, strict=True)])

    def acknowledgement(self, uuid: Uuid) -> bytes:
        if not self.with_uuid:
            raise InvalidArgument("these records have no column for a UUID")
        return uuid.text.encode() + b"\r\n"
