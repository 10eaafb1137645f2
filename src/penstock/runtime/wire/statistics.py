"""Statistics: plain counters of one server or channel, added to where things happen."""

import msgspec

__all__ = ["Statistics"]


class Statistics(msgspec.Struct, gc=False):
    """Counted since the start; only `connections_now` can fall."""

    connections_now: int = 0
    connections_opened: int = 0
    connections_refused: int = 0
    connections_broken: int = 0  # closed because the peer broke the protocol or a limit
    reads: int = 0
    writes: int = 0
    frames_received: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    requests: int = 0
    streams: int = 0
    errors: int = 0  # requests and streams which ended in an error
    cancellations: int = 0
    deadlines_exceeded: int = 0
