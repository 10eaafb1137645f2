"""Statistics: plain counters of one server or channel, added to where things happen."""

from typing import Final

import msgspec

from penstock.plumbing.process.metrics import Tally

__all__ = ["TALLY", "Statistics"]


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


TALLY: Final = Tally(
    "wire",
    "side",  # server or client
    counters={
        "connections_opened": "Connections opened.",
        "connections_refused": "Connections refused because there were too many.",
        "connections_broken": "Connections closed because the peer broke the protocol or a limit.",
        "frames_received": "Frames received.",
        "bytes_received": "Bytes received.",
        "bytes_sent": "Bytes sent.",
        "requests": "Requests taken or made.",
        "streams": "Streams opened.",
        "errors": "Requests and streams which ended in an error.",
        "cancellations": "Requests and streams which were cancelled.",
        "deadlines_exceeded": "Requests which were not answered in time.",
    },
    gauges={"connections_now": "Connections which are open now."},
)
