"""Logs: an event name plus fields, on stderr; for people on a terminal, as JSON lines where a program reads.

What always holds: a secret never reaches a line (not by its type, not under a telling key, not as a known value inside
other text), a line is bounded and free of control characters for any input, and logging never raises: a full disk or a
closed stderr loses lines, not the process.

structlog is loaded when there is something to say: a command which asks a server and prints the answer never needs it.
"""

import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TextIO

import msgspec

from penstock.plumbing.config.secret import MASK, Secret
from penstock.plumbing.config.sections import LogSection

if TYPE_CHECKING:
    import structlog

__all__ = ["get_logger", "start_logs"]

VALUE_CHARS_MAX: Final = 2_000
TRACE_CHARS_MAX: Final = 10_000
ITEMS_MAX: Final = 50
DEPTH_MAX: Final = 4
SECRET_CHARS_MIN: Final = 6  # a shorter secret would mask ordinary words all over the line

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_TELLING = re.compile(
    r"(^|[_-])(tokens?|secrets?|passwords?|passphrase|authorization|credentials?|cookie"
    r"|(api|access|private|secret|signing)[_-]?keys?)$",
    re.IGNORECASE,
)
_NO_SECRETS = {"staging_token", "continuation_token"}  # nouns of the lake's design
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")

EventDict = MutableMapping[str, Any]


_waiting: Callable[[], None] | None = None  # configures structlog when the first line is written


def start_logs(
    log: LogSection, *, secrets: Iterable[Secret] = (), stream: TextIO | None = None, when_needed: bool = False
) -> None:
    """Send what structlog and the standard library's logging say to `stream` (stderr), as the configuration says.

    `when_needed`: only Penstock's own loggers and those of the standard library write lines.
    """
    global _waiting
    _waiting = partial(_configure, log, tuple(secrets), stream)
    if not when_needed or "structlog" in sys.modules:
        _ready()
    root = logging.getLogger()
    root.handlers = [_Forward()]
    root.setLevel(_LEVELS[log.level])


def get_logger() -> Any:
    """Return the logger of a Penstock module: `log = get_logger()`, then `log.info("pipeline started", journal=name)`.

    In a program which never calls `start_logs` warnings go to stderr, and nothing else anywhere: structlog alone would
    print everything among the program's data.
    """
    return _Logger()


class _Logger:
    """What structlog's would be, once it is asked for something."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(_ready().get_logger(), name)


def _ready() -> Any:
    """structlog, configured: by us, unless the program has done so."""
    global _waiting
    import structlog

    waiting, _waiting = _waiting, None
    if waiting is not None:
        waiting()
    elif not structlog.is_configured():
        _configure(LogSection(level="warning"), (), None)
    return structlog


def _configure(log: LogSection, secrets: Iterable[Secret], stream: TextIO | None) -> None:
    import structlog

    is_terminal = (stream or sys.stderr).isatty()
    for_people = log.format == "console" or (log.format == "auto" and is_terminal)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(
                fmt="%H:%M:%S.%f" if for_people else "iso", utc=not for_people, key="time"
            ),
            structlog.processors.format_exc_info,
            _tidy_event,
            _console(colors=is_terminal and not os.environ.get("NO_COLOR")) if for_people else _json_line,
            _Scrubber(secrets),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[log.level]),
        logger_factory=lambda *_: _LineLogger(stream),
        # Not cached: a logger made at import must obey a later start_logs, and tests capture the log.
        cache_logger_on_first_use=False,
    )


def _console(*, colors: bool) -> "structlog.dev.ConsoleRenderer":
    import structlog

    return structlog.dev.ConsoleRenderer(
        colors=colors,
        sort_keys=False,
        timestamp_key="time",
        pad_event_to=0,
        # Never the pretty traceback: it prints local variables, and those may hold anything.
        exception_formatter=structlog.dev.plain_traceback,
    )


def _json_line(_logger: Any, _method: str, event: EventDict) -> str:
    first = {key: event.pop(key) for key in ("time", "level", "event") if key in event}
    return msgspec.json.encode({**first, **event}).decode()


def _tidy_event(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Every value as a plain, bounded, masked one, so that no renderer can fail or tell too much."""
    tidy = {str(key): _tidy_field(str(key), value, DEPTH_MAX) for key, value in event.items() if key != "exception"}
    # The event has no quotes in a console line: a line feed in it would forge the next line.
    tidy["event"] = str(tidy.get("event", "")).replace("\n", "\\n").replace("\t", "\\t")
    if "exception" in event:
        # Of a long trace the end counts.
        tidy["exception"] = _tidy_text(str(event["exception"])[-TRACE_CHARS_MAX:], TRACE_CHARS_MAX)
    return tidy


def _tidy_field(key: str, value: Any, depth: int) -> Any:
    if value is not None and _TELLING.search(key) and key.lower() not in _NO_SECRETS:
        return MASK
    return _tidy(value, depth)


def _tidy(value: Any, depth: int) -> Any:
    match value:
        case None | bool() | float():
            return value
        case int():
            return value if value.bit_length() < 64 else str(value)[:VALUE_CHARS_MAX]
        case str():
            return _tidy_text(value)
        case bytes() | bytearray() | memoryview():
            return f"{len(value)} bytes: {bytes(value[:32]).hex()}"
        case _ if depth == 0:
            return "…"
        case msgspec.Struct():
            return _tidy(msgspec.structs.asdict(value), depth)
        case Mapping():
            items = list(value.items())[:ITEMS_MAX]
            return {_tidy_text(str(key)): _tidy_field(str(key), item, depth - 1) for key, item in items}
        case list() | tuple() | set() | frozenset():
            return [_tidy(item, depth - 1) for item in list(value)[:ITEMS_MAX]]
        case _:
            return _tidy_text(_safe_str(value))


def _tidy_text(text: str, chars_max: int = VALUE_CHARS_MAX) -> str:
    """Without control characters (line feeds and tabs stay) and lone surrogates, and not without end."""
    cut = text if len(text) <= chars_max else f"{text[:chars_max]}… ({len(text)} characters)"
    escaped = _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), cut)
    return escaped.encode("utf-8", "backslashreplace").decode()


def _safe_str(value: Any) -> str:
    try:
        return str(value)
    except Exception as error:
        return f"<{type(value).__name__} whose str() raised {type(error).__name__}>"


class _Scrubber:
    """Replaces known secrets everywhere in a finished line: in a URL, an error's text, a traceback."""

    def __init__(self, secrets: Iterable[Secret]) -> None:
        values = {secret.reveal() for secret in secrets}
        # As they are, and as JSON writes them. The longest first: one secret may be the beginning of another.
        spelled = values | {msgspec.json.encode(value).decode()[1:-1] for value in values}
        self._values = sorted((one for one in spelled if len(one) >= SECRET_CHARS_MIN), key=len, reverse=True)

    def __call__(self, _logger: Any, _method: str, line: Any) -> str:
        text = str(line)
        for value in self._values:
            text = text.replace(value, MASK)
        return text


class _LineLogger:
    """Writes finished lines, each whole, from any thread."""

    _lock = threading.Lock()

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream  # None: whatever stderr is at the time

    def msg(self, line: str) -> None:
        stream = self._stream or sys.stderr
        try:
            with self._lock:
                stream.write(line + "\n")
                stream.flush()
        except (OSError, ValueError, UnicodeError):
            pass  # no reader is left: stderr is closed, full, or cannot encode this

    log = debug = info = warning = error = critical = exception = fatal = msg


class _Forward(logging.Handler):
    """What libraries log through the standard library joins our log, with the logger's name as a field."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except (TypeError, ValueError):
            message = str(record.msg)  # its arguments do not fit its own format
        _ready().get_logger().log(record.levelno, message, logger=record.name, exc_info=record.exc_info)
