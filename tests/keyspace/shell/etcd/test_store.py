"""etcd keeps the port's law, and what only it can be asked: endpoints, outages, another cluster in its place."""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from tests.keyspace.shell.behaviours import WAIT_S, KeySpaceBehaviours, shown_until
from tests.keyspace.shell.etcd.conftest import QUICK, EtcdHarness
from tests.keyspace.shell.etcd.server import EtcdServer, free_ports
from tests.keyspace.shell.mirror_behaviours import MirrorBehaviours
from tests.keyspace.shell.processes import worker

from penstock.kernel.errors import (
    AlreadyClosed,
    ConnectFailed,
    ConnectionLost,
    DeadlineExceeded,
    Indeterminate,
    InvalidArgument,
    KeySpaceForgot,
    Unavailable,
    Written,
)
from penstock.kernel.ids import Revision
from penstock.keyspace.core.transaction import PutKey, ReadKey
from penstock.keyspace.shell.etcd.options import EtcdOptions
from penstock.keyspace.shell.etcd.protobuf import encode
from penstock.keyspace.shell.etcd.store import EtcdKeySpace


class TestBehaviours(KeySpaceBehaviours):
    """See behaviours.py."""


class TestMirror(MirrorBehaviours):
    """See mirror_behaviours.py."""


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EtcdServer]:
    """A server which the test may ruin."""
    server = EtcdServer(tmp_path / "data")
    server.start()
    try:
        yield server
    finally:
        server.kill()


# Endpoints


async def test_nobody_there(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    impatient = EtcdOptions(connect_ms_max=50, retry_ms_max=100, backoff_ms=10)
    started = time.monotonic()
    with pytest.raises(ConnectFailed, match=f"no etcd at 127.0.0.1:{port}") as refused:
        await EtcdKeySpace.open([f"127.0.0.1:{port}"], impatient)
    assert (refused.value.written, refused.value.retryable) == (Written.NO, True)
    assert time.monotonic() - started < WAIT_S


async def test_the_next_endpoint_is_taken(server: EtcdServer) -> None:
    (dead,) = free_ports(1)
    options = EtcdOptions(connect_ms_max=400)
    async with await EtcdKeySpace.open([f"127.0.0.1:{dead}", server.address], options) as keyspace:
        assert (await keyspace.status()).revision >= 1


async def test_another_cluster_is_not_mistaken_for_ours(tmp_path: Path, own_server: EtcdServer) -> None:
    other = EtcdServer(tmp_path / "other")
    other.start()
    try:
        async with await EtcdKeySpace.open([own_server.address, other.address], QUICK) as keyspace:
            own_server.kill()
            with pytest.raises(KeySpaceForgot, match="cluster"):
                await keyspace.get("a")
            with pytest.raises(KeySpaceForgot):
                await keyspace.transact(then=[PutKey("a", b"")])
    finally:
        other.kill()


# Outages


async def test_a_server_which_does_not_answer_leaves_the_outcome_open(own_server: EtcdServer) -> None:
    async with await EtcdKeySpace.open([own_server.address]) as keyspace, asyncio.timeout(WAIT_S):
        patient, keyspace.options = keyspace.options, EtcdOptions(request_ms_max=200, retry_ms_max=300)
        own_server.process.send_signal(signal.SIGSTOP)
        await asyncio.to_thread(os.waitpid, own_server.process.pid, os.WUNTRACED)  # a signal takes its time
        with pytest.raises(DeadlineExceeded) as open_outcome:
            await keyspace.transact(then=[PutKey("a", b"")])
        assert open_outcome.value.written is Written.UNKNOWN
        with pytest.raises(Unavailable) as read:
            await keyspace.get("a")
        assert read.value.written is Written.NO
        with pytest.raises(Unavailable):
            await keyspace.transact(then=[ReadKey("a")])
        own_server.process.send_signal(signal.SIGCONT)
        keyspace.options = patient
        assert (await keyspace.transact(then=[PutKey("b", b"")])).succeeded


async def test_a_server_killed_while_it_is_asked(own_server: EtcdServer) -> None:
    async with await EtcdKeySpace.open([own_server.address], QUICK) as keyspace, asyncio.timeout(WAIT_S):
        own_server.process.send_signal(signal.SIGSTOP)
        await asyncio.to_thread(os.waitpid, own_server.process.pid, os.WUNTRACED)  # a signal takes its time
        asked = [asyncio.create_task(keyspace.transact(then=[PutKey(f"k{n}", b"")])) for n in range(10)]
        reading = asyncio.create_task(keyspace.get("k0"))
        await asyncio.wait(asked, timeout=0.05)
        own_server.kill()
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(outcome, Indeterminate) for outcome in outcomes), outcomes
        assert any(isinstance(outcome, ConnectionLost) for outcome in outcomes)
        own_server.start()
        await reading  # what only reads is asked again until it is answered


async def test_a_server_set_back_to_an_older_state_is_noticed(own_server: EtcdServer) -> None:
    """Set the server back, as a restored backup does: journals.md J1 to J5 are void then."""
    async with await EtcdKeySpace.open([own_server.address], QUICK) as keyspace, asyncio.timeout(WAIT_S):
        for n in range(5):
            await keyspace.transact(then=[PutKey("a", b"%d" % n)])
        last = (await keyspace.status()).revision
        async with keyspace.watch("", Revision(last)) as watch:
            await shown_until(watch, last)
            own_server.kill()
            shutil.rmtree(own_server.folder)
            own_server.start()
            with pytest.raises(KeySpaceForgot, match=f"was at {last}"):
                await anext(watch)
        with pytest.raises(KeySpaceForgot, match=f"was at {last}"):
            await keyspace.get("a")


async def test_a_stopped_process_loses_its_lease_and_is_told_when_it_goes_on(harness: EtcdHarness) -> None:
    keyspace = await harness.open()
    key = f"{harness.prefix}holder"
    start = Revision((await keyspace.status()).revision + 1)
    async with (
        keyspace.watch(harness.prefix, start) as watch,
        worker("hold", f"etcd://{harness.server.address}", key, 2_000) as holder,
    ):
        assert await holder.line() == "holding"
        (held,) = await shown_until(watch, start)
        assert held.now is not None
        holder.process.send_signal(signal.SIGSTOP)
        (gone,) = await shown_until(watch, Revision(held.revision + 1))
        assert gone.now is None
        holder.process.send_signal(signal.SIGCONT)
        assert (await holder.line()).startswith("lost: ")
        async with asyncio.timeout(WAIT_S):
            assert await holder.process.wait() == 0


# What others store, and how much of it


async def test_large_revisions_come_whole_although_etcd_sends_them_in_fragments(harness: EtcdHarness) -> None:
    keyspace = await harness.open()
    p = harness.prefix
    value = b"x" * 12_000
    revisions = [
        (await keyspace.transact(then=[PutKey(f"{p}{n:03}", value) for n in range(100)])).revision for _ in range(4)
    ]
    seen: list[Revision] = []
    batches = 0
    async with keyspace.watch(p, revisions[0]) as watch, asyncio.timeout(WAIT_S):
        while not seen or seen[-1] < revisions[-1]:
            batch = await anext(watch)
            in_batch = [change.revision for change in batch.changes]
            assert all(in_batch.count(revision) == 100 for revision in set(in_batch))
            seen += sorted(set(in_batch))
            batches += 1
    assert seen == revisions
    assert batches > 1, "it was in fragments"


async def test_somebody_elses_key_which_is_no_text_stops_nobody(harness: EtcdHarness) -> None:
    keyspace = await harness.open()
    p = harness.prefix
    start = Revision((await keyspace.status()).revision + 1)
    async with grpc.aio.insecure_channel(harness.server.address) as channel:
        put = encode([(1, p.encode() + b"\xff\xfe"), (2, b"theirs")])
        await channel.unary_unary("/etcdserverpb.KV/Put")(put)
    last = (await keyspace.transact(then=[PutKey(f"{p}a", b"ours")])).revision
    assert [entry.value for entry in (await keyspace.range(p)).entries] == [b"ours", b"theirs"]
    async with keyspace.watch(p, start) as watch:
        assert [change.now.value for change in await shown_until(watch, last) if change.now] == [b"theirs", b"ours"]


# Life


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 100])
async def test_closing_ends_what_waits(harness: EtcdHarness, turns: int) -> None:
    """However far the watch has come in opening its stream."""
    keyspace = await harness.open()
    async with keyspace.watch(harness.prefix, Revision(1 << 40)) as watch:
        waiting = asyncio.ensure_future(anext(watch))
        for _ in range(turns):
            await asyncio.sleep(0)
        await keyspace.close()
        await keyspace.close()
        with pytest.raises(AlreadyClosed):
            await waiting
    for call in (keyspace.get("a"), keyspace.transact(), keyspace.grant_lease(1_000), keyspace.status()):
        with pytest.raises(AlreadyClosed):
            await call


def test_options_have_bounds() -> None:
    bad: dict[str, Any]
    for bad in ({"request_ms_max": 0}, {"certificate": Path("a")}, {"certificate": Path("a"), "key": Path("b")}):
        with pytest.raises(InvalidArgument):
            EtcdOptions(**bad)
