"""What a broker tells Prometheus: sums over its journals, read when somebody asks, never kept beside them.

Per broker and not per journal: a broker may have ten thousand, and every one would be a series for ever. What one
journal does, `penstock journals explain` says.
"""

from typing import TYPE_CHECKING, Final

from penstock.plumbing.process.metrics import Tally

if TYPE_CHECKING:
    from penstock.journals.broker.broker_server import BrokerServer

__all__ = ["TALLY", "Figures"]


class Figures:
    """One broker's figures."""

    def __init__(self, server: "BrokerServer") -> None:
        self._server = server

    @property
    def journals(self) -> int:
        return len(self._server.hosts)

    @property
    def primaries(self) -> int:
        return sum(host.is_primary for host in self._server.hosts)

    @property
    def failed_replicas(self) -> int:
        return sum(bool(host.failed) for host in self._server.hosts)

    @property
    def appends_waiting(self) -> int:
        return sum(len(host.replica.appends) for host in self._server.hosts)

    @property
    def unstored_bytes(self) -> int:
        return sum(each.length for each in self._server.persister.waiting())


TALLY: Final = Tally(
    "journal",
    "broker",
    counters={},
    gauges={
        "journals": "Journals of which this broker has a replica.",
        "primaries": "Journals of which it is the primary.",
        "failed_replicas": "Replicas which cannot run, and are tried again.",
        "appends_waiting": "Appends which are on their way.",
        "unstored_bytes": "Bytes of finished fragments which are not in a store yet.",
    },
)
