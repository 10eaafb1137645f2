"""Metrics: a registry of our own, and three helpers which declare a metric next to what it measures.

    FSYNCS = metrics.counter("wal_fsyncs_total", "fdatasync calls of the WAL.")

Every name gets the prefix `penstock_` and ends in what it counts or its unit. A metric is declared once, at import, and
`declared()` lists them all: `docs/reference/metrics.md` is written from it.
"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder

from penstock import __version__

__all__ = ["REGISTRY", "Metric", "counter", "declared", "exposition", "gauge", "histogram"]

PREFIX: Final = "penstock_"
LABELS_MAX: Final = 3  # every combination of label values is a series of its own, for ever
SECONDS_BUCKETS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
BYTES_BUCKETS: Final = tuple(float(1 << power) for power in range(6, 27, 2))  # 64 B to 64 MiB

REGISTRY: Final = CollectorRegistry()
_declared: dict[str, "Metric"] = {}


class Metric(msgspec.Struct, frozen=True):
    """A metric as it was declared."""

    name: str
    kind: str
    doc: str
    labels: tuple[str, ...] = ()


def counter(name: str, doc: str, labels: Sequence[str] = ()) -> Counter:
    """Something that only grows: `…_total`."""
    assert name.endswith("_total"), f"a counter's name ends in _total: {name}"
    return Counter(_declare("counter", name, doc, labels), doc, labels, registry=REGISTRY)


def gauge(name: str, doc: str, labels: Sequence[str] = ()) -> Gauge:
    """Something that goes up and down: how many streams are open, how far a reader lags."""
    assert not name.endswith("_total"), f"only a counter's name ends in _total: {name}"
    return Gauge(_declare("gauge", name, doc, labels), doc, labels, registry=REGISTRY)


def histogram(name: str, doc: str, labels: Sequence[str] = (), buckets: Sequence[float] | None = None) -> Histogram:
    """How a time (`…_seconds`) or a size (`…_bytes`) is spread. The buckets follow from the unit unless given."""
    assert name.endswith(("_seconds", "_bytes")) or buckets is not None, f"which unit has {name}? Give it buckets"
    chosen = buckets or (SECONDS_BUCKETS if name.endswith("_seconds") else BYTES_BUCKETS)
    return Histogram(_declare("histogram", name, doc, labels), doc, labels, registry=REGISTRY, buckets=chosen)


def declared() -> list[Metric]:
    """Every metric declared by the modules imported so far, by name."""
    return [_declared[name] for name in sorted(_declared)]


def exposition(accept: str = "") -> tuple[bytes, str]:
    """All metrics as text, and its content type, in the format the Accept header asks for."""
    encode, content_type = choose_encoder(accept)
    return encode(REGISTRY), content_type


def _declare(kind: str, name: str, doc: str, labels: Sequence[str]) -> str:
    assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)+", name), f"not a metric name: {name}"
    assert not name.startswith(PREFIX), f"the prefix comes by itself: {name}"
    assert doc.endswith("."), f"the documentation of {name} is a sentence"
    assert len(labels) <= LABELS_MAX, f"{name} has more than {LABELS_MAX} labels"
    full = PREFIX + name
    assert full not in _declared, f"{full} is declared twice"
    _declared[full] = Metric(full, kind, doc, tuple(labels))
    return full


ProcessCollector(namespace="penstock", registry=REGISTRY)
gauge("build_info", "Always 1; the label says which version runs.", ["version"]).labels(__version__).set(1)
