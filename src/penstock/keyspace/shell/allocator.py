"""The allocator at work: for one member, on a mirror of the KeySpace. Design: gazette.md §1.5.

Every member runs one. While its member is the oldest, it loads the state, follows every change and does what the core
(`penstock.keyspace.core.allocator`) plans, round by round: transactions, then waiting until the mirror shows them. A
lost compare means that something changed meanwhile, and the items are looked at again. A daemon that leads without
knowing that it no longer does changes nothing: every transaction compares its member's key.

For its own member it also knows which items are assigned to it, and drains: offers nothing any more, and waits until
nothing is left.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, Self

from penstock.kernel.errors import Indeterminate, InternalError, LeaseExpired, PenstockError, Unavailable
from penstock.kernel.ids import Revision
from penstock.keyspace.core.allocator import AllocationBatch, Allocator, MemberId, Policy, Suspicions, leader_of
from penstock.keyspace.core.mirror import MirrorChange
from penstock.keyspace.core.records import NO_REVISION
from penstock.keyspace.shell.membership import Membership
from penstock.keyspace.shell.mirror import KeySpaceMirror
from penstock.keyspace.shell.port import KeySpace
from penstock.plumbing.process.logs import get_logger

__all__ = ["AllocatorDaemon"]

_IN_FLIGHT_MAX: Final = 8  # transactions of one round
_RETRY_S: Final = 0.05  # after a round in which something was lost; doubles up to the next figure
_RETRY_S_MAX: Final = 2.0

log = get_logger()


class AllocatorDaemon:
    """Allocates while its member leads. Make it with `start`, and `close` it before the mirror.

    `on_failure` is called at most once, when the daemon cannot continue: its process should then end, so that another
    leads.
    """

    def __init__(
        self,
        keyspace: KeySpace,
        mirror: KeySpaceMirror,
        root: str,
        me: MemberId,
        policy: Policy,
        on_failure: Callable[[PenstockError], None],
    ) -> None:
        self.me = me
        self._keyspace = keyspace
        self._mirror = mirror
        self._root = root
        self._policy = policy
        self._on_failure = on_failure
        self._layout = Allocator(root, policy).layout
        self._allocator: Allocator | None = None  # only while this member leads
        self._aside: dict[str, str] = {}  # items that are set aside, as the log says
        self._missed: list[MirrorChange] | None = None  # what changed while the allocator loads
        self._changed = asyncio.Event()
        self._mine: dict[str, str] = {}  # key of each assignment of this member → item
        self._mine_changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stop_observing: Callable[[], None] = lambda: None

    @classmethod
    def start(
        cls,
        keyspace: KeySpace,
        mirror: KeySpaceMirror,
        root: str,
        me: MemberId,
        policy: Policy,
        *,
        on_failure: Callable[[PenstockError], None] = lambda _: None,
    ) -> Self:
        """Begin. The mirror must have all keys under the root, and what the policy asks for."""
        daemon = cls(keyspace, mirror, root, me, policy, on_failure)
        for entry in mirror.range(daemon._layout.assignments):
            daemon._note_mine(entry.key, is_there=True)
        daemon._stop_observing = mirror.observe(daemon._observe)
        daemon._changed.set()
        daemon._task = asyncio.create_task(daemon._run(), name=f"allocator of {me}")
        return daemon

    # Asking

    @property
    def is_leading(self) -> bool:
        layout, members = self._layout, self._mirror.range(self._layout.members)
        suspicions = Suspicions.of(layout, self._mirror.range(layout.suspects))
        away = suspicions.away(entry.key[len(layout.members) :] for entry in members)
        leader = leader_of(members, away, layout.members)
        return leader is not None and leader.key == self._layout.member_key(self.me)

    @property
    def assigned_items(self) -> list[str]:
        """Return the items assigned to this member now."""
        return sorted(set(self._mine.values()))

    @property
    def short_items(self) -> list[str]:
        """Items without enough members, as far as this one leads and knows."""
        return [] if self._allocator is None else self._allocator.short_items

    # Life

    async def drain(self, membership: Membership, exiting_value: bytes, *, wait_s: float) -> list[str]:
        """Have this member relieved of everything. Returns the items that it still has when the time is over, ideally
        none.

        An item that no other member can take stays: our convenience never leaves it with fewer members than it needs.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._mirror.wait_for_revision(await membership.update(exiting_value))
                while self._mine:
                    self._mine_changed.clear()
                    await self._mine_changed.wait()
        return self.assigned_items

    async def close(self) -> None:
        self._stop_observing()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Following

    def _observe(self, applied: MirrorChange) -> None:
        for change in applied.changes:
            if change.key.startswith(self._layout.assignments):
                self._note_mine(change.key, is_there=change.after is not None)
        if self._missed is not None:
            self._missed.append(applied)
        elif self._allocator is not None:
            self._allocator.apply(applied.changes)
        self._changed.set()

    def _note_mine(self, key: str, *, is_there: bool) -> None:
        place = self._layout.parse_assignment(key)
        if place is None or place.member != str(self.me):
            return
        if is_there:
            self._mine[key] = place.item
        else:
            self._mine.pop(key, None)
        self._mine_changed.set()

    # Allocating

    async def _run(self) -> None:
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                if not self.is_leading:
                    self._allocator = None
                    continue
                if self._allocator is None:
                    self._allocator = await self._load()
                await self._rounds(self._allocator)
        except PenstockError as error:
            self._fail(error)
        except Exception as error:
            self._fail(InternalError(f"the allocator failed: {type(error).__name__}: {error}"))

    def _fail(self, error: PenstockError) -> None:
        log.error("allocator failed", member=str(self.me), reason=str(error))
        self._allocator = None
        self._on_failure(error)

    async def _load(self) -> Allocator:
        """In a thread, because there may be hundreds of thousands of keys; what changes meanwhile comes behind."""
        log.info("allocator leads", member=str(self.me), root=self._root)
        allocator = Allocator(self._root, self._policy)
        entries = self._mirror.range(f"{self._root}/")
        self._missed = []
        try:
            await asyncio.to_thread(allocator.load, entries)
            for applied in self._missed:
                allocator.apply(applied.changes)
        finally:
            self._missed = None
        return allocator

    async def _rounds(self, allocator: Allocator) -> None:
        pause_s = _RETRY_S
        while self.is_leading and not allocator.is_idle:
            batches = allocator.plan(self.me)
            self._report_aside(allocator.aside_items)
            if not batches:
                await asyncio.sleep(0)  # a plan looks at some items only: let others work before the next
                continue
            if await self._do(allocator, batches):
                pause_s = _RETRY_S
            else:
                await self._wait_for_change(pause_s)
                pause_s = min(2 * pause_s, _RETRY_S_MAX)

    def _report_aside(self, aside: dict[str, str]) -> None:
        for item in aside.keys() - self._aside.keys():
            log.error("item not allocated", item=item[:200], reason=aside[item])
        self._aside = aside

    async def _do(self, allocator: Allocator, batches: list[AllocationBatch]) -> bool:
        """Return whether all batches took place. The mirror then shows the successful ones."""
        gate = asyncio.Semaphore(_IN_FLIGHT_MAX)

        async def transact(batch: AllocationBatch) -> Revision:
            async with gate:
                return await self._transact(batch)

        revisions = await asyncio.gather(*map(transact, batches))
        done = max(revisions)
        if done != NO_REVISION:
            await self._mirror.wait_for_revision(done)
        for batch, revision in zip(batches, revisions, strict=True):
            if revision == NO_REVISION:
                allocator.retry(batch)
        return NO_REVISION not in revisions

    async def _transact(self, batch: AllocationBatch) -> Revision:
        """Return the batch's revision; NO_REVISION if it lost or its outcome is unknown."""
        transaction = batch.transaction
        try:
            outcome = await self._keyspace.transact(transaction.compares, transaction.then)
        except (Unavailable, Indeterminate, LeaseExpired) as error:  # a member's lease may end at any time
            log.info("allocation not done", items=len(batch.items), reason=str(error))
            return NO_REVISION
        return outcome.revision if outcome.succeeded else NO_REVISION

    async def _wait_for_change(self, pause_s: float) -> None:
        """Wait for a change or for the pause: a batch lost to a change that the mirror does not show yet, or the
        KeySpace is away.
        """
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._changed.wait()
        self._changed.set()
