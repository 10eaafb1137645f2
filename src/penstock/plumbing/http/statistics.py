"""Statistics of the HTTP edge: plain counters, added up when metrics are read."""

from typing import Final

import msgspec

from penstock.plumbing.process import metrics
from penstock.plumbing.process.metrics import Tally

__all__ = ["REQUEST_SECONDS", "TALLY", "HttpStatistics"]


class HttpStatistics(msgspec.Struct, gc=False):
    """Counted since the start; the two with `_now` can fall."""

    connections_now: int = 0
    requests_now: int = 0
    connections_opened: int = 0
    connections_refused: int = 0
    requests_read: int = 0  # heads that were complete
    requests: int = 0
    answers_4xx: int = 0
    answers_5xx: int = 0
    bad_requests: int = 0  # no HTTP, or a head above the limits
    clients_gone: int = 0  # before their answer was sent
    clients_slow: int = 0  # cut off: too slow a head, or an answer they did not read
    bytes_received: int = 0  # of bodies
    bytes_sent: int = 0


TALLY: Final = Tally(
    "http",
    "server",
    counters={
        "connections_opened": "Connections opened.",
        "connections_refused": "Connections refused because there were too many.",
        "requests": "Requests taken.",
        "answers_4xx": "Answers which say that the client is wrong.",
        "answers_5xx": "Answers which say that the server failed.",
        "bad_requests": "Connections closed because the bytes were no HTTP request, or had too large a head.",
        "clients_gone": "Clients which went away before their answer was sent.",
        "clients_slow": "Connections closed because the client was too slow to send a head or to read an answer.",
        "bytes_received": "Bytes of request bodies.",
        "bytes_sent": "Bytes of answer bodies.",
    },
    gauges={"connections_now": "Connections which are open now.", "requests_now": "Requests which are in flight now."},
)

REQUEST_SECONDS: Final = metrics.histogram(
    "http_request_seconds", "Time from a request's head to the end of its answer.", ["site"]
)
