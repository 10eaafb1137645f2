"""Options: what is right is read, what is wrong is named, and the reference page shows the very table."""

import pickle
from pathlib import Path

import pytest

from penstock.journals.records.labels import LabelSet
from penstock.kernel.errors import ConfigError, InvalidArgument
from penstock.spark.options import OPTIONS, Connection, SinkOptions, SourceOptions, sink_options, source_options
from penstock.spark.shared.reference import options_table

PAGE = Path(__file__).parents[2] / "docs/reference/spark.md"
HERE = {"brokers": "127.0.0.1:7201, 127.0.0.1:7202"}


def test_the_reference_page_has_every_option_as_the_code_has_it() -> None:
    assert options_table() in PAGE.read_text()


def source(**given: str) -> SourceOptions:
    return source_options({**HERE, **given}, is_stream=False)


def sink(is_stream: bool = True, **given: str) -> SinkOptions:
    return sink_options({**HERE, **given}, is_stream=is_stream)


def test_names_are_read_in_any_case_and_paths_name_journals_or_prefixes() -> None:
    found = source_options({**HERE, "MAXBYTESPERTRIGGER": "10", "path": "shop/orders"}, is_stream=True)
    assert found.connection.brokers == ("127.0.0.1:7201", "127.0.0.1:7202")
    assert found.max_bytes == 10
    assert found.selector.matches(LabelSet(), name="shop/orders")
    assert not found.selector.matches(LabelSet(), name="shop/orders-eu")
    assert source(path="shop/").selector.matches(LabelSet(), name="shop/orders-eu")
    assert source(selector="topic=a").selector.matches(LabelSet.of(topic="a"), name="any")
    assert source(path="a", startingTime="2026-11-15T12:00:00+02:00").starting_ns == 1_794_736_800_000_000_000
    assert source(path="a", startingOffsets='{"a": 5, "b": "latest"}').starting == {"a": 5, "b": "latest"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"path": "a", "maxBytesPerTrigger": "1"}, "no option 'maxBytesPerTrigger'"),
        ({}, "in one way"),
        ({"path": "a", "framing": "xml"}, "expected json or csv or raw or arrow"),
        ({"path": "a", "splitBytes": "-1"}, "at least 1024"),
        ({"path": "a", "startingOffsets": '{"a": -1}'}, "option startingOffsets"),
        ({"path": "a", "endingOffsets": "{"}, "option endingOffsets"),
        ({"path": "a", "endingTime": "noon"}, "is no time"),
        ({"path": "a", "failOnDataLoss": "maybe"}, "expected true or false"),
    ],
)
def test_wrong_source_options_are_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        source(**given)


def test_wrong_sink_options_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sink(path="out", checkpointlocation="/c", queryname="q").checkpoint == "/c"
    with pytest.raises(InvalidArgument, match="belongs to batch writes"):
        sink(path="out", txn="t")
    with pytest.raises(InvalidArgument, match="belongs to streams"):
        sink(is_stream=False, path="out", sink="t")
    with pytest.raises(InvalidArgument, match="up to 55 letters"):
        sink(path="out", sink="with blanks")
    monkeypatch.delenv("PENSTOCK_BROKERS", raising=False)
    monkeypatch.chdir("/")  # nothing runs in a data folder there
    with pytest.raises(InvalidArgument, match="no option brokers"):
        sink_options({}, is_stream=True)
    monkeypatch.setenv("PENSTOCK_BROKERS", "b:1")
    assert sink_options({}, is_stream=True).connection.brokers == ("b:1",)


def test_the_token_and_tls_are_found_as_the_command_line_finds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("key", "authority", "certificate"):
        (tmp_path / name).write_text(f"the {name}")
    (tmp_path / "penstock.toml").write_text(
        f"""[wire]\ntoken = "of the file"\n[tls]\nenabled = true\nserver_name = "broker"\n
        certificate = "{tmp_path}/certificate"\nkey = "{tmp_path}/key"\nauthority = "{tmp_path}/authority"\n"""
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PENSTOCK_TOKEN", raising=False)
    found = pickle.loads(pickle.dumps(source(path="a").connection))  # as it comes to a task on another host
    assert found.token == "of the file"
    files = found.tls.files()
    assert files.server_name == "broker"
    assert [path.read_text() for path in (files.certificate, files.key, files.authority)] == [
        "the certificate",
        "the key",
        "the authority",
    ]
    assert files.key.stat().st_mode & 0o777 == 0o600
    assert repr(source(path="a")).count("the ") == 0  # neither the key nor the token
    assert source(path="a", token="own", tls="false").connection == Connection(
        ("127.0.0.1:7201", "127.0.0.1:7202"), "own", 60.0
    )
    monkeypatch.setenv("PENSTOCK_TOKEN", "of the environment")
    assert source(path="a").connection.token == "of the environment"
    with pytest.raises(ConfigError, match="TLS file nowhere: No such file"):
        source(path="a", tlsKey="nowhere")


def test_option_names_are_unique() -> None:
    names = [option.name.lower() for option in OPTIONS]
    assert len(set(names)) == len(names)
