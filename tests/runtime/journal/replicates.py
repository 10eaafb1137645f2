"""Messages of Replicate, for tests."""

from typing import Any

import msgspec

from penstock.base.ids import Revision
from penstock.journal.epoch import PipelineEpoch
from penstock.journal.messages import ContentRequest, ProposeRequest

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
