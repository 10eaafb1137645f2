"""The wire: our own framed protocol, between our processes and from our own client.

Many requests and streams share one connection; bodies are small records, bulk travels with them unchanged. The format,
and what each side promises, is in docs/reference/wire.md. From the bottom up: `frames` and `flow` do no I/O;
`connection` and its two roles are the asyncio shell; `Server` and `Channel` are what everybody else uses.
"""

from penstock.kernel.backoff import Backoff
from penstock.plumbing.wire.client import Channel
from penstock.plumbing.wire.client_stream import ClientStream
from penstock.plumbing.wire.limits import WireLimits
from penstock.plumbing.wire.message import WireCall, WireMessage
from penstock.plumbing.wire.protocol.frames import Bulk
from penstock.plumbing.wire.records import RecordMethod
from penstock.plumbing.wire.server import Server
from penstock.plumbing.wire.server_stream import ServerStream
from penstock.plumbing.wire.service import Service
from penstock.plumbing.wire.statistics import Statistics
from penstock.plumbing.wire.stream import Receiver
from penstock.plumbing.wire.tls import Tls

__all__ = [
    "Backoff",
    "Bulk",
    "Channel",
    "ClientStream",
    "Receiver",
    "RecordMethod",
    "Server",
    "ServerStream",
    "Service",
    "Statistics",
    "Tls",
    "WireCall",
    "WireLimits",
    "WireMessage",
]
