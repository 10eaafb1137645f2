"""The clients of the journals' world: shipped clients, with the retries and time-outs that users get.

Each client process runs some writers and a reader. A writer notes each record before it sends it, and each answer.
"""

import asyncio
import contextlib
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final

from penstock.journals.client.append_service import AppendService
from penstock.journals.client.journal import Change, Journals
from penstock.journals.client.messages import MessagePublisher
from penstock.journals.records.registers import Txn
from penstock.kernel.errors import NotFound, PenstockError, Written
from penstock_lab.world.journals.ledger import JournalsLedger, SentRecord
from penstock_lab.world.process import Life

if TYPE_CHECKING:
    from penstock_lab.world.journals.site import JournalsSite

__all__ = ["client_program", "read_whole"]

MADE_MAX: Final = 6  # journals that clients create


def client_program(site: "JournalsSite", number: int) -> Callable[[Life], Any]:
    """Return the program of a client: writers of every kind, and a reader of each journal."""

    async def main(life: Life) -> None:
        rng = life.rng
        async with Journals(site.addresses(rng), ports=life.ports, direct=rng.random() < 0.3) as journals:
            work = [_appends, _transactions, _service, _messages, _turns, _creates]
            tasks = [
                asyncio.create_task(
                    work[(number + each) % len(work)](site, life, journals, f"w{number}-{each}-{life.life}"),
                    name=f"writer {number}-{each}",
                )
                for each in range(site.settings.writers)
            ]
            tasks += [
                asyncio.create_task(_reader(site, life, journals, name), name=f"reader of {name}")
                for name in site.readable()
            ]
            await asyncio.gather(*tasks)

    return main


async def _pause(site: "JournalsSite", rng: Random) -> None:
    await asyncio.sleep(rng.uniform(0, 2 * site.settings.pause_s))


async def _appends(site: "JournalsSite", life: Life, journals: Journals, name: str) -> None:
    """Appends without a number: one that was not answered is left alone."""
    rng = life.rng
    while not site.is_written:
        sent = site.record(rng)
        with _told(site.ledger, life, [sent]) as told:
            done = await journals.append(sent.journal, sent.content, timeout=rng.choice(site.settings.timeouts_s))
            told(done.begin, done.end)
        if sent.fate == "acknowledged" and rng.random() < 0.2:
            await _read_back(site, life, journals, sent)
        await _pause(site, rng)


async def _read_back(site: "JournalsSite", life: Life, journals: Journals, sent: SentRecord) -> None:
    """A client reads its own appends, whichever replica it asks."""
    content = bytearray()
    try:
        async with asyncio.timeout(5.0):
            async for chunk in journals.read(sent.journal, sent.begin, end=sent.end):
                content += chunk.content
    except (PenstockError, TimeoutError):
        return
    if content != sent.content and sent.journal not in {*site.deleted, *site.excused}:
        site.world.fail(
            f"E1: {life.name} reads {bytes(content)[:60]!r} at its own record {sent.number} of {sent.journal}"
        )


async def _turns(site: "JournalsSite", life: Life, journals: Journals, name: str) -> None:
    """Conditional appends: of all writers one takes each turn, and one offset is the end of the journal once."""
    rng = life.rng
    while not site.is_written:
        sent = site.record(rng)
        turn, by_offset = site.turns.get(sent.journal, 0), rng.random() < 0.3
        how: dict[str, Any] = {"offset": site.ends.get(sent.journal, 0)} if by_offset else _taking(turn)
        with _told(site.ledger, life, [sent]) as told:
            timeout = rng.choice(site.settings.timeouts_s)
            done = await journals.append(sent.journal, sent.content, timeout=timeout, **how)
            told(done.begin, done.end)
            if by_offset and done.begin != how["offset"]:
                site.world.fail(f"E2: record {sent.number} was for offset {how['offset']}, and is at {done.begin}")
            if not by_offset:
                site.took(sent, turn)
            site.ends[sent.journal] = max(site.ends.get(sent.journal, 0), done.end)
        if sent.fate == "unknown" and not by_offset:
            await _learn_turn(site, journals, sent.journal)
        await _pause(site, rng)


def _taking(turn: int) -> dict[str, Any]:
    before = f"turn=t{turn}" if turn else "!turn"
    return {"check": before, "union": {"turn": f"t{turn + 1}"}, "subtract": {"turn": f"t{turn}"} if turn else ()}


async def _learn_turn(site: "JournalsSite", journals: Journals, journal: str) -> None:
    """Ask an append without content whose turn it is."""
    try:
        done = await journals.append(journal, b"", timeout=5.0, check="!no-such-register", union={"seen": "yes"})
    except PenstockError:
        return
    value = done.registers.labels.value_of("turn")
    if value:
        site.turns[journal] = max(site.turns.get(journal, 0), int(value[1:]))


async def _creates(site: "JournalsSite", life: Life, journals: Journals, name: str) -> None:
    """Journals that are made, and have an append at once. Some are deleted again."""
    rng = life.rng
    while not site.is_written and len(site.made) < MADE_MAX:
        journal = f"made/{name}-{len(site.made)}"
        site.made.append(journal)
        try:
            await journals.create(site.spec(journal))
        except PenstockError:
            site.deleted.add(journal)  # it may exist, or appear later
            continue
        sent = site.record(rng, journal)
        with _told(site.ledger, life, [sent]) as told:
            try:
                done = await journals.append(journal, sent.content, timeout=10.0)
                told(done.begin, done.end)
            except NotFound:
                site.world.fail(f"E4: {life.name} created {journal}, and the answer is that it does not exist")
        await _pause(site, rng)
        if rng.random() < 0.4:
            site.deleted.add(journal)
            with contextlib.suppress(PenstockError):
                await journals.apply([Change(delete=journal)])


async def _transactions(site: "JournalsSite", life: Life, journals: Journals, name: str) -> None:
    """Appends with a number: one whose outcome is unknown is sent again until it is known."""
    rng, seq = life.rng, 0
    while not site.is_written:
        sent = site.record(rng)
        seq += 1
        while sent.fate in ("open", "unknown") and not site.is_over:
            with _told(site.ledger, life, [sent]) as told:
                done = await journals.append(
                    sent.journal, sent.content, txn=Txn(f"{name}", seq), timeout=rng.choice(site.settings.timeouts_s)
                )
                told(done.begin, done.end)
        await _pause(site, rng)


async def _service(site: "JournalsSite", life: Life, journals: Journals, name: str) -> None:
    rng = life.rng
    memory = rng.choice((2_000, 16 << 20))
    service = AppendService(
        journals,
        writer=name,
        batch_bytes=min(memory, rng.choice((1_000, 1 << 20))),
        memory_bytes_max=memory,
        attempt_s=5.0,
    )
    try:
        while not site.is_written:
            await service.wait_for_room()
            for _ in range(rng.randint(1, 5)):
                if not service.is_full:
                    sent = site.record(rng)
                    service.put(sent.journal, sent.content).add_done_callback(_settled(site.ledger, life, sent))
            await _pause(site, rng)
        await asyncio.wait_for(service.flush(), site.settings.calm_s)
    finally:
        await service.close()


async def _messages(site: "JournalsSite", life: Life, journals: Journals, name: str) -> None:
    """Messages of a publisher: each is in its journal once."""
    rng, ledger = life.rng, site.ledger
    async with MessagePublisher(journals) as publish:
        while not site.is_written:
            number = len(ledger.published)
            ledger.published[number] = "open"
            try:
                await publish(site.messages, {"number": number, "by": name})
                ledger.published[number] = "acknowledged"
            except PenstockError as error:
                ledger.published[number] = "refused" if error.written is Written.NO else "unknown"
            await _pause(site, rng)


def _settled(ledger: JournalsLedger, life: Life, sent: SentRecord) -> Callable[["asyncio.Future[Any]"], None]:
    def settle(future: "asyncio.Future[Any]") -> None:
        with _told(ledger, life, [sent]) as told:
            done = future.result()
            told(done.begin, done.end)

    return settle


class _told:
    """Note the answer to records: an offset, or the error."""

    def __init__(self, ledger: JournalsLedger, life: Life, sent: list[SentRecord]) -> None:
        self._ledger = ledger
        self._life = life
        self._sent = sent

    def __enter__(self) -> Callable[[int, int], None]:
        return self._acknowledged

    def _acknowledged(self, begin: int, end: int) -> None:
        for sent in self._sent:
            self._life.note("client", f"acknowledged {sent.number} at {begin}")
            self._ledger.acknowledged(sent, begin, end, self._life.world.now_ns)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        if not isinstance(error, PenstockError):
            return False
        for sent in self._sent:
            self._life.note("client", f"told of {sent.number}: {error.code} {error.written.value}")
            self._life.world.tell(self._life.name, f"client   {error}")
            self._ledger.failed(sent, error, self._life.world.now_ns)
        return True


async def _reader(site: "JournalsSite", life: Life, journals: Journals, journal: str) -> None:
    """Follows a journal, from its begin or from where it is."""
    at, rng = (0 if life.rng.random() < 0.7 else -1), life.rng
    while not site.is_over:
        try:
            async with asyncio.timeout(rng.uniform(0.5, 5.0)):
                async for chunk in journals.read(journal, at, follow=rng.random() < 0.7):
                    site.shown(journal, chunk.offset, bytes(chunk.content))
                    at = chunk.end
        except (PenstockError, TimeoutError):
            pass
        await asyncio.sleep(rng.uniform(0, 0.5))


async def read_whole(journals: Journals, journal: str) -> bytes:
    """Read all of a journal. Offsets that nothing covers are zeros."""
    content = bytearray()
    async for chunk in journals.read(journal, 0):
        if chunk.offset > len(content):
            content.extend(bytes(chunk.offset - len(content)))
        content[chunk.offset : chunk.end] = chunk.content
    return bytes(content)
