"""How long does the allocator think, and how does that grow with the number of items?

One leader, 100 members in 5 zones, 3 replicas each, in memory: the figure is the processor time of following the mirror
and of planning, not that of a KeySpace. Every replica is consistent as soon as it is assigned. `cold` places everything
from nothing; then an item is created, a member joins and gets its share, a member dies and is replaced, and another
process takes over the lead and reads the whole state. `through the embedded KeySpace` is the same cold start by the
daemon, with every transaction on the disk and seen in the mirror, by the clock on the wall.
"""

import asyncio
import statistics
import time
from collections.abc import Iterable, Sequence
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
import uvloop

from penstock.kernel.ids import Revision
from penstock.keyspace.core.allocator import AllocationBatch, Allocator, Capacity, Demand, Layout, MemberId
from penstock.keyspace.core.mirror import Mirror, MirrorChange, MirrorEntry
from penstock.keyspace.core.records import FIRST_REVISION, KeyChange, KeySnapshot, KeyValue, LeaseId, WatchBatch
from penstock.keyspace.core.transaction import Compare, Operation, PutKey, Transaction, execute
from penstock.keyspace.shell import KeySpace, KeySpaceMirror, open_keyspace
from penstock.keyspace.shell.allocator import AllocatorDaemon
from penstock_lab.bench.report import Options, RowRecorder

__all__ = ["QUESTION", "run"]

QUESTION: Final = "How long does the allocator think for 1,000 to 100,000 items on 100 members?"

OURS: Final = "penstock"
ROOT: Final = "/bench"
ITEMS: Final = (1_000, 10_000, 100_000)
ZONES: Final = 5
REPLICATION: Final = 3


def run(recorder: RowRecorder, options: Options) -> None:
    """Every case at every size; the largest once, smaller ones as often as asked."""
    sizes = (50, 200) if options.quick else ITEMS
    members = 10 if options.quick else 100
    cold: list[tuple[float, float]] = []
    for items in sizes:
        repeats = 1 if options.quick or items == sizes[-1] else options.repeats
        runs = []
        for number in range(repeats):
            recorder.progress(f"{items} items on {members} members, run {number + 1} of {repeats}")
            runs.append(_measure(items, members))
        for what, unit in _UNITS.items():
            value = statistics.median(figures[what] for figures in runs)
            recorder.row(what, OURS, round(value, 4), unit, items=items, members=members)
        cold.append((items, statistics.median(figures["cold start"] for figures in runs)))
    recorder.grows("a cold start by items", "items", "s of processor time", {OURS: cold})
    (fewer, fewer_s), (more, more_s) = cold[-2:]
    for items in sizes[:2]:
        recorder.progress(f"{items} items through the embedded KeySpace")
        recorder.row("through the embedded KeySpace", OURS, round(_embedded(items, members), 3), "s", items=items)
    recorder.bar("cold_s_per_item_growth", round((more_s / more) / (fewer_s / fewer), 2), at_most=2)


_UNITS: Final = {
    "cold start": "s",
    "longest plan": "ms",
    "one item created": "us",
    "a member joins": "s",
    "moves for the member that joined, over its fair share": "x",
    "a member dies": "s",
    "another leader reads all": "s",
    "fullest member over fair share": "x",
}


def _measure(items: int, members: int) -> dict[str, float]:
    world = _World(items, members)
    figures = {"cold start": world.settle(), "longest plan": world.longest_plan_s * 1e3}
    world.do(PutKey(f"{ROOT}/items/one-more", _encode(Demand(REPLICATION))))
    figures["one item created"] = world.settle() * 1e6
    before = world.pairs()
    world.join(members)
    figures["a member joins"] = world.settle()
    moves = len(world.pairs() - before)
    figures["moves for the member that joined, over its fair share"] = moves / (items * REPLICATION / (members + 1))
    world.die(1)
    figures["a member dies"] = world.settle()
    figures["fullest member over fair share"] = world.fullest() / (items * REPLICATION / members)
    figures["another leader reads all"] = world.fail_over()
    assert not world.allocator.short_items
    return figures


class _World:
    """A KeySpace in memory, and the one allocator that leads."""

    def __init__(self, items: int, members: int) -> None:
        self._layout = Layout(ROOT)
        self._limit = 2 * items * REPLICATION // members + 10
        self._live: dict[str, KeyValue] = {}
        self._revision = FIRST_REVISION
        self.mirror = Mirror(ROOT)
        self.mirror.load(KeySnapshot(self._revision, ()))
        self.allocator = Allocator(ROOT, _Policy(), moves_max=1_000)
        self.longest_plan_s = 0.0
        self._followed_s = 0.0  # processor time since it was last asked for
        self._leader = self.join(0)
        for number in range(1, members):
            self.join(number)
        for number in range(items):
            self.do(PutKey(f"{ROOT}/items/item-{number:06}", _encode(Demand(REPLICATION))))

    def join(self, number: int) -> MemberId:
        member = MemberId(f"zone-{number % ZONES}", f"member-{number:03}")
        self.do(PutKey(self._layout.member_key(member), _encode(Capacity(self._limit)), LeaseId(number + 1)))
        return member

    def die(self, number: int) -> None:
        """Remove all keys of its lease in one revision."""
        gone = [entry.key for entry in self._live.values() if entry.lease == number + 1]
        self._commit(dict.fromkeys(gone))

    def do(self, *operations: Operation) -> None:
        self._transact(Transaction(then=operations))

    def settle(self) -> float:
        """Until there is nothing to do. Returns the processor time the allocator took, for following and planning."""
        used_s = self._followed_s
        self._followed_s = 0.0
        while True:
            batches, plan_s = self._plan()
            used_s += plan_s
            self.longest_plan_s = max(self.longest_plan_s, plan_s)
            for batch in batches:
                self._transact(batch.transaction)
            used_s += self._followed_s
            self._followed_s = 0.0
            if not batches and self.allocator.is_settled:
                return used_s

    def fail_over(self) -> float:
        began = time.process_time()
        allocator = Allocator(ROOT, _Policy())
        allocator.load(self.mirror.range(ROOT))
        assert allocator.plan(self._leader) == [], "a settled cluster needs nothing"
        return time.process_time() - began

    def pairs(self) -> set[str]:
        """Item and member of every assignment."""
        return {key.rpartition("#")[0] for key in self._live if key.startswith(self._layout.assignments)}

    def fullest(self) -> int:
        counts: dict[LeaseId, int] = {}
        for key, entry in self._live.items():
            if key.startswith(self._layout.assignments):
                counts[entry.lease] = counts.get(entry.lease, 0) + 1
        return max(counts.values())

    def _plan(self) -> tuple[list[AllocationBatch], float]:
        began = time.process_time()
        batches = self.allocator.plan(self._leader)
        return batches, time.process_time() - began

    def _transact(self, transaction: Transaction) -> None:
        execution = execute(transaction, self, Revision(self._revision + 1))
        assert execution.succeeded, "nobody else writes here"
        self._commit(execution.writes)

    def _commit(self, writes: dict[str, KeyValue | None]) -> None:
        self._revision = Revision(self._revision + 1)
        for key, entry in writes.items():
            if entry is None:
                del self._live[key]
            else:
                self._live[key] = entry
        changes = tuple(KeyChange(self._revision, key, writes[key]) for key in sorted(writes))
        applied = self.mirror.apply(WatchBatch(self._revision, changes))
        began = time.process_time()
        self.allocator.apply(applied.changes)
        self._followed_s += time.process_time() - began

    # As a transaction sees it

    def get(self, key: str) -> KeyValue | None:
        return self._live.get(key)

    def range(self, prefix: str) -> Iterable[KeyValue]:
        raise AssertionError(f"nobody reads {prefix}")

    def has_lease(self, lease: LeaseId) -> bool:
        return True


# With a real KeySpace


def _embedded(items: int, members: int) -> float:
    async def main() -> float:
        with TemporaryDirectory(prefix="penstock-bench-allocator-") as folder:
            async with await open_keyspace(f"embedded://{folder}/keyspace") as keyspace:
                await _populate(keyspace, items, members)
                return await _allocated(keyspace, items)

    return uvloop.run(main())


async def _populate(keyspace: KeySpace, items: int, members: int) -> None:
    limit = _encode(Capacity(2 * items * REPLICATION // members + 10))
    for number in range(members):
        lease = await keyspace.grant_lease(3_600_000)
        key = Layout(ROOT).member_key(MemberId(f"zone-{number % ZONES}", f"member-{number:03}"))
        await keyspace.transact(then=[PutKey(key, limit, lease.id)])
    value = _encode(Demand(REPLICATION))
    for first in range(0, items, 100):
        numbers = range(first, min(items, first + 100))
        await keyspace.transact(then=[PutKey(f"{ROOT}/items/item-{number:06}", value) for number in numbers])


async def _allocated(keyspace: KeySpace, items: int) -> float:
    """Until the mirror shows all replicas."""
    layout, done, missing = Layout(ROOT), asyncio.Event(), items * REPLICATION

    def count(applied: MirrorChange) -> None:
        nonlocal missing
        missing -= sum(
            change.before is None and change.key.startswith(layout.assignments) for change in applied.changes
        )
        if missing == 0:
            done.set()

    async with await KeySpaceMirror.start(keyspace, ROOT) as mirror:
        mirror.observe(count)
        began = time.perf_counter()
        async with AllocatorDaemon.start(keyspace, mirror, ROOT, MemberId("zone-0", "member-000"), _Policy()):
            await done.wait()
        return time.perf_counter() - began


class _Policy:
    """Values are records; whatever is assigned is consistent."""

    def demand(self, item: MirrorEntry) -> Demand:
        return msgspec.msgpack.decode(item.value, type=Demand)

    def capacity(self, member: MirrorEntry) -> Capacity:
        return msgspec.msgpack.decode(member.value, type=Capacity)

    def consistent(self, item: MirrorEntry, assignments: Sequence[MirrorEntry]) -> Sequence[bool]:
        return [True] * len(assignments)

    def guards(self, item: MirrorEntry) -> Sequence[Compare]:
        return ()

    def preferred(self, item: MirrorEntry) -> Sequence[str]:
        return ()

    def may_pass_over(self, item: MirrorEntry, rest: Sequence[MirrorEntry], coming: int) -> bool:
        return False

    def item_of(self, key: str) -> str | None:
        return None


_encode = msgspec.msgpack.encode
