"""Limits: what one side of the wire allows the other, and how long it waits for it.

Each side states its limits in the hello, and a well-behaved peer waits rather than exceed them; one that does exceed
them breaks the protocol and loses its connection. A connection therefore holds, for all that its peer can do, at most

    streams_max * stream_window_bytes + SPARE_WINDOW_BYTES + request_bytes_max + frame_bytes_max + 256 KiB

of received bytes, and its unsent bytes stop growing soon after write_bytes_max, because it then stops reading.
"""

from typing import Final

import msgspec

from penstock.kernel.errors import ConfigError

__all__ = ["FRAME_BYTES_MIN", "SPARE_WINDOW_BYTES", "WireLimits"]

KIB: Final = 1024
MIB: Final = 1024 * KIB
SPARE_WINDOW_BYTES: Final = 16 * MIB  # by which all windows of a connection together may grow: see `Flow`
FRAME_BYTES_MIN: Final = 4 * KIB  # so that every error fits


class WireLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of a server or a channel. Times are in milliseconds."""

    frame_bytes_max: int = 4 * MIB  # payload of one frame
    stream_window_bytes: int = 1 * MIB  # what one stream may hold unread at first; also the largest message on a stream
    streams_max: int = 256  # open streams per connection
    requests_max: int = 4096  # unary requests in flight per connection
    request_bytes_max: int = 64 * MIB  # payload of the unary requests in flight per connection
    connections_max: int = 1024  # server: connections at once
    waiting_max: int = 16_384  # channel: calls waiting for a connection, or for room on it
    write_bytes_max: int = 1 * MIB  # unsent bytes above which a connection stops taking work

    hello_ms: int = 5_000  # from accept to a complete hello, TLS handshake apart
    frame_ms: int = 30_000  # from the first byte of a frame to its last
    keepalive_ms: int = 10_000  # channel: silence after which it sends a PING
    pong_ms: int = 10_000  # channel: silence after that PING which means the peer is dead
    silence_ms: int = 45_000  # server: silence which means the peer is dead
    write_stall_ms: int = 30_000  # no byte could be sent for so long: the peer does not read
    idle_ms: int = 600_000  # server: a connection without requests and streams gets GOAWAY
    linger_ms: int = 1_000  # how long a closing connection may take to send its last frames

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            if getattr(self, field) <= 0:
                raise ConfigError(f"limit {field} must be above 0, not {getattr(self, field)}")
        if min(self.frame_bytes_max, self.stream_window_bytes) < FRAME_BYTES_MIN:
            raise ConfigError(f"frame_bytes_max and stream_window_bytes must be at least {FRAME_BYTES_MIN}")
        if max(self.frame_bytes_max, self.stream_window_bytes) >= 1 << 31:
            raise ConfigError("frame_bytes_max and stream_window_bytes must be below 2 GiB")
        if self.request_bytes_max < self.frame_bytes_max:
            raise ConfigError("request_bytes_max must not be below frame_bytes_max: no request could use a whole frame")
