import io
import logging
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.plumbing.config import Config, LogSection, Secret, Wire
from penstock.plumbing.process.logs import ITEMS_MAX, TRACE_CHARS_MAX, VALUE_CHARS_MAX, get_logger, start_logs

TOKEN = 'tok-5f2a/äö"9c'


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    before = structlog.get_config() if structlog.is_configured() else None
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    structlog.reset_defaults()
    if before is not None:
        structlog.configure(**before)
    root.handlers = handlers
    root.setLevel(level)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def logged(stream: io.StringIO) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line, type=dict[str, Any]) for line in stream.getvalue().splitlines()]


def start(level: Any = "debug", format: Any = "json", **more: Any) -> io.StringIO:
    stream = io.StringIO()
    start_logs(LogSection(level=level, format=format), stream=stream, **more)
    return stream


def test_an_event_is_a_line_of_json_with_time_level_and_fields() -> None:
    stream = start()
    structlog.get_logger().info("pipeline started", journal="shop/orders", replicas=3)
    (line,) = logged(stream)
    assert list(line) == ["time", "level", "event", "journal", "replicas"]
    assert line.pop("time").endswith("Z")
    assert line == {"level": "info", "event": "pipeline started", "journal": "shop/orders", "replicas": 3}


def test_json_where_a_program_reads_and_words_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    piped, terminal = io.StringIO(), Terminal()
    for stream in (piped, terminal):
        start_logs(LogSection(format="auto"), stream=stream)
        structlog.get_logger().info("started", port=7070)
    assert logged(piped)[0]["port"] == 7070
    assert "\x1b[" in terminal.getvalue()
    assert "started" in terminal.getvalue()


def test_no_color_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    start_logs(LogSection(format="auto"), stream=terminal)
    structlog.get_logger().info("started", port=7070)
    assert "\x1b" not in terminal.getvalue()
    assert terminal.getvalue().endswith("started port=7070\n")


def test_the_level_is_heard_by_ours_and_by_libraries() -> None:
    stream = start(level="warning")
    structlog.get_logger().info("too quiet")
    logging.getLogger("library").info("too quiet")
    structlog.get_logger().warning("loud")
    logging.getLogger("library").error("loud %s", "enough")
    assert [line["event"] for line in logged(stream)] == ["loud", "loud enough"]


@pytest.mark.parametrize("format", ["json", "console"])
def test_a_token_never_appears(format: str) -> None:
    stream = start(format=format, secrets=[Secret(TOKEN)])
    log = structlog.get_logger()
    secret = Secret(TOKEN)
    log.info("by type", value=secret, values=[secret, {"inside": secret}], config=Config(wire=Wire(token=secret)))
    log.info("by key", token=TOKEN, Authorization=TOKEN, aws_secret_access_key=TOKEN, nested={"password": [TOKEN]})
    log.info(f"by value in the event: {TOKEN}", url=f"http://user:{TOKEN}@host", why=ValueError(TOKEN))
    with structlog.contextvars.bound_contextvars(header=TOKEN):
        log.info("by context")
    logging.getLogger("library").warning("connecting with %s", TOKEN)
    try:
        raise ConnectionError(f"refused for {TOKEN}")
    except ConnectionError:
        log.exception("by traceback")
    written = stream.getvalue()
    assert len(written.splitlines()) >= 6
    for spelling in (TOKEN, TOKEN.replace('"', '\\"'), TOKEN[:6]):
        assert spelling not in written


def test_the_nouns_of_the_lake_are_no_secrets() -> None:
    stream = start()
    structlog.get_logger().info("staged", staging_token="st-1", continuation_token="ct-2", token="secret-3")
    (line,) = logged(stream)
    assert (line["staging_token"], line["continuation_token"], line["token"]) == ("st-1", "ct-2", "***")


def test_values_are_bounded() -> None:
    stream = start()
    deep: list[Any] = []
    deep.append(deep)
    structlog.get_logger().info(
        "big", text="x" * 100_000, many=list(range(10_000)), deep=deep, number=1 << 200, raw=b"\x00" * 100_000
    )
    (line,) = logged(stream)
    assert len(line["text"]) < VALUE_CHARS_MAX + 50
    assert len(line["many"]) == ITEMS_MAX
    assert len(stream.getvalue()) < 4 * VALUE_CHARS_MAX


def test_of_a_long_trace_the_end_is_kept() -> None:
    stream = start()
    try:
        raise ValueError("x" * 50_000 + " the end")
    except ValueError:
        structlog.get_logger().exception("failed")
    (line,) = logged(stream)
    assert line["exception"].endswith("the end")
    assert len(line["exception"]) <= TRACE_CHARS_MAX


def test_nobody_forges_a_line_or_speaks_to_the_terminal() -> None:
    stream = start(format="console")
    structlog.get_logger().info("peer says\n12:00:00 [info] forged", name="a\n12:00:00 [info] forged", escape="\x1b[2J")
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()


def test_without_start_logs_a_logger_of_ours_writes_warnings_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    structlog.reset_defaults()
    get_logger().info("connected")
    get_logger().warning("connection broken", port=7070)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert msgspec.json.decode(captured.err)["port"] == 7070


def test_a_program_that_has_configured_structlog_keeps_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    structlog.reset_defaults()
    structlog.configure(processors=[structlog.processors.KeyValueRenderer()])
    get_logger().info("started")
    assert capsys.readouterr().out == "event='started'\n"


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_what_cannot_be_printed_is_named_instead() -> None:
    stream = start()
    structlog.get_logger().info("odd", thing=Unprintable(), surrogate="\ud800", mapping={1: 2})
    logging.getLogger("library").warning("%d", "not a number")
    odd, library = logged(stream)
    assert "Unprintable" in odd["thing"]
    assert odd["mapping"] == {"1": 2}
    assert library["event"] == "%d"


class Closed(io.StringIO):
    def write(self, _: str) -> int:
        raise BrokenPipeError


def test_a_broken_stderr_loses_lines_and_nothing_else() -> None:
    start_logs(LogSection(), stream=Closed())
    structlog.get_logger().error("nobody hears this")


FIELDS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@settings(deadline=None)
@given(st.text(), st.dictionaries(st.text(min_size=1).filter(lambda key: key not in ("event", "self")), FIELDS))
def test_whatever_is_logged_is_one_valid_line(event: str, fields: dict[str, Any]) -> None:
    stream = start()
    fields = {key: value for key, value in fields.items() if key not in ("exc_info", "stack_info")}
    structlog.get_logger().info(event, **fields)
    (line,) = stream.getvalue().split("\n")[:-1]
    assert msgspec.json.decode(line)["level"] == "info"
