"""What every KeySpace does: one suite, run against the embedded one, etcd and the simulated one.

A harness gives clients of one KeySpace. Keys live under its prefix, since a server may be shared with other tests;
revisions are compared with each other, never with constants.
"""

import asyncio
from contextlib import AsyncExitStack
from typing import Protocol

import pytest
from tests.keyspace.shell.linearize import Attempt, check_linearizable, random_transaction

from penstock.kernel.errors import (
    Compacted,
    InvalidArgument,
    LeaseExpired,
    LimitExceeded,
    PenstockError,
    PreconditionFailed,
)
from penstock.kernel.ids import Revision
from penstock.keyspace.core.limits import KEY_BYTES_MAX, OPERATIONS_MAX, VALUE_BYTES_MAX
from penstock.keyspace.core.records import NO_LEASE, KeyChange, KeyValue, LeaseId
from penstock.keyspace.core.transaction import (
    Compare,
    DeleteKey,
    Operation,
    PutKey,
    ReadKey,
    Relation,
    Target,
    is_absent,
    is_at,
    is_present,
    is_unchanged,
)
from penstock.keyspace.shell.port import KeySpace, Watch

WAIT_S = 20  # for anything to happen; only a failing test waits that long


class Harness(Protocol):
    """One KeySpace under test."""

    prefix: str  # of every key of this test; ends in "/"
    lease_ms: int  # a lease which ends soon

    async def open(self) -> KeySpace:
        """A client. The harness closes it."""
        ...

    async def let_time_pass(self, ms: int) -> None:
        """Time passes for leases: at once where the clock is ours, else by itself while the test waits for events."""
        ...

    async def restart(self) -> None:
        """The KeySpace goes away, and comes back with all it had. Clients stay."""
        ...


async def shown_until(watch: Watch, revision: Revision) -> list[KeyChange]:
    """Return all changes up to a revision, which has one under the watch's prefix."""
    shown: list[KeyChange] = []
    async with asyncio.timeout(WAIT_S):
        while not shown or shown[-1].revision < revision:
            batch = await anext(watch)
            assert not batch.changes or batch.changes[-1].revision <= batch.revision
            shown.extend(batch.changes)
    return shown


def order_of(changes: list[KeyChange]) -> list[tuple[Revision, str]]:
    return [(change.revision, change.key) for change in changes]


class KeySpaceBehaviours:
    """Inherit from it, and give it the fixture `harness`."""

    @pytest.fixture
    async def keyspace(self, harness: Harness) -> KeySpace:
        return await harness.open()

    @pytest.fixture
    def p(self, harness: Harness) -> str:
        return harness.prefix

    # Keys and revisions

    async def test_a_key_which_was_never_put_does_not_exist(self, keyspace: KeySpace, p: str) -> None:
        assert await keyspace.get(f"{p}none") is None
        snapshot = await keyspace.range(p)
        assert snapshot.entries == ()
        assert snapshot.revision >= 1
        assert (await keyspace.status()).revision == snapshot.revision

    async def test_a_life_of_a_key_counts_its_values(self, keyspace: KeySpace, p: str) -> None:
        key = f"{p}a"
        born = (await keyspace.transact(then=[PutKey(key, b"one")])).revision
        changed = (await keyspace.transact(then=[PutKey(key, b"two")])).revision
        assert changed > born
        assert await keyspace.get(key) == KeyValue(key, b"two", born, changed, 2)
        gone = await keyspace.transact(then=[DeleteKey(key)])
        assert gone.results == ((KeyValue(key, b"two", born, changed, 2),),)
        assert await keyspace.get(key) is None
        again = (await keyspace.transact(then=[PutKey(key, b"three")])).revision
        assert await keyspace.get(key) == KeyValue(key, b"three", again, again, 1)

    async def test_all_changes_of_a_transaction_have_its_revision(self, keyspace: KeySpace, p: str) -> None:
        outcome = await keyspace.transact(then=[PutKey(f"{p}{name}", b"") for name in "cab"])
        snapshot = await keyspace.range(p)
        assert [(e.key, e.mod_revision) for e in snapshot.entries] == [(f"{p}{n}", outcome.revision) for n in "abc"]
        assert snapshot.revision >= outcome.revision

    async def test_what_changes_nothing_takes_no_revision(self, keyspace: KeySpace, p: str) -> None:
        before = (await keyspace.transact(then=[PutKey(f"{p}a", b"")])).revision
        assert (await keyspace.transact(then=[ReadKey(f"{p}a"), DeleteKey(f"{p}none")])).revision == before
        assert (await keyspace.transact([is_absent(f"{p}a")], [PutKey(f"{p}a", b"")])).revision == before
        assert (await keyspace.transact(then=[PutKey(f"{p}a", b"")])).revision == before + 1

    async def test_a_prefix_takes_no_neighbours(self, keyspace: KeySpace, p: str) -> None:
        names = ["a", "a/", "a/b", "a/ö", "a/\U0010ffff", "a0", "b"]
        await keyspace.transact(then=[PutKey(f"{p}{name}", name.encode()) for name in reversed(names)])
        found = (await keyspace.range(f"{p}a/")).entries
        assert [e.key.removeprefix(p) for e in found] == ["a/", "a/b", "a/ö", "a/\U0010ffff"]
        assert [e.value for e in found] == [e.key.removeprefix(p).encode() for e in found]
        assert [e.key.removeprefix(p) for e in (await keyspace.range(p)).entries] == names
        assert {e.key for e in found} <= {e.key for e in (await keyspace.range("")).entries}
        removed = await keyspace.transact(then=[DeleteKey(f"{p}a/", is_prefix=True)])
        assert removed.results == (found,)
        assert [e.key.removeprefix(p) for e in (await keyspace.range(p)).entries] == ["a", "a0", "b"]

    async def test_values_are_any_bytes(self, keyspace: KeySpace, p: str) -> None:
        values = {f"{p}{n}": value for n, value in enumerate((b"", b"\0", bytes(range(256)), b"\xff" * 100_000))}
        await keyspace.transact(then=[PutKey(key, value) for key, value in values.items()])
        assert {e.key: e.value for e in (await keyspace.range(p)).entries} == values

    # Transactions

    async def test_then_or_otherwise(self, keyspace: KeySpace, p: str) -> None:
        key = f"{p}owner"
        claim = ([is_absent(key)], [PutKey(key, b"me")], [ReadKey(key)])
        won = await keyspace.transact(*claim)
        assert (won.succeeded, won.results) == (True, ((),))
        lost = await keyspace.transact(*claim)
        assert (lost.succeeded, lost.revision) == (False, won.revision)
        assert lost.results == ((KeyValue(key, b"me", won.revision, won.revision, 1),),)

    async def test_all_compares_must_hold(self, keyspace: KeySpace, p: str) -> None:
        await keyspace.transact(then=[PutKey(f"{p}a", b"")])
        one_fails = [is_present(f"{p}a"), is_present(f"{p}b")]
        outcome = await keyspace.transact(one_fails, [PutKey(f"{p}c", b"then")], [PutKey(f"{p}c", b"otherwise")])
        assert not outcome.succeeded
        entry = await keyspace.get(f"{p}c")
        assert entry is not None
        assert entry.value == b"otherwise"

    async def test_operations_see_those_before_them(self, keyspace: KeySpace, p: str) -> None:
        old = (await keyspace.transact(then=[PutKey(f"{p}a", b"old"), PutKey(f"{p}b", b"old")])).revision
        outcome = await keyspace.transact(
            then=[
                ReadKey(p, is_prefix=True),
                PutKey(f"{p}a", b"new"),
                DeleteKey(f"{p}b"),
                PutKey(f"{p}c", b"new"),
                ReadKey(p, is_prefix=True),
            ]
        )
        new = outcome.revision
        a, b = KeyValue(f"{p}a", b"old", old, old, 1), KeyValue(f"{p}b", b"old", old, old, 1)
        after = (KeyValue(f"{p}a", b"new", old, new, 2), KeyValue(f"{p}c", b"new", new, new, 1))
        assert outcome.results == ((a, b), (a,), (b,), (), after)
        assert (await keyspace.range(p)).entries == after

    async def test_a_value_read_is_still_the_one(self, keyspace: KeySpace, p: str) -> None:
        await keyspace.transact(then=[PutKey(f"{p}a", b"")])
        entry = await keyspace.get(f"{p}a")
        assert entry is not None
        assert (await keyspace.transact([is_unchanged(entry)], [DeleteKey(f"{p}a")])).succeeded
        assert (await keyspace.transact(then=[PutKey(f"{p}a", b"")])).succeeded
        assert not (await keyspace.transact([is_unchanged(entry)])).succeeded, "the same value in another life"

    async def test_every_target_in_every_relation(self, keyspace: KeySpace, p: str) -> None:
        lease = await keyspace.grant_lease(60_000)
        key = f"{p}a"
        await keyspace.transact(then=[PutKey(key, b"l")])
        await keyspace.transact(then=[PutKey(key, b"m", lease.id)])
        entry = await keyspace.get(key)
        assert entry is not None
        relations = {
            Relation.EQUAL: (False, True, False),
            Relation.NOT_EQUAL: (True, False, True),
            Relation.GREATER: (True, False, False),
            Relation.LESS: (False, False, True),
        }
        wrong = []
        for target in Target:
            actual = getattr(entry, target.value)
            around = (b"l", b"m", b"n") if isinstance(actual, bytes) else (actual - 1, actual, actual + 1)
            for relation, expected in relations.items():
                for operand, holds in zip(around, expected, strict=True):
                    compare = Compare(key, target, relation, operand)
                    if (await keyspace.transact([compare])).succeeded is not holds:
                        wrong.append(compare)
        assert wrong == []
        await keyspace.revoke_lease(lease.id)

    async def test_a_missing_key_is_0_and_has_no_value(self, keyspace: KeySpace, p: str) -> None:
        numbers = [target for target in Target if target is not Target.VALUE]
        zeros = [Compare(f"{p}none", target, Relation.EQUAL, 0) for target in numbers]
        assert (await keyspace.transact(zeros)).succeeded
        for relation in Relation:
            assert not (await keyspace.transact([Compare(f"{p}none", Target.VALUE, relation, b"")])).succeeded

    async def test_bad_requests_are_refused_before_they_are_sent(self, keyspace: KeySpace, p: str) -> None:
        big = b"x" * (VALUE_BYTES_MAX + 1)
        many = [PutKey(f"{p}{n}", b"") for n in range(OPERATIONS_MAX + 1)]
        bad: list[tuple[type[PenstockError], list[Compare], list[Operation]]] = [
            (InvalidArgument, [], [PutKey("", b"")]),
            (InvalidArgument, [], [PutKey(f"{p}a\0b", b"")]),
            (InvalidArgument, [], [ReadKey(f"{p}\ud800")]),
            (InvalidArgument, [], [PutKey(f"{p}a", b""), PutKey(f"{p}a", b"")]),
            (InvalidArgument, [], [PutKey(f"{p}a", b""), DeleteKey(f"{p}a")]),
            (InvalidArgument, [], [DeleteKey(p, is_prefix=True), PutKey(f"{p}a", b"")]),
            (LimitExceeded, [], [PutKey("k" * (KEY_BYTES_MAX + 1), b"")]),
            (LimitExceeded, [], [PutKey(f"{p}a", big)]),
            (LimitExceeded, [], [PutKey(f"{p}{n}", big[1 : len(big) // 2]) for n in range(3)]),
            (LimitExceeded, [], list(many)),
            (LimitExceeded, [is_absent(f"{p}a")] * (OPERATIONS_MAX + 1), []),
        ]
        before = (await keyspace.status()).revision
        for kind, compares, then in bad:
            with pytest.raises(kind):
                await keyspace.transact(compares, then)
            with pytest.raises(kind):
                await keyspace.transact(compares, otherwise=then)
        assert (await keyspace.status()).revision == before
        for key in ("", "a\0", "\ud800"):
            with pytest.raises(InvalidArgument):
                await keyspace.get(key)
        assert (await keyspace.transact(then=[*many[:OPERATIONS_MAX]])).succeeded
        assert (await keyspace.transact(then=[PutKey(f"{p}big", big[1:])])).succeeded

    async def test_transactions_of_many_clients_take_turns(self, harness: Harness, p: str) -> None:
        """Ten increments each by three clients, none lost: compare, put, and again when another was faster."""

        async def add_ten(keyspace: KeySpace) -> None:
            for _ in range(10):
                while not await added_one(keyspace):
                    pass

        async def added_one(keyspace: KeySpace) -> bool:
            entry = await keyspace.get(f"{p}sum")
            total = 0 if entry is None else int(entry.value)
            unchanged = is_at(f"{p}sum", entry.mod_revision if entry else Revision(0))
            return (await keyspace.transact([unchanged], [PutKey(f"{p}sum", b"%d" % (total + 1))])).succeeded

        clients = [await harness.open() for _ in range(3)]
        await asyncio.gather(*map(add_ten, clients))
        entry = await clients[0].get(f"{p}sum")
        assert entry is not None
        assert (entry.value, entry.version) == (b"30", 30)

    @pytest.mark.parametrize("seed", range(3))
    async def test_random_transactions_linearize(self, harness: Harness, p: str, seed: int) -> None:
        clients = [await harness.open() for _ in range(3)]
        base = (await clients[0].status()).revision
        attempts: list[Attempt] = []

        async def run(number: int) -> None:
            draw = random_transaction(p, seed * 100 + number)
            for _ in range(25):
                transaction = next(draw)
                known = max((a.outcome.revision for a in attempts), default=base)  # ended before this one began
                outcome = await clients[number].transact(transaction.compares, transaction.then, transaction.otherwise)
                attempts.append(Attempt(transaction, outcome, known))

        await asyncio.gather(*map(run, range(3)))
        final = await clients[0].range(p)
        check_linearizable(attempts, base, final)
        assert any(a.outcome.succeeded for a in attempts)
        assert any(not a.outcome.succeeded for a in attempts)

    # History

    async def test_reading_at_a_revision(self, keyspace: KeySpace, p: str) -> None:
        first = (await keyspace.transact(then=[PutKey(f"{p}a", b"1"), PutKey(f"{p}b", b"1")])).revision
        second = (await keyspace.transact(then=[PutKey(f"{p}a", b"2"), DeleteKey(f"{p}b")])).revision
        third = (await keyspace.transact(then=[DeleteKey(f"{p}a"), PutKey(f"{p}b", b"3")])).revision
        states = {at: (await keyspace.range(p, at=at)).entries for at in (Revision(first - 1), first, second, third)}
        assert [[(e.key, e.value) for e in entries] for entries in states.values()] == [
            [],
            [(f"{p}a", b"1"), (f"{p}b", b"1")],
            [(f"{p}a", b"2")],
            [(f"{p}b", b"3")],
        ]
        assert await keyspace.get(f"{p}a", at=first) == states[first][0]
        assert await keyspace.get(f"{p}a", at=third) is None
        with pytest.raises(PreconditionFailed):
            await keyspace.get(f"{p}a", at=Revision(third + 1_000))
        with pytest.raises(PreconditionFailed):
            await keyspace.range(p, at=Revision(third + 1_000))

    async def test_compaction_keeps_the_state_and_drops_what_was_before(self, keyspace: KeySpace, p: str) -> None:
        first = (
            await keyspace.transact(then=[PutKey(f"{p}a", b"1"), PutKey(f"{p}b", b"1"), PutKey(f"{p}c", b"1")])
        ).revision
        second = (await keyspace.transact(then=[PutKey(f"{p}a", b"2"), DeleteKey(f"{p}b")])).revision
        third = (await keyspace.transact(then=[PutKey(f"{p}a", b"3"), DeleteKey(f"{p}c")])).revision
        at_second = await keyspace.range(p, at=second)
        await keyspace.compact(second)
        assert await keyspace.range(p, at=second) == at_second
        assert [e.value for e in (await keyspace.range(p, at=third)).entries] == [b"3"]
        with pytest.raises(Compacted):
            await keyspace.range(p, at=first)
        with pytest.raises(Compacted):
            await keyspace.get(f"{p}a", at=first)
        await keyspace.compact(second)  # again: nothing to do
        with pytest.raises(PreconditionFailed):
            await keyspace.compact(Revision(third + 1_000))

    # Watches

    async def test_a_watch_shows_what_was_and_what_comes(self, keyspace: KeySpace, p: str) -> None:
        first = (await keyspace.transact(then=[PutKey(f"{p}a", b"1")])).revision
        async with keyspace.watch(p, first) as watch:
            assert await shown_until(watch, first) == [
                KeyChange(first, f"{p}a", KeyValue(f"{p}a", b"1", first, first, 1))
            ]
            second = (await keyspace.transact(then=[DeleteKey(f"{p}a"), PutKey(f"{p}b", b"2")])).revision
            assert await shown_until(watch, second) == [
                KeyChange(second, f"{p}a", None),
                KeyChange(second, f"{p}b", KeyValue(f"{p}b", b"2", second, second, 1)),
            ]

    async def test_a_watch_after_a_read_misses_and_repeats_nothing(self, harness: Harness, p: str) -> None:
        writer, reader = await harness.open(), await harness.open()
        await writer.transact(then=[PutKey(f"{p}0", b"")])

        async def write() -> Revision:
            last = Revision(0)
            for n in range(1, 40):
                last = (await writer.transact(then=[PutKey(f"{p}{n}", b"")])).revision
            return last

        writing = asyncio.create_task(write())
        await asyncio.sleep(0)
        snapshot = await reader.range(p)
        async with reader.watch(p, Revision(snapshot.revision + 1)) as watch:
            last = await writing
            seen = [e.key for e in snapshot.entries]
            if snapshot.revision < last:
                seen += [change.key for change in await shown_until(watch, last)]
        assert sorted(seen) == sorted(f"{p}{n}" for n in range(40))

    async def test_a_watch_shows_its_prefix_only(self, keyspace: KeySpace, p: str) -> None:
        start = (await keyspace.transact(then=[PutKey(f"{p}a/1", b""), PutKey(f"{p}b/1", b"")])).revision
        async with keyspace.watch(f"{p}b/", start) as watch:
            await keyspace.transact(then=[PutKey(f"{p}a/2", b"")])
            last = (await keyspace.transact(then=[PutKey(f"{p}b/2", b""), PutKey(f"{p}b0", b"")])).revision
            assert order_of(await shown_until(watch, last)) == [(start, f"{p}b/1"), (last, f"{p}b/2")]

    async def test_delete_and_recreate_are_both_shown(self, keyspace: KeySpace, p: str) -> None:
        """However fast it went: gazette.md §5.4, a re-created item taken for the old one."""
        born = (await keyspace.transact(then=[PutKey(f"{p}a", b"same")])).revision
        gone = (await keyspace.transact(then=[DeleteKey(f"{p}a")])).revision
        again = (await keyspace.transact(then=[PutKey(f"{p}a", b"same")])).revision
        async with keyspace.watch(p, Revision(born + 1)) as watch:
            assert await shown_until(watch, again) == [
                KeyChange(gone, f"{p}a", None),
                KeyChange(again, f"{p}a", KeyValue(f"{p}a", b"same", again, again, 1)),
            ]

    async def test_a_revision_comes_whole(self, keyspace: KeySpace, p: str) -> None:
        start = Revision((await keyspace.status()).revision + 1)
        revisions = [
            (await keyspace.transact(then=[PutKey(f"{p}{n}", b"x" * 100) for n in range(OPERATIONS_MAX)])).revision
            for _ in range(10)
        ]
        async with keyspace.watch(p, start) as watch, asyncio.timeout(WAIT_S):
            seen: list[Revision] = []
            while not seen or seen[-1] < revisions[-1]:
                batch = await anext(watch)
                in_batch = [change.revision for change in batch.changes]
                assert {r: in_batch.count(r) for r in in_batch} == dict.fromkeys(in_batch, OPERATIONS_MAX)
                assert order_of(list(batch.changes)) == sorted(order_of(list(batch.changes)))
                seen += sorted(set(in_batch))
        assert seen == revisions

    async def test_a_watch_may_start_in_the_future(self, keyspace: KeySpace, p: str) -> None:
        now = (await keyspace.transact(then=[PutKey(f"{p}a", b"0")])).revision
        async with keyspace.watch(p, Revision(now + 3)) as watch:
            for n in range(1, 5):
                await keyspace.transact(then=[PutKey(f"{p}a", b"%d" % n)])
            shown = await shown_until(watch, Revision(now + 4))
        assert [change.now.value for change in shown if change.now] == [b"3", b"4"]

    async def test_a_watch_of_compacted_history_says_so_and_a_read_helps(self, keyspace: KeySpace, p: str) -> None:
        first = (await keyspace.transact(then=[PutKey(f"{p}a", b"1")])).revision
        second = (await keyspace.transact(then=[DeleteKey(f"{p}a")])).revision
        await keyspace.compact(second)
        for start in (first, second):  # also that of the compaction: its removals are gone
            async with keyspace.watch(p, start) as watch, asyncio.timeout(WAIT_S):
                with pytest.raises(Compacted):
                    await anext(watch)
        snapshot = await keyspace.range(p)
        async with keyspace.watch(p, Revision(snapshot.revision + 1)) as watch:
            third = (await keyspace.transact(then=[PutKey(f"{p}a", b"3")])).revision
            assert order_of(await shown_until(watch, third)) == [(third, f"{p}a")]

    async def test_watches_do_not_disturb_each_other(self, harness: Harness, p: str) -> None:
        one, other = await harness.open(), await harness.open()
        start = Revision((await one.status()).revision + 1)
        async with AsyncExitStack() as open_watches:
            watches = [
                await open_watches.enter_async_context(client.watch(prefix, start))
                for client in (one, other)
                for prefix in (p, f"{p}a")
            ]
            async with one.watch(p, start):
                pass  # closed at once
            last = (await other.transact(then=[PutKey(f"{p}a", b"")])).revision
            assert [order_of(await shown_until(watch, last)) for watch in watches] == [[(last, f"{p}a")]] * 4

    async def test_who_waits_for_a_batch_may_give_up_and_wait_again(self, keyspace: KeySpace, p: str) -> None:
        start = Revision((await keyspace.status()).revision + 1)
        async with keyspace.watch(p, start) as watch:
            for n in range(5):
                waiting = asyncio.ensure_future(anext(watch))
                for _ in range(n):
                    await asyncio.sleep(0)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            last = (await keyspace.transact(then=[PutKey(f"{p}a", b"")])).revision
            assert order_of(await shown_until(watch, last)) == [(last, f"{p}a")]

    async def test_a_watch_goes_on_after_a_restart(self, harness: Harness, keyspace: KeySpace, p: str) -> None:
        first = (await keyspace.transact(then=[PutKey(f"{p}a", b"1")])).revision
        async with keyspace.watch(p, first) as watch:
            assert order_of(await shown_until(watch, first)) == [(first, f"{p}a")]
            await harness.restart()
            writer = await harness.open()
            second = (await writer.transact(then=[PutKey(f"{p}a", b"2")])).revision
            assert order_of(await shown_until(watch, second)) == [(second, f"{p}a")]
        assert second == first + 1, "nothing acknowledged was forgotten"

    # Leases

    async def test_revoking_a_lease_removes_its_keys_in_one_revision(self, keyspace: KeySpace, p: str) -> None:
        lease = await keyspace.grant_lease(60_000)
        assert lease.ttl_ms >= 60_000
        put = await keyspace.transact(
            then=[PutKey(f"{p}a", b"", lease.id), PutKey(f"{p}b", b"", lease.id), PutKey(f"{p}c", b"")]
        )
        status = await keyspace.lease_status(lease.id)
        assert (status.id, status.ttl_ms, status.keys) == (lease.id, lease.ttl_ms, (f"{p}a", f"{p}b"))
        assert 0 < status.remaining_ms <= lease.ttl_ms
        async with keyspace.watch(p, Revision(put.revision + 1)) as watch:
            await keyspace.revoke_lease(lease.id)
            gone = Revision(put.revision + 1)
            assert await shown_until(watch, gone) == [KeyChange(gone, f"{p}a", None), KeyChange(gone, f"{p}b", None)]
        assert [e.key for e in (await keyspace.range(p)).entries] == [f"{p}c"]

    async def test_a_lease_which_is_not_renewed_ends(self, harness: Harness, keyspace: KeySpace, p: str) -> None:
        lease = await keyspace.grant_lease(harness.lease_ms)
        put = await keyspace.transact(then=[PutKey(f"{p}a", b"", lease.id), PutKey(f"{p}b", b"", lease.id)])
        async with keyspace.watch(p, Revision(put.revision + 1)) as watch:
            await harness.let_time_pass(lease.ttl_ms + 1)
            changes = await shown_until(watch, Revision(put.revision + 1))
        assert [(change.key, change.now) for change in changes] == [(f"{p}a", None), (f"{p}b", None)]
        await self._assert_gone(keyspace, lease.id, p)

    async def test_a_lease_of_a_client_which_is_gone_ends(self, harness: Harness, keyspace: KeySpace, p: str) -> None:
        holder = await harness.open()
        lease = await holder.grant_lease(harness.lease_ms)
        put = await holder.transact(then=[PutKey(f"{p}a", b"", lease.id)])
        await holder.close()
        assert await keyspace.get(f"{p}a") is not None, "closing ends no lease"
        async with keyspace.watch(p, Revision(put.revision + 1)) as watch:
            await harness.let_time_pass(lease.ttl_ms + 1)
            assert [c.now for c in await shown_until(watch, Revision(put.revision + 1))] == [None]

    async def test_a_renewed_lease_lives_on(self, harness: Harness, keyspace: KeySpace, p: str) -> None:
        lease = await keyspace.grant_lease(harness.lease_ms)
        await keyspace.transact(then=[PutKey(f"{p}a", b"", lease.id)])
        for _ in range(4):
            await harness.let_time_pass(lease.ttl_ms * 2 // 3)
            assert await keyspace.keep_alive(lease.id) == lease
        assert await keyspace.get(f"{p}a") is not None
        await keyspace.revoke_lease(lease.id)

    async def test_a_revoked_lease_is_gone_for_every_use(self, keyspace: KeySpace, p: str) -> None:
        lease = await keyspace.grant_lease(60_000)
        await keyspace.revoke_lease(lease.id)
        await self._assert_gone(keyspace, lease.id, p)

    async def _assert_gone(self, keyspace: KeySpace, lease: LeaseId, p: str) -> None:
        with pytest.raises(LeaseExpired):
            await keyspace.keep_alive(lease)
        with pytest.raises(LeaseExpired):
            await keyspace.lease_status(lease)
        with pytest.raises(LeaseExpired):
            await keyspace.revoke_lease(lease)
        with pytest.raises(LeaseExpired):
            await keyspace.transact(then=[PutKey(f"{p}other", b""), PutKey(f"{p}zombie", b"", lease)])
        assert await keyspace.get(f"{p}other") is None, "refused as a whole"
        unharmed = await keyspace.transact([is_absent(f"{p}z")], [], [PutKey(f"{p}zombie", b"", lease)])
        assert unharmed.succeeded, "only the branch which is taken counts"

    async def test_a_key_hangs_on_the_lease_of_its_last_put(self, keyspace: KeySpace, p: str) -> None:
        one, other = await keyspace.grant_lease(60_000), await keyspace.grant_lease(60_000)
        assert one.id != other.id
        await keyspace.transact(then=[PutKey(f"{p}{name}", b"", one.id) for name in "abc"])
        await keyspace.transact(then=[PutKey(f"{p}b", b""), PutKey(f"{p}c", b"", other.id)])
        await keyspace.revoke_lease(one.id)
        found = (await keyspace.range(p)).entries
        assert [(e.key, e.lease) for e in found] == [(f"{p}b", NO_LEASE), (f"{p}c", other.id)]
        await keyspace.revoke_lease(other.id)
        assert [e.key for e in (await keyspace.range(p)).entries] == [f"{p}b"]

    async def test_a_lease_survives_a_restart(self, harness: Harness, keyspace: KeySpace, p: str) -> None:
        lease = await keyspace.grant_lease(60_000)
        await keyspace.transact(then=[PutKey(f"{p}a", b"", lease.id)])
        await harness.restart()
        again = await harness.open()
        assert (await again.keep_alive(lease.id)).id == lease.id
        assert (await again.lease_status(lease.id)).keys == (f"{p}a",)
        await again.revoke_lease(lease.id)

    async def test_bad_leases_are_refused(self, keyspace: KeySpace) -> None:
        for ttl_ms in (0, -1, 10**12):
            with pytest.raises(InvalidArgument):
                await keyspace.grant_lease(ttl_ms)
