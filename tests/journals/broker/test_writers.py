"""Writers of one journal: their registers have a bound, and no append takes effect twice."""

import asyncio
import sys
from pathlib import Path

import pytest
from tests.journals.broker.cluster import WAIT_S, running_cluster

from penstock.journals.broker import sessions
from penstock.journals.broker.links import replicate_messages
from penstock.journals.client.append_service import AppendService
from penstock.journals.client.journal import Journals
from penstock.journals.core import append_fsm, lead
from penstock.journals.records.labels import LabelSet
from penstock.journals.records.registers import TIMES_FROM, WRITERS_MAX, RegisterChange, Txn, writers_of
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import LimitExceeded, PenstockError, PreconditionFailed, WriterExpired, Written
from penstock.plumbing.ports.ports import SystemClocks

JOURNAL = "shop/orders"
ORDERS = JournalSpec(name=JOURNAL, replication=1)
WRITERS = WRITERS_MAX + 200


async def come_and_go(journals: Journals, count: int, *, first: int = 0, together: int = 100) -> None:
    """Each appends once, under its own name, many at a time."""
    for at in range(first, first + count, together):
        writers = [Txn(f"{number:016x}", TIMES_FROM + number) for number in range(at, at + together)]
        await asyncio.gather(*(journals.append(JOURNAL, b"%r\n" % txn.seq, txn=txn, timeout=WAIT_S) for txn in writers))


async def test_publishers_that_come_and_go_leave_no_more_than_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(ORDERS)
        await come_and_go(journals, WRITERS)
        registers = cluster.hosts(JOURNAL)["b1"].replica.spool.registers
        assert len(writers_of(registers.labels)) <= WRITERS_MAX
        with pytest.raises(WriterExpired) as expired:
            await journals.append(JOURNAL, b"0", txn=Txn(f"{0:016x}", TIMES_FROM))
        assert expired.value.details["floor"] >= TIMES_FROM
        assert expired.value.written is Written.NO
        monkeypatch.setattr(SystemClocks, "time_ns", staticmethod(lambda: TIMES_FROM * 1_000))
        async with AppendService(journals) as service:  # its clock is behind: it continues above the floor
            await service.append(JOURNAL, b"on")
        # Each of 500 answers is small.
        await asyncio.gather(*(journals.append(JOURNAL, b"x", timeout=WAIT_S) for _ in range(500)))
        done = await journals.append(JOURNAL, b"", timeout=WAIT_S)
        assert done.registers.labels == LabelSet()


@pytest.mark.parametrize("replication", [1, 3])
async def test_answers_with_large_registers_reach_the_client(tmp_path: Path, replication: int) -> None:
    """Five hundred at once, with 128 KiB of registers: as one message they would be more than a frame may have."""
    large = {f"register-{number:03}": "x" * 1_000 for number in range(128)}
    spec = JournalSpec(name=JOURNAL, replication=replication)
    async with running_cluster(tmp_path, replication) as cluster, cluster.client() as journals:
        await cluster.create(spec)
        await journals.append(JOURNAL, b"x", union=large)
        done = await asyncio.gather(*(journals.append(JOURNAL, b"x", timeout=WAIT_S) for _ in range(500)))
        assert max(each.end for each in done) == 501
        asking = (journals.append(JOURNAL, b"y", check="register-000", timeout=WAIT_S) for _ in range(50))
        assert {len(each.registers.labels) for each in await asyncio.gather(*asking)} == {128}
        with pytest.raises(LimitExceeded, match="registers"):
            await journals.append(JOURNAL, b"x", union={f"other-{number:03}": "x" * 1_000 for number in range(128)})
        assert len((await journals.append(JOURNAL, b"", timeout=WAIT_S)).registers.labels) == 128


async def test_a_transaction_is_what_it_was(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(ORDERS)
        first = await journals.append(JOURNAL, b"one", txn=Txn("loader", 1))
        again = await journals.append(JOURNAL, b"one", txn=Txn("loader", 1))
        assert (first.begin, first.end, first.sum) == (again.begin, again.end, again.sum)
        with pytest.raises(PreconditionFailed, match="other content under the transaction loader/1"):
            await journals.append(JOURNAL, b"two", txn=Txn("loader", 1))
        asked = await journals.append(JOURNAL, b"", txn=Txn("loader", 1))
        assert (asked.begin, asked.end) == (0, 3)
        await journals.append(JOURNAL, b"two", txn=Txn("loader", 2))
        with pytest.raises(PreconditionFailed, match="may be in the journal") as superseded:
            await journals.append(JOURNAL, b"one", txn=Txn("loader", 1))
        assert superseded.value.written is Written.UNKNOWN


async def test_answers_in_one_message_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_quoted", lambda _, response: response)
    monkeypatch.setattr(sessions, "MESSAGE_BYTES", 1 << 40)
    with pytest.raises((AssertionError, PenstockError)):
        await test_answers_with_large_registers_reach_the_client(tmp_path, 1)


async def test_a_bound_on_the_request_only_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_small(_: object, change: RegisterChange) -> bool:
        return len(change.union) < 1_000

    monkeypatch.setattr(append_fsm, "has_room", is_small)
    with pytest.raises(pytest.fail.Exception):
        await test_answers_with_large_registers_reach_the_client(tmp_path, 1)


async def test_hundreds_of_writers_append_at_once(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 2) as cluster, cluster.client() as journals:
        await cluster.create(JournalSpec(name=JOURNAL, replication=2))
        await come_and_go(journals, 1_200, together=300)


async def test_a_pipeline_that_breaks_with_hundreds_of_writers_is_built_again(tmp_path: Path) -> None:
    """A sync sends the registers at each point that may be cut back to."""
    async with running_cluster(tmp_path, 2) as cluster, cluster.client() as journals:
        await cluster.create(JournalSpec(name=JOURNAL, replication=2, fsync=True))
        await come_and_go(journals, 600)
        appends = asyncio.gather(*(come_and_go(journals, 100, first=at) for at in range(1_000, 1_300, 100)))
        replica = next(name for name, host in cluster.hosts(JOURNAL).items() if not host.is_primary)
        await asyncio.sleep(0)
        await cluster.stop(replica)
        await cluster.start(replica)
        await appends


async def test_proposals_in_one_message_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicate_messages, "BATCH_LABELS", 1 << 40)
    monkeypatch.setattr(lead, "POINTS_BYTES", 1 << 40)
    monkeypatch.setattr(sys.modules[__name__], "WAIT_S", 3.0)
    with pytest.raises((AssertionError, PenstockError, TimeoutError)):
        await test_hundreds_of_writers_append_at_once(tmp_path)
