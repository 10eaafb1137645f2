"""`penstock journals`: journals, their specs, content and fragments."""

import asyncio
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from cyclopts import Parameter

from penstock.cli.durations import duration
from penstock.cli.journals.journal_specs import changes_in, spec_text
from penstock.cli.journals.journal_targets import AtBrokers, Name, journals_of
from penstock.cli.journals.journal_verbs import create, delete
from penstock.cli.noun import InSession, examples, noun
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.fragment_index import Gap
from penstock.journals.records.protocol import JournalInfo
from penstock.journals.records.registers import Txn
from penstock.kernel.errors import InvalidArgument, NotFound, PenstockError
from penstock.kernel.ids import Offset, Revision
from penstock.plumbing.process.reader_thread import ReaderThread, head_of
from penstock.server.output import make_table
from penstock.server.session import Session
from penstock.server.targets import CLUSTER_FOLDER, AtFolder

if TYPE_CHECKING:
    from penstock.journals.client.journal_content import Source

__all__ = ["app"]

app = noun(
    "journals",
    "Journals: their specs, their content, their fragments.",
    try_this=(
        "penstock cluster up --brokers 3                 in another terminal",
        "penstock journals apply examples/shop.yaml",
        "echo hello | penstock journals append shop/orders",
        "penstock journals read shop/orders --follow",
    ),
)

Framing = Annotated[
    Literal["json", "csv"], Parameter(help="What a message is: a line of JSON, or a record of CSV.", show_choices=True)
]
PIECE_BYTES: Final = 512 << 10

app.command(
    create,
    help_epilogue=examples(
        "penstock journals create hello/world", "penstock journals create hello/world --replication 1 --fsync"
    ),
)
app.command(delete, help_epilogue=examples("penstock journals delete hello/world"))


@app.command(
    name="list",
    help_epilogue=examples(
        "penstock journals list",
        'penstock journals list "name:prefix=shop/"',
        "penstock journals list region=eu --watch",
    ),
)
async def list_journals(
    selector: Annotated[str, Parameter(help="Labels, like region=eu or name:prefix=shop/.", metavar="SELECTOR")] = "",
    /,
    *,
    watch: Annotated[bool, Parameter(help="Print them again after every change.")] = False,
    broker: AtBrokers = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """List journals: who serves them, the primary marked with *, and the epoch of their last synchronization."""
    async with journals_of(session, broker, cluster) as journals:
        if not watch:
            _show(session, await journals.list(selector))
            return
        async for found in journals.watch(selector):
            _show(session, found)


def _show(session: Session, found: list[JournalInfo]) -> None:
    rows = [
        [
            each.spec.name,
            f"{len(each.brokers)}/{each.spec.replication}",
            " ".join(f"{one.broker.partition('#')[2]}{'*' if one.is_primary else ''}" for one in each.brokers) or "-",
            str(each.epoch) if each.epoch is not None else "-",
            str(each.spec.labels) or "-",
            _notes(each),
        ]
        for each in found
    ]
    data = [
        {
            **spec_text(each.spec, each.mod_revision),
            "brokers": msgspec.to_builtins(each.brokers),
            "epoch": str(each.epoch) if each.epoch is not None else None,
            "start": each.start,
            "resets": each.resets,
        }
        for each in found
    ]
    session.emit(data, make_table(["journal", "replicas", "brokers", "epoch", "labels", "notes"], rows))


def _notes(info: JournalInfo) -> str:
    notes = [f"needs {info.spec.least} brokers"] if 0 < info.spec.least < info.spec.replication else []
    notes += [f"gaps below {', '.join(map(str, info.resets))}"] if info.resets else []
    return "; ".join(notes)


@app.command(
    help_epilogue=examples("penstock journals apply examples/shop.yaml", "cat specs.json | penstock journals apply -")
)
async def apply(
    file: Annotated[
        Path, Parameter(help="YAML, JSON or TOML; - is stdin, as YAML.", metavar="FILE", allow_leading_hyphen=True)
    ],
    /,
    *,
    broker: AtBrokers = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """Create, update or delete journals: everything in the file, or nothing."""
    changes = changes_in(file, _read_file(file))
    async with journals_of(session, broker, cluster) as journals:
        revision = await journals.apply(changes)
    names = [change.upsert.name if change.upsert is not None else f"-{change.delete}" for change in changes]
    session.emit({"revision": revision, "journals": names}, f"applied at revision {revision}: {', '.join(names)}")


@app.command(
    help_epilogue=examples("penstock journals edit shop/orders", "EDITOR=nano penstock journals edit region=eu")
)
async def edit(
    selector: Annotated[str, Parameter(help="A journal's name, or a selector.", metavar="NAME|SELECTOR")],
    /,
    *,
    broker: AtBrokers = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """Edit specs in $EDITOR and apply them, unless someone else has changed one since."""
    chosen = selector if "=" in selector else f"name={selector}"
    async with journals_of(session, broker, cluster) as journals:
        found = await journals.list(chosen)
        if not found:
            raise NotFound(f"no journal fits {selector!r}", next_step="penstock journals list")
        before = msgspec.yaml.encode({"journals": [spec_text(each.spec, each.mod_revision) for each in found]})
        after = await asyncio.to_thread(_edited, before)
        if after == before:
            session.emit({"revision": None, "journals": []}, "nothing was changed")
            return
        changes = changes_in(Path("edited.yaml"), after)
        revision = await journals.apply(changes)
    names = [change.upsert.name if change.upsert is not None else f"-{change.delete}" for change in changes]
    session.emit({"revision": revision, "journals": names}, f"applied at revision {revision}: {', '.join(names)}")


def _edited(text: bytes) -> bytes:
    """Return the text after the user has edited it."""
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
        file.write(text)
        file.flush()
        try:
            subprocess.run([*editor, file.name], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise InvalidArgument(f"the editor {editor[0]!r} failed: {error}; nothing was changed") from None
        return Path(file.name).read_bytes()


def _read_file(path: Path) -> bytes:
    if str(path) == "-":
        return sys.stdin.buffer.read()
    try:
        return path.read_bytes()
    except OSError as error:
        raise NotFound(f"{path}: {os.strerror(error.errno or 0)}") from None


@app.command(
    help_epilogue=examples(
        "echo hello | penstock journals append shop/orders",
        "penstock journals append shop/orders --timeout 600 < big.bin",
        "penstock journals append shop/orders --set-register author=me < first.bin",
    )
)
async def append(
    name: Name,
    /,
    *,
    offset: Annotated[int | None, Parameter(help="Only if the journal ends there.", metavar="OFFSET")] = None,
    check_registers: Annotated[str, Parameter(help="Fail unless the registers match.", metavar="SELECTOR")] = "",
    set_register: Annotated[
        tuple[str, ...], Parameter(help="Set a register in the same append.", metavar="NAME=VALUE")
    ] = (),
    txn: Annotated[
        str | None, Parameter(help="WRITER/NUMBER: however often it is sent, it takes effect once.", metavar="TXN")
    ] = None,
    timeout: Annotated[float, duration("Give up after this time, e.g. 30s.")] = 30.0,
    broker: AtBrokers = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """Append stdin as one atomic write of any size. Prints the offsets."""
    union = dict(_pair(text) for text in set_register)
    async with journals_of(session, broker, cluster) as journals:
        first, rest = await head_of(sys.stdin.buffer, PIECE_BYTES)
        content: Source = first if len(first) < PIECE_BYTES else _pieces(first, rest)  # a short one may be sent again
        done = await journals.append(
            name,
            content,
            offset=Offset(offset) if offset is not None else None,
            check=check_registers,
            union=union,
            txn=_txn(txn),
            timeout=timeout,
        )
    session.emit(
        {
            "journal": name,
            "begin": done.begin,
            "end": done.end,
            "sha1": done.sum.hex(),
            "epoch": str(done.epoch),
            "registers": str(done.registers),
        },
        f"{name} [{done.begin}, {done.end}) committed",
    )


async def _pieces(first: bytes, rest: ReaderThread[bytes]) -> AsyncIterator[bytes]:
    yield first
    while taken := await rest.take():
        for piece in taken:
            yield piece


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidArgument(f"--set-register {text}: expected NAME=VALUE")
    return name, value


def _txn(text: str | None) -> Txn | None:
    if text is None:
        return None
    writer, slash, number = text.rpartition("/")
    if not slash or not number.isdigit():
        raise InvalidArgument(f"--txn {text}: expected WRITER/NUMBER, like loader/17")
    return Txn(writer, int(number))


@app.command(
    help_epilogue=examples(
        "penstock journals read shop/orders",
        "penstock journals read shop/orders --from -1 --follow",
        "penstock journals read shop/orders --from 1000 --to 2000 > part.bin",
    )
)
async def read(
    name: Name,
    /,
    *,
    first: Annotated[
        int, Parameter(name="--from", help="The offset to begin at; -1: where it ends now.", metavar="OFFSET")
    ] = 0,
    end: Annotated[int, Parameter(name="--to", help="The offset to stop at.", metavar="OFFSET")] = 0,
    follow: Annotated[bool, Parameter(help="Continue as more is appended.")] = False,
    since: Annotated[
        int, Parameter(help="Skip fragments which were stored before, in unix seconds.", metavar="TIME")
    ] = 0,
    direct: Annotated[
        bool, Parameter(help="Read stored fragments from their stores, with your own credentials.")
    ] = False,
    broker: AtBrokers = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """Write a journal's content to stdout, as it is. Only what every replica has is shown."""
    async with journals_of(session, broker, cluster, direct=direct) as journals:
        async for chunk in journals.read(name, first, end=end, follow=follow, begin_mod_time=since):
            sys.stdout.buffer.write(chunk.content)
            sys.stdout.buffer.flush()


@app.command(
    help_epilogue=examples(
        "cat orders.jsonl | penstock journals publish shop/orders",
        "cat orders.csv | penstock journals publish shop/orders --framing csv",
    )
)
async def publish(
    name: Name,
    /,
    *,
    framing: Framing = "json",
    first_line: Annotated[
        int, Parameter(name="--from-line", help="Skip the lines before this one.", metavar="LINE")
    ] = 1,
    progress: Annotated[bool, Parameter(help="Print the number of messages from time to time.")] = False,
    broker: AtBrokers = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """Publish each line of stdin as a message with a UUID.

    Each line is sent as soon as it is read. A command that stops says how many messages are published, and with which
    line to continue.
    """
    from penstock.cli.journals.publishing import LinePublisher

    async with journals_of(session, broker, cluster) as journals:
        lines = LinePublisher(journals, name, framing, first_line=first_line, say=session.say if progress else None)
        try:
            await lines.run(sys.stdin.buffer)
        except asyncio.CancelledError:
            said, next_line = lines.how_far()
            session.say(f"interrupted: {said}" + (f"; next: {lines.command_from(next_line)}" if next_line else ""))
            raise
    session.emit(
        {"journal": name, "messages": lines.count, "end": lines.end},
        f"{name}: {lines.count} messages, up to {lines.end}",
    )


@app.command(
    help_epilogue=examples(
        "penstock journals cat shop/orders --committed --limit 3",
        "penstock journals cat shop/orders --committed --follow --uuids",
    )
)
async def cat(
    name: Name,
    /,
    *,
    committed: Annotated[
        bool, Parameter(help="Only committed messages, each once. Otherwise all there are, duplicates too.")
    ] = False,
    first: Annotated[int, Parameter(name="--from", help="The offset to begin at.", metavar="OFFSET")] = 0,
    limit: Annotated[int | None, Parameter(help="Messages to show at most.", metavar="N")] = None,
    follow: Annotated[bool, Parameter(help="Continue as more is published.")] = False,
    uuids: Annotated[bool, Parameter(help="Show each message's UUID too, before it.")] = False,
    framing: Framing = "json",
    broker: AtBrokers = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """Write a journal's messages to stdout, one to a line."""
    from penstock.cli.journals.journal_messages import message_lines

    async with journals_of(session, broker, cluster) as journals:
        lines = message_lines(journals, name, framing, first, committed=committed, follow=follow, uuids=uuids)
        async with aclosing(lines):
            count = 0
            while limit is None or count < limit:
                line = await anext(lines, None)
                if line is None:
                    return
                count += 1
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()


@app.command(help_epilogue=examples("penstock journals fragments shop/orders"))
async def fragments(
    name: Name, /, *, broker: AtBrokers = (), cluster: AtFolder = CLUSTER_FOLDER, session: InSession
) -> None:
    """List a journal's fragments: where they begin and end, in which store they are, and the gaps between them."""
    async with journals_of(session, broker, cluster) as journals:
        found = await journals.fragments(name)
    rows = [
        [
            str(each.begin),
            str(each.end),
            str(each.length),
            each.codec.value,
            each.backing_store or "brokers",
            each.sum.hex()[:12],
        ]
        for each in found.fragments
    ]
    session.emit(
        {
            "write_head": found.write_head,
            "fragments": msgspec.to_builtins(found.fragments),
            "gaps": msgspec.to_builtins(found.gaps),
        },
        make_table(["begin", "end", "bytes", "codec", "store", "sha1"], rows, right=["begin", "end", "bytes"]),
        *(_gap_text(each) for each in found.gaps),
        f"the journal ends at {found.write_head}",
    )


def _gap_text(gap: Gap) -> str:
    why = (
        "a reset-head left it out: readers jump over it"
        if gap.is_jumped
        else "readers wait there until a broker stores it"
    )
    return f"gap: no fragment has [{gap.begin}, {gap.end}); {why}"


@app.command(help_epilogue=examples("penstock journals prune shop/orders"))
async def prune(
    name: Name, /, *, broker: AtBrokers = (), cluster: AtFolder = CLUSTER_FOLDER, session: InSession
) -> None:
    """Remove now what its retention allows, and fragments which larger ones cover. Brokers do so by themselves too."""
    async with journals_of(session, broker, cluster) as journals:
        removed = (await journals.prune(name)).fragments
    size = sum(each.length for each in removed)
    session.emit(
        {"removed": msgspec.to_builtins(removed)}, f"removed {len(removed)} fragments with {size} bytes of content"
    )


@app.command(
    name="reset-head",
    help_epilogue=examples(
        "penstock journals reset-head shop/orders", "penstock journals reset-head shop/orders --offset 1099511627776"
    ),
)
async def reset_head(
    name: Name,
    /,
    *,
    offset: Annotated[
        int | None, Parameter(help="Continue here, above all that may have been written.", metavar="OFFSET")
    ] = None,
    broker: AtBrokers = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> None:
    """Reopen a journal after all replicas lost its last bytes, above every earlier offset.

    Refused while a running broker still has the bytes. Registers are lost: appends that check one are refused until an
    append sets registers without a check. Publishers continue without that.
    """
    async with journals_of(session, broker, cluster) as journals:
        end = await journals.reset_head(name, offset=offset)
    session.emit({"journal": name, "end": end}, f"{name} continues at {end}; below is a gap")


@app.command(help_epilogue=examples("penstock journals explain shop/orders"))
async def explain(
    name: Name, /, *, broker: AtBrokers = (), cluster: AtFolder = CLUSTER_FOLDER, session: InSession
) -> None:
    """Explain a journal's state at each broker, and why an append waits."""
    async with journals_of(session, broker, cluster) as journals:
        found = await journals.explain(name)
    if not found:
        session.emit([], f"no broker serves {name}: the allocator has found none with room")
        return
    data: list[Any] = []
    lines: list[str] = []
    for each in found:
        if isinstance(each, PenstockError):
            data.append({"error": msgspec.to_builtins(each.to_record())})
            lines.append(f"a broker does not answer: {each}")
        else:
            data.append(msgspec.to_builtins(each))
            lines.append(f"{each.broker}{' (primary)' if each.is_primary else ''}:")
            lines.extend(f"  {line}" for line in each.lines)
    session.emit(data, *lines)


@app.command(help_epilogue=examples("penstock journals resolve shop/orders 41.1/640-812"))
async def resolve(
    name: Name,
    append: Annotated[str, Parameter(help="EPOCH/BEGIN-END, as the error printed it.", metavar="APPEND")],
    /,
    *,
    broker: AtBrokers = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    session: InSession,
) -> int:
    """Tell what became of an append whose fate was unknown: committed, aborted, pending, lost-unknown or expired."""
    epoch, begin, end = _span(append)
    async with journals_of(session, broker, cluster) as journals:
        found = await journals.resolve(name, epoch, begin, end)
    session.emit({"append": append, "resolution": found.value}, found.value)
    return 0 if found.value in ("committed", "aborted") else 1


def _span(text: str) -> tuple[PipelineEpoch, int, int]:
    epoch, _, span = text.partition("/")
    revision, _, number = epoch.partition(".")
    begin, _, end = span.partition("-")
    if not all(part.isdigit() for part in (revision, number, begin, end)):
        raise InvalidArgument(f"{text}: expected EPOCH/BEGIN-END, like 41.1/640-812")
    return PipelineEpoch(Revision(int(revision)), int(number)), int(begin), int(end)
