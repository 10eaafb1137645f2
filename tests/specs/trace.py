"""Is a recorded run a behaviour of specs/QuorumLog.tla? The schema of a trace is in specs/README.md.

A trace is JSON lines: a header, then one record per change of the metadata, of a node, or per answer to a client. It
becomes a TLA+ module with the records as a literal, and TLC looks for a behaviour which shows them in this order.

    .venv/bin/python -m tests.specs.trace RUN.jsonl
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import msgspec
from tests.specs.tlc import Outcome, Tlc

__all__ = ["Rejection", "Trace", "TraceError", "parse", "validate"]

CONFIG = """\
CONSTANTS
  Nodes <- TraceNodes
  Ensemble <- TraceEnsemble
  Trace <- TraceRecords
  NoNode = NoNode
  Mutant = "none"
INIT TraceInit
NEXT TraceNext
"""

Name = str  # of a node: one name per incarnation
Value = int | str  # of a transaction: whatever names it
LogEntry = tuple[int, Literal["SYNC", "ASYNC", "BARRIER", "CONFIRM", "ROLLBACK"], Value]


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line: every node which the trace will name, and the first ensemble."""

    nodes: tuple[Name, ...]
    ensemble: tuple[Name, ...]


class Reconfiguration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change under way, as the metadata have it."""

    phase: Literal["PREPARE", "COMMIT"]
    old: Name | None = None
    new: Name | None = None


class MetadataRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The metadata after a successful compare-and-set."""

    epoch: int
    status: Literal["ELECTION", "STEADY_STATE", "RECONFIGURATION"]
    ensemble: tuple[Name, ...]
    leader: Name | None = None
    reconfiguration: Reconfiguration | None = None


class NodeRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node after a step, or after a restart."""

    name: Name
    epoch: int
    role: Literal["UNFORMATTED", "FENCED", "FOLLOWER", "LEADER"]
    durable: int
    log: tuple[LogEntry, ...] = ()  # from `first` on; of a node which does not lead, the durable part
    first: int = 1
    base: int = 0  # the epoch of the entry before `first`
    commit: int = 0
    confirmed: int = 0
    applied: int = 0
    voters: tuple[Name, ...] = ()
    restarted: bool = False


class AnswerRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a leader told a client."""

    name: Name
    id: tuple[int, int]
    result: Literal["COMMITTED", "ACKNOWLEDGED", "ABORTED"]


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One record: exactly one of these; the note is for people."""

    metadata: MetadataRecord | None = None
    node: NodeRecord | None = None
    answer: AnswerRecord | None = None
    note: str = ""


@dataclass(frozen=True)
class Trace:
    """A header and its records, each with the line it was read from."""

    header: Header
    lines: tuple[Line, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Rejection:
    """The first record which no action of the specification allows."""

    number: int  # of the line in the file, counted from 1
    text: str
    state: str  # what the specification had arrived at, as TLC prints it

    def __str__(self) -> str:
        return f"line {self.number} is no step of specs/QuorumLog.tla: {self.text}\nfrom this state:\n{self.state}"


class TraceError(Exception):
    """These lines are not a trace."""


def parse(lines: Iterable[str]) -> Trace:
    """Read a trace. Raises `TraceError` with the number of a line which is none."""
    texts = [line.strip() for line in lines if line.strip()]
    if not texts:
        raise TraceError("no header")
    try:
        header = msgspec.json.decode(texts[0], type=Header)
    except msgspec.ValidationError as why:
        raise TraceError(f"line 1: {why}") from why
    return Trace(header, tuple(_lines(header, texts[1:])), tuple(texts[1:]))


def _lines(header: Header, texts: Sequence[str]) -> Iterator[Line]:
    decoder = msgspec.json.Decoder(Line)
    for number, text in enumerate(texts, 2):
        try:
            line = decoder.decode(text)
        except msgspec.MsgspecError as why:
            raise TraceError(f"line {number}: {why}") from why
        if sum(each is not None for each in (line.metadata, line.node, line.answer)) != 1:
            raise TraceError(f"line {number}: exactly one of metadata, node, answer")
        unknown = _names(line) - set(header.nodes)
        if unknown:
            raise TraceError(f"line {number}: not in the header: {', '.join(sorted(unknown))}")
        yield line


def _names(line: Line) -> set[Name]:
    names: set[Name | None] = set()
    if line.metadata is not None:
        change = line.metadata.reconfiguration
        names = {*line.metadata.ensemble, line.metadata.leader}
        names |= {change.old, change.new} if change is not None else set()
    if line.node is not None:
        names = {line.node.name, *line.node.voters}
    if line.answer is not None:
        names = {line.answer.name}
    return {name for name in names if name is not None}


def validate(tlc: Tlc, trace: Trace, *, timeout_s: float = 110) -> Rejection | None:
    """None if the trace is a behaviour of the specification."""
    matched = _matched(_run(tlc, trace, len(trace.lines), CONFIG, timeout_s))
    if matched == len(trace.lines):
        return None
    # Once more, up to the last good record, to see where that led
    before = _run(tlc, trace, matched, CONFIG + "INVARIANT Unmatched\n", timeout_s) if matched else None
    state = before.behaviour[-1] if before is not None and before.behaviour else "the initial one"
    return Rejection(matched + 2, trace.texts[matched], state)


def _run(tlc: Tlc, trace: Trace, count: int, config: str, timeout_s: float) -> Outcome:
    with TemporaryDirectory(prefix="trace-") as scratch:
        folder = Path(scratch)
        (folder / "Run.tla").write_text(module(trace, count))
        (folder / "Run.cfg").write_text(config)
        return tlc.check("Run", folder / "Run.cfg", folder=folder, timeout_s=timeout_s)


def _matched(outcome: Outcome) -> int:
    """TLC prints <<"matched", n>> whenever it comes further than before."""
    numbers = [int(line.split(",")[1].strip(" >")) for line in outcome.printed if line.startswith('<<"matched"')]
    return max(numbers, default=0)


# the module


def module(trace: Trace, count: int) -> str:
    """The first `count` records as TLA+."""
    writer = _Writer()
    records = [writer.record(line) for line in trace.lines[:count]]
    return "\n".join(
        [
            "---- MODULE Run ----",
            "EXTENDS QuorumLogTrace",
            f"TraceNodes == {_set(trace.header.nodes)}",
            f"TraceEnsemble == {_set(trace.header.ensemble)}",
            *writer.definitions,
            *(f"R{number} == {record}" for number, record in enumerate(records, 1)),
            f"TraceRecords == <<{', '.join(f'R{number}' for number in range(1, count + 1))}>>",
            "====",
            "",
        ]
    )


class _Writer:
    """Writes records; a log says only what is new against the one before of the same node: traces stay small."""

    def __init__(self) -> None:
        self.definitions = ["L0 == <<>>"]
        self._logs: dict[Name, tuple[int, int, tuple[LogEntry, ...]]] = {}  # by node: definition, first, entries
        self._values: dict[Value, int] = {}

    def record(self, line: Line) -> str:
        if line.metadata is not None:
            return _metadata(line.metadata)
        if line.node is not None:
            return self._node(line.node)
        assert line.answer is not None
        answer = line.answer
        return _record(
            kind='"answer"', node=_text(answer.name), id=_tuple(map(str, answer.id)), result=_text(answer.result)
        )

    def _node(self, node: NodeRecord) -> str:
        fields = {
            name: str(getattr(node, name))
            for name in ("epoch", "durable", "first", "base", "commit", "confirmed", "applied")
        }
        return _record(
            kind='"node"',
            node=_text(node.name),
            role=_text(node.role),
            log=self._log(node),
            voters=_set(node.voters),
            restarted=str(node.restarted).upper(),
            **fields,
        )

    def _log(self, node: NodeRecord) -> str:
        number, first, known = self._logs.get(node.name, (0, node.first, ()))
        if (first, known) == (node.first, node.log):
            return f"L{number}"
        shared = known[node.first - first :] if node.first >= first else ()
        same = 0
        while same < min(len(shared), len(node.log)) and shared[same] == node.log[same]:
            same += 1
        begin = node.first - first + 1
        kept = f"SubSeq(L{number}, {begin}, {begin + same - 1})" if same else "<<>>"
        added = _tuple(self._entry(entry) for entry in node.log[same:])
        number = len(self.definitions)
        self.definitions.append(f"L{number} == {kept} \\o {added}")
        self._logs[node.name] = (number, node.first, node.log)
        return f"L{number}"

    def _entry(self, entry: LogEntry) -> str:
        epoch, kind, value = entry
        is_txn = kind in ("SYNC", "ASYNC")
        number = self._values.setdefault(value, len(self._values) + 1) if is_txn else value
        return f'Entry({epoch}, "{kind}", {number})'


def _metadata(metadata: MetadataRecord) -> str:
    change = metadata.reconfiguration
    fields = _record(
        epoch=str(metadata.epoch),
        status=_text(metadata.status),
        ensemble=_set(metadata.ensemble),
        leader=_node_or_none(metadata.leader),
        phase=_text(change.phase if change is not None else "NONE"),
        old=_node_or_none(change.old if change is not None else None),
        new=_node_or_none(change.new if change is not None else None),
        formed="FALSE",
    )
    return _record(kind='"metadata"', metadata=fields)


def _record(**fields: str) -> str:
    return "[" + ", ".join(f"{name} |-> {value}" for name, value in fields.items()) + "]"


def _text(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _node_or_none(name: Name | None) -> str:
    return "NoNode" if name is None else _text(name)


def _set(names: Iterable[Name]) -> str:
    return "{" + ", ".join(map(_text, names)) + "}"


def _tuple(items: Iterable[str]) -> str:
    return "<<" + ", ".join(items) + ">>"


def main(paths: Sequence[str]) -> int:
    """Validate files of traces; 1 if one is rejected."""
    rejected = 0
    for path in paths:
        rejection = validate(Tlc.find(), parse(Path(path).read_text().splitlines()), timeout_s=3600)
        rejected += rejection is not None
        print(f"{path}: {'accepted' if rejection is None else rejection}")
    return 1 if rejected else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
