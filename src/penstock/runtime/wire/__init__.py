"""The wire: our own framed protocol, between our processes and from our own client.

Many requests and streams share one connection; bodies are small records, bulk travels beside them as it is. The format,
and what each side promises, is in docs/reference/wire.md. From the bottom up: `frames` and `flow` do no I/O;
`connection` and its two roles are the asyncio shell; `Server` and `Channel` are what everybody else uses.
"""

from penstock.runtime.wire.backoff import Backoff
from penstock.runtime.wire.client import Channel
from penstock.runtime.wire.client_stream import ClientStream
from penstock.runtime.wire.limits import Limits
from penstock.runtime.wire.message import Call, Message
from penstock.runtime.wire.protocol.frames import Bulk
from penstock.runtime.wire.records import RecordMethod
from penstock.runtime.wire.server import Server
from penstock.runtime.wire.server_stream import ServerStream
from penstock.runtime.wire.service import Service
from penstock.runtime.wire.statistics import Statistics
from penstock.runtime.wire.stream import Receiver
from penstock.runtime.wire.tls import Tls

__all__ = [
    "Backoff",
    "Bulk",
    "Call",
    "Channel",
    "ClientStream",
    "Limits",
    "Message",
    "Receiver",
    "RecordMethod",
    "Server",
    "ServerStream",
    "Service",
    "Statistics",
    "Tls",
]
