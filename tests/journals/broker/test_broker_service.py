"""The edge of a broker: for every input, the answer is a typed error, and the broker continues."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.journals.broker.cluster import WAIT_S, running_cluster

from penstock.journals.broker.broker_server import TOUCHED_MAX
from penstock.journals.broker.process import BROKER_LIMITS
from penstock.journals.records import protocol
from penstock.journals.records.protocol import AppendHello, AppendPart, AppendWish, PartKind
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import InternalError, PenstockError
from penstock.plumbing.wire.client import Channel

UNARY = [protocol.APPLY, protocol.FRAGMENTS, protocol.RESOLVE, protocol.RESET_HEAD, protocol.PRUNE, protocol.EXPLAIN]
STREAMS = [protocol.REPLICATE, protocol.APPEND, protocol.READ, protocol.LIST]
RECORDS = st.recursive(
    st.none() | st.integers(-(1 << 63), (1 << 63) - 1) | st.text(max_size=8) | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["journal", "offset", "end", "changes", "upsert", "delete", "epoch", "sender", "timeout_ms", "begin", "name",
         "min_head", "is_direct", "blocks", "begin_mod_time", "min_revision", "selector"]
    ), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip


async def ask(channel: Channel, method: str, body: bytes, message: bytes) -> None:
    if method in UNARY:
        await channel.call(method, body, deadline_s=20.0)
        return
    async with channel.stream(method, body, deadline_s=20.0) as stream:
        if method in (protocol.REPLICATE, protocol.APPEND):
            await stream.send(message, b"content")


def drawn() -> list[tuple[str, bytes, bytes]]:
    """Return the inputs. Drawn before there is a broker: drawing takes a while, and a broker must renew its lease."""
    examples: list[tuple[str, bytes, bytes]] = []

    @settings(max_examples=150, database=None, suppress_health_check=list(HealthCheck), deadline=None)
    @given(st.sampled_from(UNARY + STREAMS), RECORDS | st.just({"journal": "shop/orders"}), RECORDS, st.booleans())
    def collect(method: str, record: object, message: object, is_random: bool) -> None:
        body = msgspec.msgpack.encode(record)
        examples.append((method, body[::-1] if is_random else body, msgspec.msgpack.encode(message)))

    collect()
    return examples


async def test_nothing_that_is_sent_harms_a_broker(tmp_path: Path) -> None:
    examples = drawn()
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(JournalSpec(name="shop/orders", replication=1))
        defects: list[tuple[str, bytes, bytes]] = []
        for method, body, message in examples:
            async with Channel(cluster.addresses[0], limits=BROKER_LIMITS) as channel:
                try:
                    await ask(channel, method, body, message)
                except InternalError:
                    defects.append((method, body, message))
                except PenstockError:
                    pass  # as it should be
        assert defects == []
        assert (await journals.append("shop/orders", b"still here")).begin == 0


@pytest.mark.parametrize("length", [-1, 3, 8])
async def test_parts_which_claim_other_content_than_came_are_refused(tmp_path: Path, length: int) -> None:
    async with running_cluster(tmp_path, 1) as cluster:
        await cluster.create(JournalSpec(name="shop/orders", replication=1))
        part = AppendPart(1, length, PartKind.COMMIT, AppendWish(1_000))
        async with Channel(cluster.addresses[0], limits=BROKER_LIMITS) as channel:
            with pytest.raises(PenstockError, match="claim other content"):
                async with channel.stream(
                    protocol.APPEND, msgspec.msgpack.encode(AppendHello("shop/orders"))
                ) as stream:
                    await stream.send(msgspec.msgpack.encode([part]), b"content")


async def test_many_changes_of_the_keyspace_leave_turns_of_the_loop_to_others(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        server = cluster.brokers["b1"].server
        touched: list[int] = []  # in which turn of the loop each was
        turn = 0

        async def count_turns() -> None:
            nonlocal turn
            while True:
                turn += 1
                await asyncio.sleep(0)

        touch = server._touch

        def spied(journal: str) -> None:
            touched.append(turn)
            touch(journal)

        counting = asyncio.create_task(count_turns())
        server._touch = spied  # type: ignore[method-assign]
        names = [f"shop/{number:02d}" for number in range(3 * TOUCHED_MAX)]
        await journals.create(*(JournalSpec(name=name, replication=1) for name in names))
        await journals.append(names[-1], b"", timeout=WAIT_S)
        counting.cancel()
        assert len(set(touched[: len(names)])) > 1  # the first and the last of three parts have a turn between them
