"""Limits of the HTTP edge: what a client may send, and how long the server waits for it.

A connection holds, for all that its client can do, at most one head, some 320 KiB of unread body, and what the handler
itself keeps. Every wait for a client is bounded; a wait for our own work is bounded by `answer_ms`, or by its route.
"""

from typing import Final

import msgspec

from penstock.kernel.errors import ConfigError

__all__ = ["HttpLimits"]

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB


class HttpLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of one server. Times are in milliseconds."""

    head_bytes_max: int = 64 * KIB  # request line and headers
    headers_max: int = 128
    body_bytes_max: int = 5 * GIB  # of one request; as much as S3 takes in one put
    json_bytes_max: int = 16 * MIB  # of a body which is decoded in memory
    unread_bytes_max: int = 1 * MIB  # of an unread body, read away to keep the connection
    connections_max: int = 2048
    requests_max: int = 1024  # in flight, over all connections
    pipelined_max: int = 16  # requests of one connection that wait for the answer to an earlier one

    head_ms: int = 10_000  # from the first byte of a request to the end of its head
    body_silence_ms: int = 30_000  # no byte of a body for so long: the client is gone
    write_stall_ms: int = 30_000  # no byte of an answer could be sent for so long: the client does not read
    keep_alive_ms: int = 75_000  # between two requests
    answer_ms: int = 60_000  # from the head of a request to the head of its answer, unless its route says otherwise

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            if getattr(self, field) <= 0:
                raise ConfigError(f"HTTP limit {field} must be above 0, not {getattr(self, field)}")
