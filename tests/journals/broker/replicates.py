"""Messages of Replicate, for tests."""

from typing import Any

import msgspec

from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.messages import ContentRequest, ProposeRequest
from penstock.kernel.ids import Revision

__all__ = ["EPOCH", "content", "plain"]

EPOCH = PipelineEpoch(Revision(7), 1)


def content(data: bytes, delta: int = 0) -> ContentRequest:
    return ContentRequest(Revision(3), EPOCH, delta, data)


def plain(messages: list[Any]) -> list[Any]:
    """Views as bytes."""
    return [
        msgspec.structs.replace(each, content=bytes(each.content))
        if isinstance(each, ContentRequest | ProposeRequest)
        else each
        for each in messages
    ]
