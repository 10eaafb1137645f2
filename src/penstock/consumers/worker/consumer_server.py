"""The shards of one consumer process: those that the KeySpace assigns to it, as primary or standby.

It follows the mirror: an assignment starts a `ShardHost`, its end closes it, the first slot promotes it. What a host
says of itself is written into its assignment, the newest status only.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.consumers.client.definition import ConsumerSpec, ShardDefinition
from penstock.consumers.client.status import ShardStatus
from penstock.consumers.stores.application import Application, ShardContext
from penstock.consumers.worker.shard_host import ShardHost
from penstock.journals.client.journal import Journals
from penstock.kernel.errors import PenstockError, Unavailable
from penstock.keyspace.core.allocator.layout import PRIMARY_SLOT, Layout, MemberId
from penstock.keyspace.core.mirror import MirrorChange, MirrorEntry
from penstock.keyspace.core.transaction import PutKey, is_present
from penstock.keyspace.shell.membership import Membership
from penstock.keyspace.shell.mirror import KeySpaceMirror
from penstock.keyspace.shell.port import KeySpace
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.process.tasks import Tasks

__all__ = ["ConsumerServer"]

log = get_logger()


class ConsumerServer:
    """Runs the shards assigned to a member. `start` it when the member is announced."""

    def __init__(
        self,
        me: MemberId,
        application: Application[Any],
        journals: Journals,
        keyspace: KeySpace,
        mirror: KeySpaceMirror,
        layout: Layout,
        folder: Path | None,
    ) -> None:
        self.me = me
        self._application = application
        self._journals = journals
        self._keyspace = keyspace
        self._mirror = mirror
        self._layout = layout
        self._folder = folder
        self._membership: Membership | None = None
        self._shards: dict[str, _Shard] = {}
        self._tasks = Tasks(lambda error: log.error("background task failed", exc_info=error))
        self._stop_observing: Callable[[], None] = lambda: None

    def start(self, membership: Membership) -> None:
        """Begin with the shards that are assigned already."""
        self._membership = membership
        self._stop_observing = self._mirror.observe(self._observe)
        for entry in self._mirror.range(self._layout.assignments):
            self._look(entry.key)

    async def close(self) -> None:
        self._stop_observing()
        await asyncio.gather(*(shard.close() for shard in self._shards.values()))
        await self._tasks.close()

    @property
    def has_others(self) -> bool:
        """Is there another process which could take our shards over?"""
        mine = self._layout.member_key(self.me)
        others = [entry for entry in self._mirror.range(self._layout.members) if entry.key != mine]
        return any(not ConsumerSpec.decode(entry.stored.value).is_exiting for entry in others)

    def host(self, shard: str) -> ShardHost:
        """The host of a shard which this process consumes."""
        known = self._shards.get(shard)
        if known is None or known.host is None or not known.host.is_primary:
            raise Unavailable(f"{self.me} is not the primary of shard {shard}", next_step="penstock shards list")
        return known.host

    # Following the KeySpace

    def _observe(self, applied: MirrorChange) -> None:
        for change in applied.changes:
            if change.key.startswith(self._layout.assignments):
                self._look(change.key)
            elif change.key.startswith(self._layout.items):
                self._look_at(change.key.removeprefix(self._layout.items))

    def _look(self, key: str) -> None:
        place = self._layout.parse_assignment(key)
        if place is not None and place.member == str(self.me):
            self._look_at(place.item)

    def _look_at(self, item: str) -> None:
        """Make the running shard agree with its assignment."""
        wanted = self._wanted(item)
        shard = self._shards.get(item)
        if shard is None and wanted is not None:
            shard = self._shards[item] = _Shard(self, item)
        if shard is not None:
            shard.want(wanted)

    def _wanted(self, item: str) -> "_Wanted | None":
        definition = self._mirror.get(self._layout.items + item)
        entry = self._assignment(item)
        if entry is None or definition is None or not isinstance(definition.value, ShardDefinition):
            return None
        place = self._layout.parse_assignment(entry.key)
        assert place is not None
        return _Wanted(entry.key, definition.value, is_primary=place.slot == PRIMARY_SLOT)

    def _assignment(self, item: str) -> MirrorEntry | None:
        for entry in self._mirror.range(self._layout.assignments_of(item)):
            place = self._layout.parse_assignment(entry.key)
            if place is not None and place.member == str(self.me):
                return entry
        return None

    # For shards

    def make_host(self, wanted: "_Wanted", on_status: Callable[[ShardStatus], None]) -> ShardHost:
        definition = wanted.definition
        context = ShardContext(
            definition.id, self._journals, definition.recovery_log, self._keyspace, self._layout.root, self._folder
        )
        spec = definition.spec(self._application)
        return ShardHost(
            spec,
            self._application,
            self._journals,
            context=context,
            is_primary=wanted.is_primary,
            may_live=lambda: self._membership is not None and self._membership.is_good,
            on_status=on_status,
        )

    def run(self, shard: "_Shard") -> None:
        self._tasks.start(shard.run(), f"shard {shard.item}")

    async def write(self, key: str, status: ShardStatus) -> None:
        """Write a status into its assignment, if that still exists."""
        assert self._membership is not None
        try:
            await self._keyspace.transact([is_present(key)], [PutKey(key, status.encode(), self._membership.lease)])
        except PenstockError as error:  # the next status is written again; a lost lease ends the process
            log.info("status not written", key=key, reason=str(error))


class _Wanted:
    """What the KeySpace wants of this process for a shard."""

    def __init__(self, key: str, definition: ShardDefinition, *, is_primary: bool) -> None:
        self.key = key
        self.definition = definition
        self.is_primary = is_primary


class _Shard:
    """One item: its assignment, and the shard that runs. Its task ends when the assignment is gone."""

    def __init__(self, server: ConsumerServer, item: str) -> None:
        self.item = item
        self.host: ShardHost | None = None
        self._server = server
        self._wanted: _Wanted | None = None
        self._runs: _Wanted | None = None
        self._status: ShardStatus | None = None
        self._written: tuple[str, ShardStatus] | None = None
        self._changed = asyncio.Event()
        self._is_running = False

    def want(self, wanted: _Wanted | None) -> None:
        self._wanted = wanted
        self._changed.set()
        if not self._is_running and wanted is not None:
            self._is_running = True
            self._server.run(self)

    async def run(self) -> None:
        try:
            while self._wanted is not None or self.host is not None:
                self._changed.clear()
                await self._follow(self._wanted)
                await self._write(self._wanted)
                if not self._changed.is_set() and self.host is not None:
                    await self._changed.wait()
        finally:
            self._is_running = False

    async def _follow(self, wanted: _Wanted | None) -> None:
        runs = self._runs
        is_other = wanted is None or (
            runs is not None and (runs.definition != wanted.definition or (runs.is_primary and not wanted.is_primary))
        )
        if self.host is not None and is_other:
            await self.close()
        if wanted is not None and self.host is None:
            self.host = self._server.make_host(wanted, self._note)
            self.host.start()
        elif wanted is not None and wanted.is_primary and self.host is not None:
            self.host.promote()
        self._runs = wanted

    def _note(self, status: ShardStatus) -> None:
        self._status = status
        self._changed.set()

    async def _write(self, wanted: _Wanted | None) -> None:
        status = self._status
        if wanted is not None and status is not None and self._written != (wanted.key, status):
            await self._server.write(wanted.key, status)
            self._written = (wanted.key, status)

    async def close(self) -> None:
        host, self.host = self.host, None
        self._status = self._written = None
        if host is not None:
            await host.close()
