"""Messages of Replicate streams in their form on the wire: records in the body, all content next to them as one bulk.

In a record, the length of its content stands for the content. Invariant: encoded messages decode to the same messages
in the same order, and a record that claims content that did not come is refused.
"""

from typing import Any, Final

import msgspec

from penstock.journals.core.spool import length_of
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.messages import (
    AdoptRequest,
    AdoptResponse,
    ContentRequest,
    MarkRequest,
    PromiseRequest,
    PromiseResponse,
    ProposeRequest,
    ProposeResponse,
    RefuseResponse,
)
from penstock.kernel.codec import Codec
from penstock.kernel.errors import MalformedFrame

__all__ = ["Watched", "decode_messages", "encode_messages"]


class Watched(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """From a peer's shell to its primary's: whether a reader waits here for marks. The core never sees it."""

    epoch: PipelineEpoch
    is_watched: bool


Any_ = (
    PromiseRequest
    | PromiseResponse
    | AdoptRequest
    | AdoptResponse
    | ContentRequest
    | ProposeRequest
    | ProposeResponse
    | MarkRequest
    | RefuseResponse
    | Watched
)
BATCH_BYTES: Final = 1 << 20  # content of one wire message, unless a single chunk is larger
BATCH_LABELS: Final = 4_096  # registers of the records of one: each may have a hundred bytes
ALONE_BYTES: Final = 128 << 10  # from here on a copy costs more than a message of its own
_WITH_CONTENT: Final = (ContentRequest, ProposeRequest)
_CODEC = Codec[list[Any_]](list[Any_])


def encode_messages(messages: list[Any]) -> list[tuple[bytes, Any]]:
    """Wire messages (body, bulk): in each, the bulk is all content of its records, in order."""
    if len(messages) == 1:
        content = messages[0].content if type(messages[0]) in _WITH_CONTENT else b""
        if content:
            messages = [_with_content(messages[0], length_of(content))]
        return [(_CODEC.encode(messages), content)]
    encoded: list[tuple[bytes, Any]] = []
    records: list[Any] = []
    contents: list[Any] = []
    size = labels = 0

    def close() -> None:
        bulk = contents[0] if len(contents) == 1 else b"".join(contents)
        encoded.append((_CODEC.encode(records), bulk))

    for message in messages:
        if type(message) in _WITH_CONTENT and (length := length_of(message.content)):
            if contents and (size + length > BATCH_BYTES or max(size, length) >= ALONE_BYTES):
                close()
                records, contents, size, labels = [], [], 0, 0
            contents.append(message.content)
            size += length
            message = _with_content(message, length)
        if type(message) is ProposeRequest:
            labels += len(message.point.registers.labels.labels)
        records.append(message)
        if labels > BATCH_LABELS:  # a message that no window holds would never leave
            close()
            records, contents, size, labels = [], [], 0, 0
    if records:
        close()
    return encoded


def decode_messages(body: bytes, bulk: Any) -> list[Any]:
    """The core's messages, content in place: views into the bulk."""
    messages = _CODEC.decode(body)
    at, size = 0, len(bulk)
    if len(messages) == 1:  # as nearly always: an acknowledgement, or a proposal with all of its content
        message = messages[0]
        if not size and type(message) is ProposeResponse:
            return messages
        if size and type(message) is ProposeRequest and type(message.content) is int and message.content == size:
            return [_with_content(message, memoryview(bulk))]
    for index, message in enumerate(messages):
        if isinstance(message, _WITH_CONTENT) and (length := message.content) != b"":
            if type(length) is not int or not 0 < length <= size - at:
                raise MalformedFrame("a record which claims content that did not come with it")
            messages[index] = _with_content(message, memoryview(bulk)[at : at + length])
            at += length
    if at != size:
        raise MalformedFrame("content which no record claims")
    return messages


def _with_content(message: ContentRequest | ProposeRequest, content: Any) -> ContentRequest | ProposeRequest:
    """The same with other content, or with its length in place of it: as it is on the wire."""
    life, epoch = message.create_revision, message.epoch
    if type(message) is ProposeRequest:
        return ProposeRequest(life, epoch, message.seq, message.point, message.mark, message.acknowledge, content)
    assert type(message) is ContentRequest
    return ContentRequest(life, epoch, message.delta, content)
