"""Whatever a client is asked to do, it does it, or it says in its own words why not: no other error, no defect."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.journals.broker.cluster import WAIT_S, running_cluster

from penstock.journals.client.journal import Change, Journals
from penstock.journals.records.api import Resolution
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.registers import Txn
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import InternalError, InvalidArgument, PenstockError
from penstock.kernel.ids import Offset, Revision

NUMBERS = st.integers(-2, 20) | st.integers(-(1 << 70), 1 << 70)
NAMES = st.just("shop/orders") | st.text("ab/.#% -", max_size=8) | st.text(max_size=6)
TEXTS = st.text("ab=!,() ", max_size=10) | st.text(max_size=6)
TIMES = st.sampled_from([0.0, -1.0, 0.02, 0.2, float("nan"), float("inf"), 1e300])
Call = tuple[str, tuple[Any, ...]]
CALLS: st.SearchStrategy[Call] = st.one_of(
    st.tuples(st.just("append"), st.tuples(NAMES, NUMBERS, TEXTS, TEXTS, TIMES)),
    st.tuples(st.just("txn"), st.tuples(TEXTS, NUMBERS)),
    st.tuples(st.just("read"), st.tuples(NAMES, NUMBERS, NUMBERS, NUMBERS)),
    st.tuples(st.just("stat"), st.tuples(NAMES, NUMBERS)),
    st.tuples(st.just("list"), st.tuples(TEXTS)),
    st.tuples(st.just("resolve"), st.tuples(NAMES, NUMBERS, NUMBERS, NUMBERS, NUMBERS)),
    st.tuples(st.just("delete"), st.tuples(NAMES.filter(lambda name: name != "shop/orders"), NUMBERS)),
    st.tuples(st.just("create"), st.tuples(NAMES, NUMBERS)),
)


def drawn() -> list[Call]:
    calls: list[Call] = []

    @settings(max_examples=150, database=None, suppress_health_check=list(HealthCheck), deadline=None)
    @given(CALLS)
    def collect(call: Call) -> None:
        calls.append(call)

    collect()
    return calls


async def read(journals: Journals, name: str, offset: int, end: int, since: int) -> None:
    async for _ in journals.read(name, offset, end=end, begin_mod_time=since):
        pass


def ask(journals: Journals, call: Call) -> Awaitable[Any]:
    what, arguments = call
    asked: dict[str, Callable[..., Awaitable[Any]]] = {
        "append": lambda name, offset, check, register, timeout: journals.append(
            name, b"x", offset=offset, check=check, union={register: "v"}, timeout=timeout
        ),
        "txn": lambda writer, seq: journals.append("shop/orders", b"x", txn=Txn(writer, seq)),
        "read": lambda name, offset, end, since: read(journals, name, offset, end, since),
        "stat": journals.stat,
        "list": journals.list,
        "resolve": lambda name, revision, n, begin, end: journals.resolve(
            name, PipelineEpoch(Revision(revision), n), begin, end, timeout=0.05
        ),
        "delete": lambda name, revision: journals.apply([Change(delete=name, expect_mod_revision=revision)]),
        "create": lambda name, replication: journals.create(JournalSpec(name=name, replication=replication)),
    }
    return asked[what](*arguments)


async def test_every_error_of_a_client_is_a_typed_one(tmp_path: Path) -> None:
    calls = drawn()
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(JournalSpec(name="shop/orders", replication=1))
        defects: list[tuple[Call, Exception]] = []
        for call in calls:
            try:
                await ask(journals, call)
            except InternalError as error:
                defects.append((call, error))
            except PenstockError:
                pass
            except Exception as error:
                defects.append((call, error))
        assert defects == []
        await journals.append("shop/orders", b"still here")


@pytest.mark.parametrize("timeout", [0.0, -1.0, float("nan"), float("inf"), 1e300])
async def test_a_time_out_is_a_time(timeout: float) -> None:
    async with Journals(["127.0.0.1:1"]) as journals:
        with pytest.raises(InvalidArgument, match="timeout"):
            await journals.append("shop/orders", b"x", timeout=timeout)


@pytest.mark.parametrize("offset", [-1, 1 << 63])
async def test_an_append_is_asked_for_at_an_offset(offset: int) -> None:
    async with Journals(["127.0.0.1:1"]) as journals:
        with pytest.raises(InvalidArgument, match=f"offset {offset}"):
            await journals.append("shop/orders", b"x", offset=Offset(offset))


async def test_a_question_goes_on_to_the_next_broker_when_one_is_lost_before_it_answers(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 2) as cluster:
        await cluster.create(JournalSpec(name="shop/orders", replication=1))
        other = next(name for name in cluster.brokers if name != cluster.primary("shop/orders"))
        broker = cluster.brokers[other]
        addresses = [broker.address, *(address for address in cluster.addresses if address != broker.address)]
        asked = asyncio.Event()

        async def never(query: object) -> Resolution:
            asked.set()
            await asyncio.get_running_loop().create_future()
            raise AssertionError

        broker.server.resolve = never  # type: ignore[method-assign]
        async with Journals(addresses) as journals:
            done = await journals.append("shop/orders", b"12345", timeout=WAIT_S)
            asking = asyncio.create_task(
                journals.resolve("shop/orders", done.epoch, done.begin, done.end, timeout=WAIT_S)
            )
            await asked.wait()
            await cluster.stop(other)
            assert await asking is Resolution.COMMITTED
