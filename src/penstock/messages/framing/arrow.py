"""Arrow record batches: one message is one batch of rows, in a fixed frame whose body is an Arrow IPC stream.

    head and UUID as in `fixed.py`, 24 bytes | schema message | record batch message        an empty body: no rows

The body is what Arrow's own stream readers read, so any language can. All messages of a type begin with the same schema
bytes, and who has seen them once does not parse them again. Frames are multiples of 8 bytes long, so that columns stay
aligned in a journal of them and are used where they lie, without a copy.
"""

import struct
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from penstock.kernel.errors import InvalidArgument
from penstock.messages.framing.compiled import IS_COMPILED, address
from penstock.messages.framing.fixed import BODY_AT, Fixed
from penstock.messages.framing.frame_kernels import TEXT, are_good_batches
from penstock.messages.uuid import Uuid

__all__ = ["ArrowBatches"]

_CONTINUATION = 0xFFFFFFFF
_PREFIX = struct.Struct("<Ii")  # of an encapsulated IPC message: continuation, length of its metadata


class ArrowBatches(Fixed):
    """Frames of one schema. Batches of another schema are refused on both sides."""

    content_type: ClassVar[str] = "application/vnd.apache.arrow.stream+penstock-fixed"

    def __init__(self, schema: Any, written: bytes = b"") -> None:
        """`written`: the schema's bytes as another program writes them, if most frames begin with that."""
        super().__init__()
        if any(pa.types.is_dictionary(field.type) for field in schema):
            raise InvalidArgument("dictionary columns need a stream; cast them to their values")
        self.schema = schema
        self._schema_bytes: bytes = schema.serialize().to_pybytes()
        self._written = written or self._schema_bytes
        self._known: set[bytes] = {self._schema_bytes, self._written}  # the same schema, as others write it
        widths = [_width_of(field.type) for field in schema]
        self._widths = None if None in widths else np.array(widths, np.int64)
        self.nothing = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)

    def decode(self, frame: bytes) -> Any:
        """The batch; its columns lie in the frame's memory."""
        return self.decode_at(pa.py_buffer(frame), 0, len(frame))

    def decode_at(self, buffer: Any, begin: int, end: int) -> Any:
        """The batch of the frame at [begin, end) of an Arrow buffer, checked but not copied."""
        body = buffer.slice(begin + BODY_AT, end - begin - BODY_AT)
        if body.size == 0:
            return self.nothing
        try:
            batch = pa.ipc.read_record_batch(body.slice(self._schema_end(body)), self.schema)
            batch.validate(full=True)  # bytes from elsewhere: an offset out of range must not be believed
        except (pa.ArrowException, struct.error, ValueError, OSError, EOFError) as error:
            raise InvalidArgument(f"not a record batch of this schema: {error}") from None
        return batch

    def decode_all(self, data: bytes | memoryview, begins: Any, ends: Any) -> list[Any] | None:
        """The batches of many frames, which a compiled loop has checked; None if some must be looked at one by one."""
        if self._widths is None or not len(begins) or not IS_COMPILED:
            return None
        head = len(self._written)
        if not are_good_batches(address(data), begins + BODY_AT, ends, address(self._written), head, self._widths):
            return None
        buffer, schema, read, front = pa.py_buffer(data), self.schema, pa.ipc.read_record_batch, BODY_AT + head
        try:
            return [
                read(buffer.slice(begin + front, end - begin - front), schema) if end - begin > front else self.nothing
                for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
            ]
        except (pa.ArrowException, OSError, EOFError):
            return None

    def _schema_end(self, body: Any) -> int:
        """Return the end of the schema message, or raise if the schema is another one."""
        continuation, length = _PREFIX.unpack_from(body)
        end: int = _PREFIX.size + length
        if continuation != _CONTINUATION or not 0 < end <= body.size:
            raise InvalidArgument("the body is no Arrow IPC stream")
        head = body.slice(0, end).to_pybytes()
        if head not in self._known:
            if not pa.ipc.read_schema(pa.py_buffer(head)).equals(self.schema):
                raise InvalidArgument("a record batch of another schema")
            if len(self._known) < 16:
                self._known.add(head)
        return end

    def encode(self, value: Any, uuid: Uuid | None) -> bytes:
        if not isinstance(value, pa.RecordBatch) or not value.schema.equals(self.schema):
            raise InvalidArgument("a record batch of another schema")
        return super().encode(self._schema_bytes + value.serialize().to_pybytes(), uuid)

    def acknowledgement(self, uuid: Uuid) -> bytes:
        return super().encode(b"", uuid)


def _width_of(kind: Any) -> int | None:
    """Bytes of a value, or TEXT; None if a column of this kind is more than that."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return TEXT
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_temporal(kind)
    return kind.bit_width // 8 if is_number and kind.bit_width <= 64 else None
