from functools import cache

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from penstock import __version__
from penstock.plumbing.process import metrics


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry of the test's own: what it declares is no metric of Penstock."""
    own = cache(CollectorRegistry)
    own()
    monkeypatch.setattr(metrics, "registry", own)
    monkeypatch.setattr(metrics, "_tallies", [])
    monkeypatch.setattr(metrics, "_declared", {})


@pytest.mark.usefixtures("empty")
def test_a_declaration_is_served_and_listed() -> None:
    appends = metrics.counter("appends_total", "Appends.", ["journal"])
    appends.labels("shop/orders").inc(3)
    metrics.gauge("lag_bytes", "How far a reader is behind.").set(17)
    metrics.histogram("commit_seconds", "How long a commit takes.").observe(0.003)

    text, content_type = metrics.exposition()
    families = {family.name: family for family in text_string_to_metric_families(text.decode())}
    assert content_type.startswith("text/plain")
    (sample,) = [one for one in families["penstock_appends"].samples if one.name.endswith("_total")]
    assert (sample.value, sample.labels) == (3, {"journal": "shop/orders"})
    assert families["penstock_lag_bytes"].samples[0].value == 17
    assert families["penstock_commit_seconds"].type == "histogram"
    assert [(one.name, one.kind, one.labels) for one in metrics.declared()] == [
        ("penstock_appends_total", "counter", ("journal",)),
        ("penstock_commit_seconds", "histogram", ()),
        ("penstock_lag_bytes", "gauge", ()),
    ]


def test_everything_has_our_prefix_and_the_version_is_among_it() -> None:
    text, _ = metrics.exposition()
    families = list(text_string_to_metric_families(text.decode()))
    assert all(family.name.startswith("penstock_") for family in families)
    (info,) = [family for family in families if family.name == "penstock_build_info"]
    assert info.samples[0].labels == {"version": __version__}
    assert "penstock_process_open_fds" in {family.name for family in families}


def test_openmetrics_for_who_asks_for_it() -> None:
    text, content_type = metrics.exposition("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize(
    ("name", "doc", "labels"),
    [
        ("appends", "Appends.", []),
        ("Appends_total", "Appends.", []),
        ("appends_total", "Appends", []),
        ("penstock_appends_total", "Appends.", []),
        ("appends_total", "Appends.", ["a", "b", "c", "d"]),
    ],
    ids=["no _total", "capitals", "no sentence", "prefixed twice", "too many labels"],
)
def test_a_name_against_the_conventions_does_not_start(name: str, doc: str, labels: list[str]) -> None:
    with pytest.raises(AssertionError):
        metrics.counter(name, doc, labels)
    assert metrics.declared() == []


@pytest.mark.usefixtures("empty")
def test_a_metric_is_not_declared_twice() -> None:
    metrics.gauge("open_files", "Open files.")
    with pytest.raises(AssertionError, match="declared twice"):
        metrics.gauge("open_files", "Open files.")


@pytest.mark.usefixtures("empty")
def test_a_histogram_needs_a_unit_or_buckets() -> None:
    with pytest.raises(AssertionError, match="buckets"):
        metrics.histogram("batch_rows", "Rows per batch.")
    metrics.histogram("batch_rows", "Rows per batch.", buckets=[1, 10, 100])


class Statistics(msgspec.Struct):
    requests: int = 0
    connections_now: int = 0


@pytest.mark.usefixtures("empty")
def test_a_tally_adds_up_plain_fields_and_its_counters_never_fall() -> None:
    tally = metrics.Tally("wire", "side", counters={"requests": "Requests."}, gauges={"connections_now": "Open ones."})
    first, second, client = Statistics(3, 1), Statistics(4, 2), Statistics(10, 1)
    for source, side in ((first, "server"), (second, "server"), (client, "client")):
        tally.add(source, side)
    first.requests += 100

    def values() -> dict[tuple[str, str], float]:
        text, _ = metrics.exposition()
        families = text_string_to_metric_families(text.decode())
        return {(one.name, one.labels["side"]): one.value for family in families for one in family.samples}

    assert values() == {
        ("penstock_wire_requests_total", "server"): 107,
        ("penstock_wire_requests_total", "client"): 10,
        ("penstock_wire_connections_now", "server"): 3,
        ("penstock_wire_connections_now", "client"): 1,
    }
    tally.remove(first)
    assert values()[("penstock_wire_requests_total", "server")] == 107
    assert values()[("penstock_wire_connections_now", "server")] == 2
    assert [one.name for one in metrics.declared()] == ["penstock_wire_connections_now", "penstock_wire_requests_total"]
