"""Loads are reported when they change, by primaries only, and not for every append."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.keyspace.shell.behaviours import WAIT_S

from penstock.journals.broker.load_reporter import LoadReporter, rounded
from penstock.keyspace.shell.embedded.options import EmbeddedOptions
from penstock.keyspace.shell.embedded.store import EmbeddedKeySpace
from penstock.keyspace.shell.mirror import KeySpaceMirror

ROOT = "/cluster"
MIB = 1 << 20


class Broker:
    """A reporter on a KeySpace, and its writes."""

    def __init__(self, keyspace: EmbeddedKeySpace, mirror: KeySpaceMirror) -> None:
        self.keyspace = keyspace
        self.mirror = mirror
        self.primary_of = {"a/journal", "b/journal"}
        self.deleted: set[str] = set()
        self.reporter = self.new_reporter()

    def new_reporter(self) -> LoadReporter:
        return LoadReporter(
            self.keyspace,
            ROOT,
            self.mirror.range,
            self.primary_of.__contains__,
            lambda journal: journal not in self.deleted,
            interval_s=1.0,
        )

    async def appended(self, **sizes: int) -> int:
        """An interval passes; sizes are in MiB, journals named by their first letter."""
        for letter, size in sizes.items():
            self.reporter.note(f"{letter}/journal", size * MIB)
        changed = await self.reporter.report()
        await self.mirror.wait_for_revision((await self.keyspace.status()).revision)
        return changed

    def loads(self) -> dict[str, float]:
        entries = self.mirror.range(f"{ROOT}/loads/")
        return {entry.key.rsplit("/", 2)[1]: msgspec.msgpack.decode(entry.value) / MIB for entry in entries}


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with (
        await EmbeddedKeySpace.open(tmp_path, EmbeddedOptions(poll_ms=10)) as keyspace,
        await KeySpaceMirror.start(keyspace, ROOT) as mirror,
    ):
        yield Broker(keyspace, mirror)


async def test_a_steady_rate_is_told_once(broker: Broker) -> None:
    assert [await broker.appended(a=8) for _ in range(5)] == [1, 0, 0, 0, 0]
    assert broker.loads() == {"a": 8}


async def test_noise_is_not_told(broker: Broker) -> None:
    await broker.appended(a=8)
    assert [await broker.appended(a=size) for size in (9, 7, 10, 7, 8)] == [0] * 5


async def test_a_rate_between_two_powers_is_told_once(broker: Broker) -> None:
    await broker.appended(a=11)
    assert [await broker.appended(a=size) for size in (12, 11, 13, 11, 12, 10, 13)] == [0] * 7


async def test_a_rate_which_falls_to_nothing_is_forgotten(broker: Broker) -> None:
    await broker.appended(a=8, b=1)
    told = [await broker.appended(b=1) for _ in range(40)]
    assert 3 <= sum(told) < 20
    assert broker.loads() == {"b": 1}
    assert await broker.appended(b=1) == 0


async def test_only_primaries_tell(broker: Broker) -> None:
    broker.primary_of.remove("b/journal")
    await broker.appended(a=2, b=4)
    assert broker.loads() == {"a": 2}


async def test_a_new_primary_corrects_what_the_old_one_told(broker: Broker) -> None:
    await broker.appended(a=8)
    broker.reporter = broker.new_reporter()
    await broker.appended(a=2)
    assert broker.loads() == {"a": 2}


async def test_a_new_primary_of_an_idle_journal_takes_back_what_the_old_one_told(broker: Broker) -> None:
    await broker.appended(a=8)
    broker.reporter = broker.new_reporter()
    assert await broker.appended() == 1
    assert broker.loads() == {}


async def test_what_was_told_of_a_deleted_journal_is_taken_away_by_whoever_sees_it(broker: Broker) -> None:
    await broker.appended(a=8, b=2)
    broker.primary_of.clear()
    broker.deleted.add("a/journal")
    assert await broker.appended() == 1
    assert broker.loads() == {"b": 2}


async def test_many_journals_are_told_in_several_transactions(broker: Broker) -> None:
    names = [f"{number}/journal" for number in range(300)]
    broker.primary_of.update(names)
    for name in names:
        broker.reporter.note(name, MIB)
    assert await broker.appended() == 300
    assert len(broker.loads()) == 300


async def test_it_reports_by_itself(broker: Broker) -> None:
    reporter = LoadReporter(broker.keyspace, ROOT, broker.mirror.range, lambda _: True, interval_s=0.01)
    told = asyncio.Event()
    broker.mirror.observe(lambda _: told.set())
    async with reporter.start(), asyncio.timeout(WAIT_S):
        reporter.note("a/journal", 1_000 * MIB)
        await told.wait()
    assert list(broker.loads()) == ["a"]


def test_rates_are_rounded_to_powers_of_two() -> None:
    assert [rounded(rate) for rate in (0, 1_000, 1 << 16, 3 << 20, 1e12)] == [0, 0, 1 << 16, 4 << 20, 1 << 40]
