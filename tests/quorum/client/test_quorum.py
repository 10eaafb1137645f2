"""The client: it finds the leader, follows it, dedups its retries, and tells the three fates apart."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest
from tests.quorum.node.cluster import Cluster, running_cluster

from penstock.kernel.errors import Compacted, Indeterminate, InvalidArgument, Refused, Unavailable
from penstock.kernel.ids import EntryId, Epoch, NodeId, Offset
from penstock.plumbing.wire.limits import WireLimits
from penstock.quorum.client.quorum import QuorumLog
from penstock.quorum.core.config import NodeConfig
from penstock.quorum.core.machines.builtin import AppendTo, Get, Put, encode_op
from penstock.quorum.core.machines.pairs import PairLimits
from penstock.quorum.records.answers import Fate
from penstock.quorum.records.entry import Txn
from penstock.quorum.records.messages import ChangeOp
from penstock.quorum.records.resolution import Resolution


def client(cluster: Cluster) -> QuorumLog:
    return QuorumLog(list(cluster.addresses.values()), "main", client_id="test")


async def test_what_is_written_is_read_back_and_resolved(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, client(cluster) as log:
        first = await log.append(encode_op(Put("a", b"1")), ack="applied", timeout=20)
        second = await log.append(encode_op(Put("a", b"2")), ack="applied")
        assert (first.fate, first.result, second.result) == (Fate.COMMITTED, None, b"1")
        assert (await log.read(encode_op(Get("a")))).result == b"2"
        local = await log.read(encode_op(Get("a")), linearizable=False, after=second.entry)
        assert local.result == b"2"
        assert await log.resolve(second.entry) is Resolution.COMMITTED
        assert await log.resolve(EntryId(first.entry.epoch, Offset(10_000)), timeout=0.1) is Resolution.PENDING
        everywhere = await log.append(encode_op(Put("a", b"3")), ack="all")
        assert everywhere.fate is Fate.COMMITTED
        later = await log.append(encode_op(Put("a", b"4")), sync=False)
        assert later.fate in (Fate.ACKNOWLEDGED, Fate.COMMITTED)  # whichever disk was quicker


async def test_a_retry_under_the_same_seq_takes_effect_once(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, client(cluster) as log:
        op = encode_op(AppendTo("a", b"x"))
        await asyncio.gather(*(log.append(op, seq=7, timeout=20) for _ in range(3)))
        assert (await log.read(encode_op(Get("a")))).result == b"x"


async def test_a_repeat_has_the_result_and_the_entry_of_the_first_and_is_shown_once(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, client(cluster) as log:
        op = encode_op(AppendTo("a", b"x"))
        first = await log.append(op, seq=7, ack="applied", timeout=20)
        again = await log.append(op, seq=7, ack="applied", timeout=20)
        assert (again.entry, again.result) == (first.entry, first.result) == (first.entry, 1)
        assert (await log.append(op, seq=7, timeout=20)).entry == first.entry
        await log.append(op, seq=8, timeout=20)
        assert [txn.seq async for _, txn in log.subscribe(follow=False)] == [7, 8]


async def test_a_client_id_that_comes_back_takes_effect(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        op = encode_op(AppendTo("a", b"x"))
        for run in range(1, 4):
            async with client(cluster) as log:
                await asyncio.gather(*(log.append(op, timeout=20) for _ in range(3)))
                assert (await log.read(encode_op(Get("a")))).result == b"x" * 3 * run


async def test_numbers_of_a_client_id_begin_with_a_session(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, client(cluster) as log:
        with pytest.raises(InvalidArgument, match="begin_session"):
            log.next_seq()
        await log.begin_session(timeout=20)
        first = log.next_seq()
        await log.begin_session()
        assert log.next_seq() == first + 1


async def test_an_expired_number_is_neither_refused_nor_taken_again(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, client(cluster) as log:
        await log.append(encode_op(AppendTo("a", b"x")), seq=5, timeout=20)
        for node in cluster.nodes.values():
            pairs = node.host("main")._applier.pairs
            pairs.limits = PairLimits(of_client_max=1)
        await log.append(encode_op(AppendTo("a", b"x")), seq=6)
        with pytest.raises(Indeterminate, match="older than what the shard remembers"):
            await log.append(encode_op(AppendTo("a", b"x")), seq=5)
        assert (await log.read(encode_op(Get("a")))).result == b"xx"


async def test_appends_go_on_with_the_next_leader(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, client(cluster) as log:
        op = encode_op(AppendTo("a", b"x"))
        await log.append(op, timeout=20)
        many = [asyncio.create_task(log.append(op, timeout=20)) for _ in range(50)]
        leader = cluster.leader()
        await cluster.stop_node(leader)
        done = await asyncio.gather(*many)
        assert {each.fate for each in done} == {Fate.COMMITTED}
        assert (await log.read(encode_op(Get("a")), timeout=20)).result == b"x" * 51
        await cluster.start_node(leader)
        entries = [offset async for offset, _ in log.subscribe(follow=False)]
        assert entries == sorted(set(entries))
        assert len(entries) >= 51


async def test_without_a_quorum_the_fate_is_unknown_until_it_is_back(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, client(cluster) as log:
        await log.append(encode_op(Put("a", b"1")), timeout=20)
        leader = cluster.leader()
        followers = [name for name in cluster.nodes if name != leader]
        for name in followers:
            await cluster.stop_node(name)
        with pytest.raises(Indeterminate) as unknown:
            await log.append(encode_op(Put("a", b"2")), timeout=0.3)
        assert "may still commit" in str(unknown.value)
        for name in followers:
            await cluster.start_node(name)
        details = unknown.value.details
        entry = EntryId(Epoch(details["epoch"]), Offset(details["offset"]))
        fate = await log.resolve(entry, timeout=20)
        value = (await log.read(encode_op(Get("a")), timeout=20)).result
        assert (fate, value) in ((Resolution.COMMITTED, b"2"), (Resolution.ABORTED, b"1"))


async def test_nobody_to_reach_is_definite(tmp_path: Path) -> None:
    async with QuorumLog(["127.0.0.1:1"], "main") as log:
        with pytest.raises(Unavailable, match="no leader was reached"):
            await log.append(b"x", timeout=0.05)


async def test_misuse_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(InvalidArgument, match="at least one node"):
        QuorumLog([])
    log = QuorumLog(["127.0.0.1:1"])
    with pytest.raises(InvalidArgument, match="context manager"):
        await log.append(b"x")
    async with log:
        with pytest.raises(InvalidArgument, match="above the limit"):
            await log.append(b"x" * 2_000_000)
        with pytest.raises(InvalidArgument, match="ack 'some'"):
            await log.append(b"x", ack="some")  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="timeout 0"):
            await log.append(b"x", timeout=0)


async def test_an_impossible_ack_level_is_refused(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, client(cluster) as log:
        with pytest.raises(InvalidArgument, match="ack level"):
            await log.append(b"x", ack=9, timeout=20)


async def test_more_than_the_window_waits_and_all_arrive(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        addresses = list(cluster.addresses.values())
        async with QuorumLog(addresses, "main", window_bytes=4_000) as log:
            done = await asyncio.gather(*(log.append(b"x" * 900, timeout=30) for _ in range(40)))
            assert len({each.entry for each in done}) == 40


async def test_a_snapshot_brings_a_new_node_up_to_date(tmp_path: Path) -> None:
    config = NodeConfig(snapshot_entries=50, retain_entries=10)
    async with running_cluster(tmp_path, spares=1, config=config) as cluster, client(cluster) as log:
        for number in range(120):
            await log.append(encode_op(Put(f"k{number}", b"v")), timeout=20)
        metadata = await cluster.operator.reconfigure("main", ChangeOp.EXPAND, None, NodeId("n4"))
        assert [member.node for member in metadata.ensemble] == ["n1", "n2", "n3", "n4"]
        last = await log.append(encode_op(Put("last", b"v")), ack="all", timeout=20)
        newcomer = cluster.nodes["n4"].host("main")
        await newcomer.wait_for_applied(Offset(last.entry.offset - 1))
        snapshots = [node.host("main").node.replica.snapshot.head.offset for node in cluster.nodes.values()]
        assert min(snapshots) >= 50
        assert newcomer.node.log.first > 1


async def test_subscribe_follows_what_commits(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, client(cluster) as log:
        seen: list[tuple[Offset, Txn]] = []

        async def follow() -> None:
            async for offset, txn in log.subscribe():
                seen.append((offset, txn))
                if len(seen) == 5:
                    return

        follower = asyncio.create_task(follow())
        for number in range(5):
            await log.append(encode_op(Put("a", b"%d" % number)), timeout=20)
        await asyncio.wait_for(follower, 20)
        first = seen[0][1].seq
        assert [txn.seq for _, txn in seen] == [first + number for number in range(5)]
        assert {txn.client for _, txn in seen} == {"test"}


async def test_a_subscription_leaves_a_node_which_was_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lives, and never tells what the others have committed."""
    monkeypatch.setattr("penstock.quorum.client.quorum.SILENT_S", 0.05)
    async with running_cluster(tmp_path) as cluster, client(cluster) as log:
        await log.append(encode_op(Put("a", b"1")), timeout=20)
        asked = asyncio.Event()

        async def says_nothing(at: Offset, _: int) -> tuple[Offset, list[object]]:
            asked.set()
            return at, []

        first = cluster.nodes[cluster.leader()].host("main")
        monkeypatch.setattr(first, "entries_from", says_nothing)
        monkeypatch.setattr(first, "wait_for_applied", lambda _: asyncio.Event().wait())
        async with asyncio.timeout(20), aclosing(log.subscribe()) as entries:
            assert (await anext(entries))[1].client == "test"
        assert asked.is_set()


async def test_a_gapless_subscription_refuses_what_is_trimmed_away(tmp_path: Path) -> None:
    config = NodeConfig(snapshot_entries=50, retain_entries=10)
    async with running_cluster(tmp_path, 1, config=config) as cluster, client(cluster) as log:
        await asyncio.gather(*(log.append(encode_op(Put("a", b"1")), timeout=20) for _ in range(200)))
        replica = cluster.nodes["n1"].host("main").node.replica
        async with asyncio.timeout(20):
            while replica.log.first == 1 or replica.is_taking_snapshot or replica.saving:
                await log.append(encode_op(Put("a", b"1")), timeout=20)
        with pytest.raises(Compacted, match="trimmed away"):
            [offset async for offset, _ in log.subscribe(is_gapless=True)]
        kept = [offset async for offset, _ in log.subscribe(follow=False)]
        assert kept[0] > 1
        whole = [offset async for offset, _ in log.subscribe(kept[0], follow=False, is_gapless=True)]
        assert whole == kept


async def test_a_roll_back_makes_a_time_out_definite_if_a_quorum_is_there(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, client(cluster) as log:
        await log.append(encode_op(Put("a", b"1")), timeout=20)
        # With everything healthy a commit wins every race; what matters is that the answer is one of the two.
        try:
            done = await log.append(encode_op(Put("a", b"2")), timeout=0.001, roll_back=True)
            assert done.fate is Fate.COMMITTED
            expected = b"2"
        except Refused:
            expected = b"1"
        assert (await log.read(encode_op(Get("a")))).result == expected


async def test_a_subscriber_that_the_log_overtakes_ends_and_holds_up_no_one(tmp_path: Path) -> None:
    """Q-3: the node looped without a pause, for ever; a new subscription missed entries in silence."""
    config = NodeConfig(snapshot_entries=8, retain_entries=2)
    limits = WireLimits(stream_window_bytes=1 << 18)
    async with running_cluster(tmp_path, nodes=1, config=config) as cluster:
        addresses = list(cluster.addresses.values())
        slow = QuorumLog(addresses, limits=limits)
        async with QuorumLog(addresses) as log, slow, aclosing(slow.subscribe()) as entries:
            await log.append(b"first", timeout=20)
            assert (await anext(entries))[1].ops == b"first"
            async with asyncio.timeout(60):
                while cluster.nodes["n1"].host("main").node.log.first < 40:
                    await log.append(b"x" * 100_000, timeout=20)
                with pytest.raises(Compacted, match=r"begins at \d+"):
                    async for _ in entries:
                        pass
                await log.append(b"goes on")


async def test_a_flipped_bit_in_the_leaders_log_stops_it_by_name(tmp_path: Path) -> None:
    """Q-9: the follower stayed behind and the leader read the same entries for ever, without an error anywhere."""
    config = NodeConfig(tail_bytes_max=200)
    async with running_cluster(tmp_path, config=config) as cluster, client(cluster) as log:
        await log.append(b"x", timeout=20)
        leader = cluster.leader()
        away = next(name for name in cluster.nodes if name != leader)
        await cluster.stop_node(away)
        for _ in range(40):
            await log.append(b"y" * 100)
        segment = max((tmp_path / leader / "shards/main/log").glob("*"), key=lambda path: path.stat().st_size)
        data = bytearray(segment.read_bytes())
        at = data.index(b"y" * 100)
        data[at + 50] ^= 1
        with segment.open("r+b") as file:  # in place: the node has it open
            file.seek(at + 50)
            file.write(data[at + 50 : at + 51])
        await cluster.start_node(away)
        broken = cluster.nodes[leader].host("main")
        async with asyncio.timeout(30):
            while not broken.failed:
                await log.append(b"z", timeout=20)
            assert "checksum" in broken.failed
            await log.append(b"z", timeout=20)
