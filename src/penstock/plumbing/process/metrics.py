"""Metrics: one registry, and three helpers that declare a metric next to the code that it measures.

    FSYNCS = metrics.counter("wal_fsyncs_total", "fdatasync calls of the WAL.")

Every name gets the prefix `penstock_` and ends in its unit or the things that it counts. A metric is declared once, at
import, and `declared()` lists them all: `docs/reference/metrics.md` is written from it.

Prometheus' client is loaded when the figures are read, or for a metric that is no `Tally`: a command that only asks a
server should not wait for it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.kernel.version import VERSION

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
    from prometheus_client import Metric as ClientMetric

__all__ = ["Metric", "Tally", "counter", "declared", "exposition", "gauge", "histogram", "registry"]

PREFIX: Final = "penstock_"
LABELS_MAX: Final = 3  # every combination of label values is a series of its own, for ever
SECONDS_BUCKETS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
BYTES_BUCKETS: Final = tuple(float(1 << power) for power in range(6, 27, 2))  # 64 B to 64 MiB

_declared: dict[str, "Metric"] = {}
_tallies: list["Tally"] = []


class Metric(msgspec.Struct, frozen=True):
    """A metric as it was declared."""

    name: str
    kind: str
    doc: str
    labels: tuple[str, ...] = ()


@cache
def registry() -> "CollectorRegistry":
    """Return Penstock's own registry; later declarations join it."""
    from prometheus_client import CollectorRegistry, Gauge, ProcessCollector

    made = CollectorRegistry()
    ProcessCollector(namespace="penstock", registry=made)
    Gauge(BUILD_INFO.name, BUILD_INFO.doc, BUILD_INFO.labels, registry=made).labels(VERSION).set(1)
    for tally in _tallies:
        made.register(tally)
    return made


def counter(name: str, doc: str, labels: Sequence[str] = ()) -> "Counter":
    """Something that only grows: `…_total`."""
    from prometheus_client import Counter

    assert name.endswith("_total"), f"a counter's name ends in _total: {name}"
    return Counter(_declare("counter", name, doc, labels), doc, labels, registry=registry())


def gauge(name: str, doc: str, labels: Sequence[str] = ()) -> "Gauge":
    """Something that goes up and down: how many streams are open, how far a reader lags."""
    from prometheus_client import Gauge

    assert not name.endswith("_total"), f"only a counter's name ends in _total: {name}"
    return Gauge(_declare("gauge", name, doc, labels), doc, labels, registry=registry())


def histogram(name: str, doc: str, labels: Sequence[str] = (), buckets: Sequence[float] | None = None) -> "Histogram":
    """Describe how a time (`…_seconds`) or a size (`…_bytes`) is spread.

    The buckets follow from the unit unless given.
    """
    from prometheus_client import Histogram

    assert name.endswith(("_seconds", "_bytes")) or buckets is not None, f"which unit has {name}? Give it buckets"
    chosen = buckets or (SECONDS_BUCKETS if name.endswith("_seconds") else BYTES_BUCKETS)
    return Histogram(_declare("histogram", name, doc, labels), doc, labels, registry=registry(), buckets=chosen)


class Tally:
    """Figures that the hot path keeps as plain fields of a struct, added up only when metrics are read.

        TALLY = metrics.Tally("wire", "side", counters={"requests": "Requests."}, gauges={"connections_now": "Open."})
        TALLY.add(server.statistics, "server")

    A counter field `requests` is served as `penstock_wire_requests_total`. What a removed struct has counted stays in
    the totals: a counter never falls.
    """

    def __init__(self, area: str, label: str, *, counters: Mapping[str, str], gauges: Mapping[str, str]) -> None:
        self._label = label
        self._counters = {
            field: (_declare("counter", f"{area}_{field}_total", doc, [label]), doc) for field, doc in counters.items()
        }
        self._gauges = {
            field: (_declare("gauge", f"{area}_{field}", doc, [label]), doc) for field, doc in gauges.items()
        }
        self._sources: dict[int, tuple[object, str]] = {}
        self._removed: dict[tuple[str, str], float] = {}
        _tallies.append(self)
        if registry.cache_info().currsize:
            registry().register(self)

    def add(self, source: object, label_value: str) -> None:
        """Count the fields of this struct, under one value of the label, from now on."""
        self._sources[id(source)] = (source, label_value)

    def remove(self, source: object) -> None:
        """Look at this struct no more; its counts stay."""
        if id(source) not in self._sources:
            return
        _, label_value = self._sources.pop(id(source))
        for field in self._counters:
            at = (field, label_value)
            self._removed[at] = self._removed.get(at, 0.0) + getattr(source, field)

    def collect(self) -> "Iterable[ClientMetric]":
        """Return the samples that Prometheus' registry asks for."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        labels = sorted({value for _, value in self._sources.values()} | {value for _, value in self._removed})
        for field, (name, doc) in self._counters.items():
            counted = CounterMetricFamily(name, doc, labels=[self._label])
            for value in labels:
                counted.add_metric([value], self._sum(field, value) + self._removed.get((field, value), 0.0))
            yield counted
        for field, (name, doc) in self._gauges.items():
            measured = GaugeMetricFamily(name, doc, labels=[self._label])
            for value in labels:
                measured.add_metric([value], self._sum(field, value))
            yield measured

    def _sum(self, field: str, label_value: str) -> float:
        return float(sum(getattr(one, field) for one, value in self._sources.values() if value == label_value))


def declared() -> list[Metric]:
    """Every metric declared by the modules imported so far, by name."""
    return [_declared[name] for name in sorted(_declared)]


def exposition(accept: str = "") -> tuple[bytes, str]:
    """Return all metrics as text, and its content type, in the format that the Accept header asks for."""
    from prometheus_client.exposition import choose_encoder

    encode, content_type = choose_encoder(accept)
    return encode(registry()), content_type


def _declare(kind: str, name: str, doc: str, labels: Sequence[str]) -> str:
    assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)+", name), f"not a metric name: {name}"
    assert not name.startswith(PREFIX), f"the prefix comes by itself: {name}"
    assert doc.endswith("."), f"the documentation of {name} is a sentence"
    assert len(labels) <= LABELS_MAX, f"{name} has more than {LABELS_MAX} labels"
    full = PREFIX + name
    assert full not in _declared, f"{full} is declared twice"
    _declared[full] = Metric(full, kind, doc, tuple(labels))
    return full


BUILD_INFO: Final = _declared[
    _declare("gauge", "build_info", "Always 1; the label says which version runs.", ["version"])
]
