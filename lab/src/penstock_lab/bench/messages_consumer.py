"""How long does a message take through one consumer, and how many can be published and consumed a second?

A message is published; a shard consumes it, changes its store, publishes another one; who reads committed messages gets
that. The time is from before the first append to when the last message is in hand: two appends, a commit of the store
and an ACK lie between. One message is on its way at a time. The floor: one append, read by a follower of the journal.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

import apsw

from penstock.consumers.core.shard import ShardSpec
from penstock.consumers.core.stat import Stat
from penstock.consumers.core.store import Store
from penstock.consumers.stores.application import Publish, application_of
from penstock.consumers.stores.json_file_store import JsonFileStore
from penstock.consumers.stores.sql_store import SqlStore
from penstock.consumers.stores.sqlite_store import SqliteStore
from penstock.consumers.worker.shard_host import ShardHost
from penstock.journals.client.messages import JSON, Message, MessagePublisher, read_committed
from penstock.kernel.ids import Offset
from penstock_lab.bench.messages_site import MessageSite
from penstock_lab.bench.report import Options, RowRecorder

__all__ = ["SIDES", "run"]

FLOOR: Final = "one append, no consumer"
SIDES: Final = ("SqliteStore", "JsonFileStore", "SqlStore on SQLite")
BATCH: Final = 500  # messages to a publish, where throughput is measured


async def run(recorder: RowRecorder, options: Options, site: MessageSite) -> None:
    """Latency and throughput, by store."""
    count = 20 if options.quick else 300
    await _publishing(recorder, options, site)
    recorder.progress("one append, one reader")
    times = {FLOOR: await _floor(site, count)}
    for number, side in enumerate(SIDES):
        recorder.progress(f"messages through one consumer: {side}")
        async with _Shard(site, number) as shard:
            times[side] = await shard.latencies(count)
            rate = await shard.rate(2_000 if options.quick else 20_000)
        recorder.row("consumed and published again", side, rate, "messages/s", replicas=site.brokers)
    for side, found in times.items():
        found.sort()
        for name, part in (("p50", 0.50), ("p99", 0.99)):
            latency = found[min(len(found) - 1, int(part * len(found)))] * 1e3
            what = f"end to end through one consumer: {name}"
            recorder.row(what, side, latency, "ms", messages=count, replicas=site.brokers)


async def _publishing(recorder: RowRecorder, options: Options, site: MessageSite) -> None:
    """Into a journal, acknowledged by every replica."""
    recorder.progress("publishing to brokers")
    await site.create("bench/publish", replication=site.brokers)
    count = 2_000 if options.quick else 40_000
    rates = []
    for _ in range(options.repeats):
        began = time.perf_counter()
        await _publish(site, "bench/publish", range(count))
        rates.append(count / (time.perf_counter() - began))
    rate = sorted(rates)[len(rates) // 2]
    recorder.row("publishing JSON to brokers", "penstock", rate, "messages/s", replicas=site.brokers, batch=BATCH)


async def _publish(site: MessageSite, journal: str, numbers: Sequence[int]) -> Offset:
    """Publish all of them, in batches; return the journal's end."""
    async with MessagePublisher(site.journals) as publish:
        waiting = [
            await publish.put(journal, [{"n": n, "account": "account-00017"} for n in numbers[begin : begin + BATCH]])
            for begin in range(0, len(numbers), BATCH)
        ]
        return [(await each).end for each in waiting][-1]


async def _floor(site: MessageSite, count: int) -> list[float]:
    await site.create("bench/floor", replication=site.brokers)
    async with MessagePublisher(site.journals) as publish:
        reading = read_committed(site.journals, "bench/floor", follow=True)
        times = [await _round(publish, "bench/floor", reading, number) for number in range(count)]
        await reading.aclose()  # type: ignore[attr-defined]
    return times


async def _round(publish: MessagePublisher, journal: str, reading: AsyncIterator[Message], n: int) -> float:
    began = time.perf_counter()
    seen = asyncio.ensure_future(_next(reading))
    await publish(journal, {"n": n})
    assert (await seen).value["n"] == n
    return time.perf_counter() - began


async def _next(reading: AsyncIterator[Message]) -> Message:
    return await anext(reading)


# A shard


def _to_sqlite(message: Message, store: apsw.Connection, publish: Publish, out: str) -> None:
    value = message.value
    store.execute("INSERT OR REPLACE INTO seen VALUES (?, ?)", (value["n"] % 1_000, value["n"]))
    publish(out, {"n": value["n"]})


def _to_json(message: Message, store: dict[str, int], publish: Publish, out: str) -> None:
    value = message.value
    store[str(value["n"] % 1_000)] = value["n"]
    publish(out, {"n": value["n"]})


def _to_sql(message: Message, store: Any, publish: Publish, out: str) -> None:
    value = message.value
    store.exec_driver_sql("INSERT OR REPLACE INTO seen VALUES (?, ?)", (value["n"] % 1_000, value["n"]))
    publish(out, {"n": value["n"]})


_TABLE: Final = "CREATE TABLE IF NOT EXISTS seen (id INTEGER PRIMARY KEY, n INTEGER)"
Consume = Callable[[Message, Any, Publish, str], None]


def _kind(site: MessageSite, number: int, log: str) -> tuple[Consume, Callable[[], Store[Any]]]:
    match SIDES[number]:
        case "SqliteStore":
            return _to_sqlite, lambda: SqliteStore(site.recovery_log("bench-0", log), setup=_make_table)
        case "JsonFileStore":
            return _to_json, lambda: JsonFileStore(site.recovery_log("bench-1", log), dict[str, int])
        case _:
            url = f"sqlite:///{site.folder}/sql.db"
            return _to_sql, lambda: SqlStore(url, "bench-2", setup=lambda each: each.exec_driver_sql(_TABLE).close())


def _make_table(connection: apsw.Connection) -> None:
    connection.execute(_TABLE)


class _Shard:
    """A shard at work, on journals of its own."""

    def __init__(self, site: MessageSite, number: int) -> None:
        self._site = site
        self._in, self._out, log = (f"bench/{name}-{number}" for name in ("in", "out", "recovery"))
        self._log = log
        consume, self._open = _kind(site, number, log)
        out = self._out
        application = application_of(
            lambda message, store, publish: consume(message, store, publish, out), store=lambda _: self._open()
        )
        self._host = ShardHost(ShardSpec(f"bench-{number}", {self._in: JSON}), application, site.journals)

    async def __aenter__(self) -> "_Shard":
        for name in (self._in, self._out, self._log):
            await self._site.create(name, replication=self._site.brokers)
        await self._host.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._host.__aexit__(*error)

    async def latencies(self, count: int) -> list[float]:
        async with MessagePublisher(self._site.journals) as publish:
            reading = read_committed(self._site.journals, self._out, follow=True)
            await _round(publish, self._in, reading, 0)  # until everything is open
            times = [await _round(publish, self._in, reading, n) for n in range(1, count + 1)]
            await reading.aclose()  # type: ignore[attr-defined]
        return times

    async def rate(self, count: int) -> float:
        """Messages a second, from the first published to the last in full effect."""
        began = time.perf_counter()
        end = await _publish(self._site, self._in, range(1_000_000, 1_000_000 + count))
        await self._host.stat(Stat({self._in: end}), timeout=300.0)
        return count / (time.perf_counter() - began)
