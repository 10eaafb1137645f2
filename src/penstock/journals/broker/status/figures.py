"""A broker's metrics for Prometheus: sums over its journals, computed at each scrape, never kept in parallel.

Per broker and not per journal: a broker may have ten thousand, and every one would be a series for ever. What one
journal does, `penstock journals explain` says.
"""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.journals.records.api import Status
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.process.metrics import Tally

if TYPE_CHECKING:
    from penstock.journals.broker.broker_server import BrokerServer

__all__ = ["TALLY", "Alarms", "Figures"]

LOG_EVERY_NS: Final = 60_000_000_000
LOGGED_MAX: Final = 10_000
log = get_logger()


class Alarms:
    """Journals that take no appends until an operator acts. Each refusal counts; a journal is logged once a minute."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.counts: Counter[Status] = Counter()
        self._clock = clock
        self._logged_ns: dict[tuple[str, Status], int] = {}

    def raised(self, journal: str, status: Status, reason: str) -> None:
        """Count it. Log it, unless the same was logged a moment ago."""
        self.counts[status] += 1
        now = self._clock()
        if now - self._logged_ns.get((journal, status), -LOG_EVERY_NS) < LOG_EVERY_NS:
            return
        if len(self._logged_ns) >= LOGGED_MAX:
            self._logged_ns.clear()
        self._logged_ns[journal, status] = now
        log.error(
            "journal takes no appends",
            journal=journal,
            status=status.value,
            reason=reason,
            next_step=f"penstock journals explain {journal}",
        )


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
    def held_bytes(self) -> int:
        return self._server.held.bytes

    @property
    def held_streams_ended(self) -> int:
        return self._server.held.ended

    @property
    def unstored_bytes(self) -> int:
        return self._server.unstored.bytes

    @property
    def unstored_bytes_max(self) -> int:
        return self._server.unstored.bound

    @property
    def unstored_refusals(self) -> int:
        return self._server.unstored.refused

    @property
    def head_lost(self) -> int:
        return self._server.alarms.counts[Status.HEAD_LOST]

    @property
    def index_ahead(self) -> int:
        return self._server.alarms.counts[Status.INDEX_HAS_GREATER_OFFSET]

    @property
    def heads_lost_now(self) -> int:
        return sum(host.replica.is_head_lost for host in self._server.hosts)


TALLY: Final = Tally(
    "journal",
    "broker",
    counters={
        "held_streams_ended": "Streams of clients that were ended because too much content waited for its turn.",
        "unstored_refusals": "Contents refused because too many finished fragments wait for their stores.",
        "head_lost": "Appends and pulses that failed because no broker has what the last epoch acknowledged.",
        "index_ahead": "Appends and pulses that failed because the stores hold more than the journal does.",
    },
    gauges={
        "journals": "Journals of which this broker has a replica.",
        "primaries": "Journals of which it is the primary.",
        "failed_replicas": "Replicas which cannot run, and are tried again.",
        "appends_waiting": "Appends which are on their way.",
        "heads_lost_now": "Journals whose head is lost: they wait for a reset-head.",
        "held_bytes": "Bytes of appends that wait for their turn.",
        "unstored_bytes": "Bytes of finished fragments which are not in a store yet.",
        "unstored_bytes_max": "The most of them that this broker keeps: above it, it takes no content.",
    },
)
