"""Options of the format `journal`: one table of them, which the code reads and the reference page shows.

Spark hands options over as text, their names in lower case. An option that is not in the table is refused, since a
misspelt one would otherwise be ignored in silence.
"""

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

from penstock.journals.records.labels import Label, LabelSelector, LabelSet
from penstock.kernel.errors import InvalidArgument
from penstock.spark.connection import CONNECTION_OPTIONS, Connection, connection_of

__all__ = [
    "OPTIONS",
    "Connection",
    "Framing",
    "Option",
    "Position",
    "SinkOptions",
    "SourceOptions",
    "has_stream_option",
    "sink_options",
    "source_options",
]

Framing = Literal["json", "csv", "raw", "arrow"]
Position = int | Literal["earliest", "latest"]
FRAMINGS: Final = ("json", "csv", "raw", "arrow")
CONTENT_TYPES: Final[dict[str, Framing]] = {
    "application/x-ndjson": "json",
    "text/csv": "csv",
    "application/x-penstock-fixed": "raw",
    "application/vnd.apache.arrow.stream+penstock-fixed": "arrow",
}
TRANSACTIONS: Final = "spark/transactions"
SINK_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+-]{0,54}")
SPARKS_OWN: Final = frozenset({"checkpointlocation", "queryname", "path"})


class Option(msgspec.Struct, frozen=True):
    """One option: its name, its users (read, stream, write), its meaning, and its default."""

    name: str
    of: tuple[str, ...]
    default: str
    meaning: str


_ALL: Final = ("read", "stream", "write")
_READS: Final = ("read", "stream")
OPTIONS: Final = (
    *(Option(name, _ALL, default, meaning) for name, (default, meaning) in CONNECTION_OPTIONS.items()),
    Option("journal", _ALL, "", "The journal, by its name. `load(name)` and `save(name)` say the same."),
    Option("prefix", _READS, "", "All journals whose names begin with this. `load('shop/')` says the same."),
    Option("selector", _READS, "", "All journals whose labels fit, like `topic=orders, region != eu`."),
    Option("framing", _ALL, "the content-type, or json", "json, csv, raw or arrow."),
    Option("isolation", _READS, "committed", "committed: each message once, if its transaction is. uncommitted: all."),
    Option("metadata", _READS, "false", "true: add `_journal`, `_offset`, `_uuid`, `_published` to a found schema."),
    Option("columns", _READS, "all", "Which columns of a found schema to read, separated by commas."),
    Option("onBad", _READS, "fail", "fail, or skip: what to do about a message which cannot be read."),
    Option("startingOffsets", _READS, "earliest", "earliest, latest, or JSON: an offset for each journal."),
    Option("endingOffsets", ("read",), "latest", "latest, or JSON: an offset for each journal."),
    Option("startingTime", _READS, "", "Only messages published at this time (ISO 8601, UTC) or later."),
    Option("endingTime", ("read",), "", "Only messages published before this time."),
    Option("failOnDataLoss", _READS, "true", "false: continue after bytes that retention or a reset-head has removed."),
    Option("stateLocation", _READS, ".seq/ in the fragment store", "A store's URL for the states of sequencing."),
    Option("splitBytes", ("read",), "67108864", "About how much of a journal one task reads."),
    Option("maxBytesPerTrigger", ("stream",), "no limit", "How many bytes one micro-batch reads at most."),
    Option("tasks", ("stream",), "2 for each core of the driver", "How many tasks read a micro-batch at most."),
    Option("untilOffsets", ("stream",), "none", "JSON: an offset for each journal, where the stream ends."),
    Option("sink", ("write",), "the query's id", "A name under which the sink is known, whatever its checkpoint."),
    Option("txn", ("write",), "none", "A batch write's own name: a second write of that name changes nothing."),
    Option("transactions", ("write",), TRANSACTIONS, "The journal of transactions; it is made if it is missing."),
)


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to read, from where to where, and how."""

    connection: Connection
    selector: LabelSelector
    framing: Framing | None
    is_committed: bool
    has_metadata: bool
    columns: tuple[str, ...]
    skips_bad: bool
    starting: dict[str, Position] | Literal["earliest", "latest"]
    ending: dict[str, Position] | Literal["latest"]
    starting_ns: int | None
    ending_ns: int | None
    fails_on_loss: bool
    state_location: str
    split_bytes: int
    max_bytes: int | None
    until: dict[str, int] | None = None  # of a stream that ends there
    tasks_max: int | None = None  # for a micro-batch


class SinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where to write, and under which name."""

    connection: Connection
    journal: str  # empty: the column `_journal` says it
    framing: Framing | None
    sink: str
    txn: str
    transactions: str
    checkpoint: str


def source_options(given: Mapping[str, str], *, is_stream: bool) -> SourceOptions:
    """Return the options of a reader; InvalidArgument names the wrong one."""
    options = _known(given, "stream" if is_stream else "read")
    return SourceOptions(
        connection=connection_of(options),
        selector=_selector(options),
        framing=_framing(options),
        is_committed=_one_of(options, "isolation", ("committed", "uncommitted")) == "committed",
        has_metadata=_boolean(options, "metadata", default=False),
        columns=tuple(_words(options.get("columns", ""))),
        skips_bad=_one_of(options, "onBad", ("fail", "skip")) == "skip",
        starting=_starting(options),
        ending=_ending(options),
        starting_ns=_time(options, "startingTime"),
        ending_ns=_time(options, "endingTime"),
        fails_on_loss=_boolean(options, "failOnDataLoss", default=True),
        state_location=options.get("stateLocation", ""),
        split_bytes=_number(options, "splitBytes", 64 << 20, least=1 << 10),
        max_bytes=_number(options, "maxBytesPerTrigger", 0, least=1) or None,
        until=_until(options),
        tasks_max=_number(options, "tasks", 0, least=1) or None,
    )


def has_stream_option(given: Mapping[str, str]) -> bool:
    """Is there an option which only streams have? Spark asks for a schema without saying whether it is for a stream."""
    names = {name.lower() for name in given}
    return any("stream" in each.of and "read" not in each.of and each.name.lower() in names for each in OPTIONS)


def sink_options(given: Mapping[str, str], *, is_stream: bool) -> SinkOptions:
    """The options of a writer."""
    options = _known(given, "write")
    if is_stream and "txn" in options:
        raise InvalidArgument("option txn belongs to batch writes: a stream numbers its batches itself; use sink")
    if not is_stream and "sink" in options:
        raise InvalidArgument("option sink belongs to streams; give a batch write a txn of its own")
    for name in ("sink", "txn"):
        if name in options and not SINK_NAME.fullmatch(options[name]):
            raise InvalidArgument(f"option {name}: {options[name]!r}: expected up to 55 letters, digits and ._/+-")
    return SinkOptions(
        connection=connection_of(options),
        journal=options.get("journal", options.get("path", "")),
        framing=_framing(options),
        sink=options.get("sink", ""),
        txn=options.get("txn", ""),
        transactions=options.get("transactions", TRANSACTIONS),
        checkpoint=options.get("checkpointlocation", ""),
    )


def _known(given: Mapping[str, str], whose: str) -> dict[str, str]:
    """The options under the names the table has; others are refused."""
    names = {option.name.lower(): option for option in OPTIONS}
    found: dict[str, str] = {}
    for key, value in given.items():
        option = names.get(key.lower())
        if option is not None and whose in option.of:
            found[option.name] = value
        elif key.lower() in SPARKS_OWN:
            found[key.lower()] = value
        else:
            known = ", ".join(sorted(each.name for each in OPTIONS if whose in each.of))
            what = {"read": "a batch read", "stream": "a stream", "write": "a write"}[whose]
            raise InvalidArgument(f"{what} of journals has no option {key!r}; there are {known}")
    return found


def _selector(options: Mapping[str, str]) -> LabelSelector:
    path = options.get("path", "")
    ways = {name: options[name] for name in ("journal", "prefix", "selector") if name in options}
    if path:
        ways["prefix" if path.endswith("/") else "journal"] = path
    if len(ways) != 1:
        raise InvalidArgument(
            f"say which journals in one way, by journal, prefix or selector; given: {', '.join(ways) or 'none'}"
        )
    ((way, text),) = ways.items()
    if way == "selector":
        return LabelSelector.parse(text)
    return LabelSelector(LabelSet((Label("name", text, is_prefix=way == "prefix"),)))


def _framing(options: Mapping[str, str]) -> Framing | None:
    if "framing" not in options:
        return None
    return _one_of(options, "framing", FRAMINGS)  # type: ignore[return-value]


def _starting(options: Mapping[str, str]) -> dict[str, Position] | Literal["earliest", "latest"]:
    text = options.get("startingOffsets", "earliest")
    return text if text in ("earliest", "latest") else _offsets("startingOffsets", text)  # type: ignore[return-value]


def _ending(options: Mapping[str, str]) -> dict[str, Position] | Literal["latest"]:
    text = options.get("endingOffsets", "latest")
    return "latest" if text == "latest" else _offsets("endingOffsets", text)


def _until(options: Mapping[str, str]) -> dict[str, int] | None:
    if "untilOffsets" not in options:
        return None
    found = _offsets("untilOffsets", options["untilOffsets"])
    if not all(isinstance(each, int) for each in found.values()):
        raise InvalidArgument("option untilOffsets: expected an offset for each journal, like {'shop/orders': 4096}")
    return {name: each for name, each in found.items() if isinstance(each, int)}


def _offsets(name: str, text: str) -> dict[str, Position]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    is_position = isinstance(found, dict) and all(
        each in ("earliest", "latest") or (type(each) is int and each >= 0) for each in found.values()
    )
    if not is_position:
        raise InvalidArgument(f"option {name}: {text[:120]!r}: expected latest or JSON, like {{'shop/orders': 4096}}")
    return dict(found)


def _time(options: Mapping[str, str], name: str) -> int | None:
    if name not in options:
        return None
    try:
        found = datetime.fromisoformat(options[name])
    except ValueError:
        raise InvalidArgument(f"option {name}: {options[name]!r} is no time, like 2026-11-15T12:00:00Z") from None
    found = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return int(found.timestamp() * 1_000_000) * 1_000


def _boolean(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    return _one_of(options, name, ("true", "false") if default else ("false", "true")) == "true"


def _one_of(options: Mapping[str, str], name: str, values: tuple[str, ...]) -> str:
    """The option's value; the first of them if it is not given."""
    value = options.get(name, values[0]).lower()
    if value not in values:
        raise InvalidArgument(f"option {name}: {value!r}: expected {' or '.join(values)}")
    return value


def _number(options: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    if name not in options:
        return default
    text = options[name]
    if not text.isdecimal() or int(text) < least:
        raise InvalidArgument(f"option {name}: {text!r}: expected a number of at least {least}")
    return int(text)


def _words(text: str) -> Iterable[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
