"""A client of journals.

    async with Journals(["127.0.0.1:7201"]) as journals:
        await journals.apply([Change(upsert=JournalSpec(name="shop/orders"))])
        done = await journals.append("shop/orders", b"...")  # on every replica; or an error with the outcome
        async for chunk in journals.read("shop/orders", 0, follow=True):
            print(chunk.offset, chunk.content)

It finds the primary, follows it, and repeats only safe requests: an append that was definitely not done, or
one with a transaction id, which takes effect once. Every error says whether anything was written.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from hashlib import sha1
from types import TracebackType
from typing import Final

import msgspec

from penstock.journals.client.asking import SILENT_S, first_answer
from penstock.journals.client.journal_appends import AppendStream, Lost
from penstock.journals.client.journal_content import Source, begin_append, is_begun_whole, send_unless_answered
from penstock.journals.client.journal_outcomes import RETRYABLE, Appended, error_of, lost_error
from penstock.journals.client.journal_reads import Chunk, JournalReads, checked_query
from penstock.journals.records.api import AppendResponse, Fate, Resolution, Status
from penstock.journals.records.epoch import NO_EPOCH, PipelineEpoch
from penstock.journals.records.fragment import OFFSET_MAX
from penstock.journals.records.labels import Label, LabelSelector, LabelSet
from penstock.journals.records.names import check_journal_name
from penstock.journals.records.protocol import (
    APPLY,
    EXPLAIN,
    LIST,
    PRUNE,
    RESET_HEAD,
    RESOLVE,
    AppendWish,
    Applied,
    Apply,
    Change,
    Explained,
    Fragments,
    JournalInfo,
    JournalQuery,
    Listing,
    ListQuery,
    ReadHeader,
    Resolved,
    ResolveQuery,
)
from penstock.journals.records.registers import RegisterChange, Txn
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.backoff import Backoff
from penstock.kernel.codec import Codec
from penstock.kernel.errors import (
    Indeterminate,
    InvalidArgument,
    NotFound,
    PenstockError,
    PreconditionFailed,
    Unavailable,
    WriterExpired,
    Written,
)
from penstock.kernel.ids import Offset, Revision
from penstock.keyspace.core.records import NO_REVISION
from penstock.plumbing.ports.ports import Ports, system_ports
from penstock.plumbing.wire.client import Channel
from penstock.plumbing.wire.limits import WireLimits
from penstock.plumbing.wire.tls import Tls

__all__ = ["Appended", "Change", "Chunk", "Journals"]

RETRY_S: Final = (0.02, 0.5)
LISTING_S: Final = 2.0  # a broker with many journals needs a while
OPEN_S: Final = 0.5  # then the others are asked who the primary is; the connection is made meanwhile
LIMITS: Final = WireLimits(frame_bytes_max=8 << 20, stream_window_bytes=8 << 20, keepalive_ms=2_000, pong_ms=3_000)
START: Final = Offset(0)
TIMEOUT_S_MAX: Final = 7 * 86_400
Infos = list[JournalInfo]  # under another name, since `Journals.list` is a method
Explanations = list[Explained | PenstockError]
_encode = msgspec.msgpack.Encoder().encode
_LISTING = Codec[Listing](Listing)
_APPLIED = Codec[Applied](Applied)
_FRAGMENTS = Codec[Fragments](Fragments)
_RESOLVED = Codec[Resolved](Resolved)
_RESPONSE = Codec[AppendResponse](AppendResponse)
_EXPLAINED = Codec[Explained](Explained)
COMMITTED: Final = Fate.COMMITTED


class Journals:
    """Journals, seen by one client. Use it as an async context manager."""

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        token: str | None = None,
        tls: Tls | None = None,
        limits: WireLimits | None = None,
        direct: bool = False,
        ports: Ports | None = None,
    ) -> None:
        """`direct`: fragments which are in a store are read from there, with this process's own credentials.
        `ports`: the clock, the disk and the randomness of the client. The default is this machine.
        """
        if not addresses:
            raise InvalidArgument("give the address of at least one broker, like 127.0.0.1:7201")
        self._addresses = list(addresses)
        self._token = token
        self._tls = tls
        self._limits = limits or LIMITS
        self.ports = ports or system_ports()
        self._random = self.ports.chance.generator()
        self._channels: dict[str, Channel] = {}
        self._streams: dict[str, AppendStream] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._in_line: dict[str, int] = {}  # appends that wait for their stream, or for room on it
        self._primaries: dict[str, str] = {}
        self._doubted: dict[AppendStream, asyncio.Task[None]] = {}  # streams whose broker is silent
        self._broker_count = 0
        self._revision = NO_REVISION  # of the last change of a spec that we know of: a broker may not have it yet
        self._reads = JournalReads(
            self._channel, self._serving, self._pause_s, lambda: self._revision, self.ports, is_direct=direct
        )

    async def __aenter__(self) -> "Journals":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        for task in list(self._doubted.values()):
            task.cancel()
        for stream in self._streams.values():
            stream.close()
        self._streams.clear()
        await self._reads.close()
        channels, self._channels = list(self._channels.values()), {}
        await asyncio.gather(*(channel.close() for channel in channels))

    # appending

    async def append(
        self,
        journal: str,
        content: Source,
        *,
        offset: Offset | None = None,
        check: str | LabelSelector = "",
        union: Iterable[Label] | dict[str, str] = (),
        subtract: Iterable[Label] | dict[str, str] = (),
        txn: Txn | None = None,
        timeout: float = 10.0,
    ) -> Appended:
        """Append all of the content, or nothing; return when it is on every replica.

        `content` may be a buffer, or a (async) iterable of buffers of any length together: it is streamed, and nothing
        of it is visible before its end. `offset`: only if the journal ends there. `check`: only if the registers
        match; `union` and `subtract` change them together with the content. With `txn`, a writer's own number for this
        append, it takes effect once however often it is sent.
        """
        if journal not in self._opening:  # which has only names that were checked
            check_journal_name(journal)
        if not 0 < timeout <= TIMEOUT_S_MAX:
            raise InvalidArgument(f"timeout {timeout}: expected a time above 0 s, and at most {TIMEOUT_S_MAX} s")
        if offset is not None and not 0 <= offset <= OFFSET_MAX:
            raise InvalidArgument(f"offset {offset}: expected 0 to {OFFSET_MAX}")
        if txn is not None:
            txn.validate()
        timeout_ms = max(1, int(timeout * 1_000))
        wish = AppendWish(timeout_ms, offset, txn=txn)
        if check or union or subtract:
            selector = LabelSelector.parse(check) if isinstance(check, str) else check
            change = RegisterChange(LabelSet.of(union), LabelSet.of(subtract))
            change.validate()
            wish = AppendWish(timeout_ms, offset, selector, change, txn)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        is_repeatable = isinstance(content, bytes | bytearray | memoryview)
        attempt, is_doubtful = 0, False
        while True:
            left_s = deadline - loop.time()
            error = await self._try(journal, content, wish, max(0.001, left_s))
            if isinstance(error, Appended):
                self._reads.has_appended(journal, error.end)
                return error
            is_doubtful = is_doubtful or isinstance(error, Indeterminate)
            if isinstance(error, NotFound):
                self._reads.forget(journal)
            attempt += 1
            pause_s = self._pause_s(attempt)
            may_retry = txn is not None if isinstance(error, Indeterminate) else error.retryable
            if not (may_retry and is_repeatable) or loop.time() + pause_s >= deadline:
                raise _with_doubt(error) if is_doubtful else error
            await asyncio.sleep(pause_s)
            wish = msgspec.structs.replace(wish, timeout_ms=max(1, int((deadline - loop.time()) * 1_000)))

    async def _try(self, journal: str, content: Source, wish: AppendWish, left_s: float) -> Appended | PenstockError:
        """Try once; return the outcome, or the error."""
        stream = self._streams.get(journal)
        if stream is None or stream.is_over or stream.is_full or journal in self._in_line:
            try:
                stream, number = await self._begin_in_line(journal, content, wish, left_s)
            except PenstockError as error:
                return error
        else:
            number = begin_append(stream, content, wish)
        try:
            if not is_begun_whole(content):
                await send_unless_answered(stream, number, content, wish)
            # The broker keeps the deadline, and knows more.
            answered = await stream.answered_within(number, left_s + 1.0, is_repeatable=wish.txn is not None)
        except Lost as lost:
            stream.forget(number)
            self._leave(journal, stream, "")  # it may be frozen: do not wait for its connection to be given up
            return lost_error(journal, lost, wish.txn)
        except BaseException:
            stream.forget(number)
            raise
        stream.forget(number)
        response = answered.response
        if response.fate is COMMITTED:
            return Appended.of(journal, response) if _is_same(content, response) else _another(journal, wish.txn)
        if response.status is Status.NOT_JOURNAL_PRIMARY_BROKER or response.status in RETRYABLE:
            self._leave(journal, stream, answered.primary)
        return error_of(journal, response, wish.txn)

    async def _begin_in_line(
        self, journal: str, content: Source, wish: AppendWish, left_s: float
    ) -> tuple[AppendStream, int]:
        """Begin an append behind those that wait for a stream, or for room: they leave in the order of the calls."""
        self._in_line[journal] = self._in_line.get(journal, 0) + 1
        try:
            async with asyncio.timeout(left_s), self._opening.setdefault(journal, asyncio.Lock()):
                while (stream := await self._stream(journal, left_s)).is_full:
                    await stream.wait_for_room()
                return stream, begin_append(stream, content, wish)
        except TimeoutError:
            raise Unavailable(f"{journal}: no broker took the append in time; nothing was written") from None
        finally:
            self._in_line[journal] -= 1
            if not self._in_line[journal]:
                del self._in_line[journal]

    async def _stream(self, journal: str, left_s: float) -> AppendStream:
        """Open an append stream to the primary that this client knows of. The caller is the first in line."""
        stream = self._streams.get(journal)
        if stream is not None and not stream.is_over:
            return stream
        address = self._primaries.get(journal) or await self._primary(journal, left_s)
        self._primaries[journal] = address
        try:
            stream = await AppendStream.open(
                self._channel(address),
                journal,
                timeout_s=min(left_s, OPEN_S),
                min_revision=self._revision,
                on_silent=self._on_silent,
            )
        except (PenstockError, TimeoutError) as error:
            self._primaries.pop(journal, None)
            if isinstance(error, TimeoutError):
                raise Unavailable(f"{address} does not answer") from None
            raise
        self._streams[journal] = stream
        return stream

    async def _primary(self, journal: str, left_s: float) -> str:
        primary = (await self._journal(journal, timeout=left_s)).primary
        if primary is None or not primary.address:
            raise Unavailable(
                f"no broker is the primary of {journal} now", next_step=f"penstock journals explain {journal}"
            )
        return primary.address

    def _leave(self, journal: str, stream: AppendStream, primary: str) -> None:
        """That broker is not the primary, or cannot be one now: ask again who is."""
        self._primaries.pop(journal, None)
        if primary:
            self._primaries[journal] = primary
        if primary != stream.address and self._streams.get(journal) is stream:
            del self._streams[journal]
            stream.retire()  # appends on it still get their answers

    def _on_silent(self, stream: AppendStream) -> None:
        """The primary answers nothing: ask the others whether there is another one by now."""
        if stream not in self._doubted:
            task = asyncio.get_running_loop().create_task(
                self._doubt(stream), name=f"{stream.journal}: a silent primary"
            )
            self._doubted[stream] = task
            task.add_done_callback(lambda _: self._doubted.pop(stream, None))

    async def _doubt(self, stream: AppendStream) -> None:
        try:
            primary = (await self._journal(stream.journal, timeout=1.0, without=stream.address)).primary
        except PenstockError:
            return  # it is asked again while the primary is silent
        if primary is not None and primary.address not in ("", stream.address):
            self._leave(stream.journal, stream, primary.address)
            stream.supersede(primary.address)

    def _pause_s(self, attempt: int) -> float:
        least, most = RETRY_S
        return self._random.uniform(0.5, 1.0) * min(most, least * float(1 << min(attempt, 10)))

    # reading

    async def read(
        self,
        journal: str,
        offset: int = START,
        *,
        end: int = START,
        follow: bool = False,
        begin_mod_time: int = 0,
        address: str | None = None,
    ) -> AsyncIterator[Chunk]:
        """Content from an offset on; -1 is where the journal ends now. Any replica serves it.

        It ends at `end`, or at the present end of the journal; with `follow` it continues as more is appended.
        `begin_mod_time` skips fragments which were stored before that unix time. With an `address` only that broker is
        asked. A client reads its own appends: if a replica has not learned of their commit yet, the read waits.
        """
        query = checked_query(journal, offset, end, follow=follow, begin_mod_time=begin_mod_time)
        async for chunk in self._reads.read(query, address):
            yield chunk

    async def stat(self, journal: str, offset: int = -1, *, address: str | None = None) -> ReadHeader:
        """Return the header that a read at an offset would begin with: the Fragment, and how far the journal
        has come.
        """
        checked_query(journal, offset, START, follow=False, begin_mod_time=0)
        return await self._reads.stat(journal, offset, address)

    async def _serving(self, journal: str, avoid: frozenset[str] = frozenset()) -> str:
        """Any broker which serves the journal; another each time, so that a bad one is not asked for ever. Empty if
        only those to `avoid` serve it.
        """
        found = await self._journal(journal)
        addresses = [each.address for each in found.brokers if each.address]
        if not addresses:
            raise Unavailable(f"no broker serves {journal} now", next_step=f"penstock journals explain {journal}")
        left = [each for each in addresses if each not in avoid]
        return self._random.choice(left) if left else ""

    # journals

    async def list(self, selector: str | LabelSelector = "", *, timeout: float = 10.0) -> Infos:
        """The journals which fit a selector, like `name:prefix=shop/, region in (eu, us)`."""
        return await self._listed(selector, timeout=timeout, silent_s=LISTING_S)

    async def _listed(
        self,
        selector: str | LabelSelector,
        *,
        timeout: float = 10.0,
        silent_s: float = SILENT_S,
        without: str = "",
    ) -> Infos:
        """Ask broker after broker, `without` that one, until one has listed its journals."""

        async def ask(address: str) -> Infos:
            async for journals in self._listings(selector, [address], watches=False, timeout=timeout):
                return journals
            raise Unavailable(f"{address} listed no journals")

        addresses = [each for each in self._addresses if each != without]
        address, found = await first_answer(addresses, ask, silent_s=silent_s)
        if address in self._addresses:  # it is asked first from now on
            self._addresses.remove(address)
            self._addresses.insert(0, address)
        return found

    async def _journal(self, journal: str, *, timeout: float = 10.0, without: str = "") -> JournalInfo:
        selector = LabelSelector(LabelSet.of({"name": journal}))
        found = await self._listed(selector, timeout=timeout, without=without)
        if not found:
            raise NotFound(f"there is no journal {journal!r}", next_step="penstock journals list")
        return found[0]

    async def count_brokers(self) -> int:
        """Return how many brokers run; 0 if the asked broker is of an older release, which does not say."""
        await self.list(LabelSelector(LabelSet.of({"name": "none/of/this/name"})))
        return self._broker_count

    async def watch(self, selector: str | LabelSelector = "") -> AsyncIterator[Infos]:
        """The same, and again after every change."""
        attempt = 0
        while True:
            try:
                async for journals in self._listings(selector, list(self._addresses), watches=True, timeout=10.0):
                    attempt = 0
                    yield journals
            except (Unavailable, Indeterminate):
                attempt += 1
                await asyncio.sleep(self._pause_s(attempt))

    async def _listings(
        self, selector: str | LabelSelector, addresses: Sequence[str], *, watches: bool, timeout: float
    ) -> AsyncIterator[Infos]:
        chosen = LabelSelector.parse(selector) if isinstance(selector, str) else selector
        body = _encode(ListQuery(chosen, watches, self._revision))
        last: PenstockError = Unavailable("no broker was asked")
        for address in addresses:
            found: Infos = []
            deadline_s = None if watches else timeout
            try:
                async with self._channel(address).stream(LIST, body, deadline_s=deadline_s, is_read_only=True) as parts:
                    async for message in parts:
                        listing = _LISTING.decode(message.body)
                        found.extend(listing.journals)
                        self._broker_count = listing.brokers
                        if listing.is_last:
                            self._learn(found)
                            yield found
                            found = []
                    return
            except (Unavailable, Indeterminate) as error:
                last = error
        raise last

    def _learn(self, journals: Sequence[JournalInfo]) -> None:
        """Brokers we did not know: any of them can answer later. And what all of them are to know by then."""
        for journal in journals:
            self._revision = max(self._revision, journal.mod_revision)
            for broker in journal.brokers:
                if broker.address and broker.address not in self._addresses and len(self._addresses) < 64:
                    self._addresses.append(broker.address)

    async def apply(self, changes: Sequence[Change], *, timeout: float = 10.0) -> Revision:
        """Put or delete specs: all of them, or none."""
        for change in changes:
            if not -1 <= change.expect_mod_revision <= OFFSET_MAX:
                raise InvalidArgument(f"revision {change.expect_mod_revision}: expected 0 and more, or -1 for any")
            if change.upsert is not None:
                change.upsert.validate()
        body = _encode(Apply(tuple(changes)))
        revision = _APPLIED.decode(await self._call(APPLY, body, timeout)).revision
        self._revision = max(self._revision, revision)
        return revision

    async def create(self, *specs: JournalSpec) -> Revision:
        """Create journals that do not exist yet."""
        return await self.apply([Change(upsert=spec, expect_mod_revision=0) for spec in specs])

    async def fragments(self, journal: str, *, timeout: float = 10.0) -> Fragments:
        """The fragments of a journal, as one of its brokers knows them. What this client has appended is among them."""
        check_journal_name(journal)
        return await self._reads.fragments(journal, timeout)

    async def prune(self, journal: str, *, timeout: float = 60.0) -> Fragments:
        """Delete the fragments that retention allows to go, or that larger ones cover; return them."""
        address = await self._primary(journal, timeout)
        return _FRAGMENTS.decode(await self._call(PRUNE, self._query(journal, timeout), timeout, address))

    async def resolve(
        self, journal: str, epoch: PipelineEpoch, begin: int, end: int, *, timeout: float = 10.0
    ) -> Resolution:
        """Return the outcome of an append whose error said unknown. PENDING only if it is open after `timeout`."""
        check_journal_name(journal)
        if (
            not 0 <= begin <= end <= OFFSET_MAX
            or not 0 <= epoch.revision <= OFFSET_MAX
            or not 0 <= epoch.n <= OFFSET_MAX
        ):
            raise InvalidArgument(f"{epoch}/{begin}-{end}: expected EPOCH/BEGIN-END, as the append's error said it")
        body = _encode(ResolveQuery(journal, epoch, Offset(begin), Offset(end)))
        loop = asyncio.get_running_loop()
        deadline, attempt = loop.time() + timeout, 0
        while True:
            found: Resolution | PenstockError
            try:
                left_s = max(0.1, deadline - loop.time())
                found = _RESOLVED.decode(await self._call(RESOLVE, body, left_s, is_question=True)).resolution
            except (Unavailable, Indeterminate) as error:
                found = error
            attempt += 1
            pause_s = self._pause_s(attempt)
            if isinstance(found, Resolution) and found is not Resolution.PENDING:
                return found
            if loop.time() + pause_s >= deadline:
                if isinstance(found, PenstockError):
                    raise found
                return found
            await asyncio.sleep(pause_s)

    async def reset_head(self, journal: str, *, offset: int | None = None, timeout: float = 30.0) -> Offset:
        """Reopen a journal whose last bytes are lost for good, above every earlier offset.

        `offset` says where, above everything that may have been written.
        """
        if offset is not None and not 0 <= offset <= OFFSET_MAX:
            raise InvalidArgument(f"offset {offset}: expected 0 to {OFFSET_MAX}")
        address = await self._primary(journal, timeout)
        body = self._query(journal, timeout, offset)
        response = _RESPONSE.decode(await self._call(RESET_HEAD, body, timeout + 1.0, address))
        if response.fate is not Fate.COMMITTED or response.end is None:
            raise error_of(journal, response, None)
        return response.end

    async def explain(self, journal: str, *, timeout: float = 5.0) -> Explanations:
        """Explain the journal's state at each of its brokers, in words."""
        found = await self._journal(journal)
        body = self._query(journal, timeout)

        async def ask(address: str) -> Explained | PenstockError:
            try:
                return _EXPLAINED.decode(await self._call(EXPLAIN, body, timeout, address))
            except PenstockError as error:
                return error

        return list(await asyncio.gather(*(ask(each.address) for each in found.brokers if each.address)))

    # plumbing

    def _query(self, journal: str, timeout: float, offset: int | None = None) -> bytes:
        at = None if offset is None else Offset(offset)
        return _encode(JournalQuery(journal, int(timeout * 1_000), self._revision, offset=at))

    def _channel(self, address: str) -> Channel:
        if address not in self._channels:
            backoff = Backoff(self._random, base_ms=20.0, pause_ms_max=300.0)
            self._channels[address] = Channel(
                address,
                token=self._token,
                tls=self._tls,
                limits=self._limits,
                backoff=backoff,
                deadline_s=5.0,
                ports=self.ports,
            )
        return self._channels[address]

    async def _call(
        self, method: str, body: bytes, timeout: float, address: str | None = None, *, is_question: bool = False
    ) -> bytes:
        """Ask one broker, or all we know one after the other until one answers.

        A question changes nothing: if a broker is lost before it answers, the next one is asked.
        """
        last: PenstockError = Unavailable("no broker was asked")
        for each in [address] if address is not None else list(self._addresses):
            try:
                return (await self._channel(each).call(method, body, deadline_s=timeout)).body
            except Unavailable as error:
                last = error
            except Indeterminate as error:
                if not is_question:
                    raise
                last = error
        raise last


def _is_same(content: Source, response: AppendResponse) -> bool:
    """Return whether what the journal has under this transaction is this content.

    An answer without an epoch is one to a repeat: the journal had the transaction before.
    """
    commit = response.commit
    is_known = isinstance(content, bytes | bytearray | memoryview) and len(content) > 0
    if response.epoch != NO_EPOCH or commit is None or not is_known:
        return True  # an append without content asks what the journal has
    return commit.sum == sha1(content, usedforsecurity=False).digest()  # type: ignore[arg-type]


def _with_doubt(error: PenstockError) -> PenstockError:
    """Return the error of an append that was sent before, without an answer."""
    if isinstance(error, WriterExpired):
        error.written = Written.UNKNOWN
    return error


def _another(journal: str, txn: Txn | None) -> PenstockError:
    named = f"{txn.writer}/{txn.seq}" if txn is not None else "it"
    return PreconditionFailed(
        f"{journal} has other content under the transaction {named}; nothing was written",
        next_step="give each append its own number",
    )
