"""The shards of a group, for people and programs: list, change, ask how far they are, restart.

Specs and statuses are the KeySpace's; how far a shard is, its primary knows.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec

from penstock.consumers.client.definition import (
    ROOT,
    ConsumerSpec,
    ShardDefinition,
    decode_definition,
    decoders,
    root_of,
)
from penstock.consumers.client.service import RESTART, STAT, STAT_RESULT, RestartQuery, StatQuery
from penstock.consumers.client.status import ShardStatus
from penstock.consumers.core.recoverylog.pruning import refuse_retention
from penstock.consumers.core.stat import StatResult
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.codec import Codec
from penstock.kernel.errors import Indeterminate, InvalidArgument, NotFound, PreconditionFailed, Unavailable
from penstock.kernel.ids import Offset, Revision
from penstock.keyspace.core.allocator.layout import PRIMARY_SLOT, Layout
from penstock.keyspace.core.mirror import Mirror
from penstock.keyspace.core.transaction import Compare, DeleteKey, Operation, PutKey, is_at, is_present
from penstock.keyspace.shell.port import KeySpace
from penstock.plumbing.wire.client import Channel
from penstock.plumbing.wiring.wiring import Wiring

__all__ = ["ShardChange", "ShardInfo", "ShardReplica", "Shards"]

RETRY_S = 0.1
GRACE_S = 10.0  # the shard's primary keeps the time-out, and says more than that it is over
CHANGES_MAX = 100  # of one apply: it is one transaction
JOURNALS = "/penstock"  # where the KeySpace has journals, if it is theirs too
_encode = msgspec.msgpack.Encoder().encode
_spec = Codec[JournalSpec](JournalSpec)


class ShardReplica(msgspec.Struct, frozen=True):
    """A process to which a shard is assigned."""

    consumer: str
    address: str
    is_primary: bool
    status: ShardStatus


class ShardInfo(msgspec.Struct, frozen=True):
    """A shard, and who runs it."""

    definition: ShardDefinition
    mod_revision: Revision
    replicas: tuple[ShardReplica, ...] = ()

    @property
    def primary(self) -> ShardReplica | None:
        return next((each for each in self.replicas if each.is_primary), None)


class ShardChange(msgspec.Struct, frozen=True):
    """Put or delete a definition: of exactly that revision, unless it is -1; 0: it must not exist yet."""

    upsert: ShardDefinition | None = None
    delete: str = ""
    expect_mod_revision: int = -1


class Shards:
    """The shards of one group."""

    def __init__(self, keyspace: KeySpace, group: str, wiring: Wiring | None = None) -> None:
        self.group = group
        self.keyspace = keyspace
        self._layout = Layout(root_of(group))
        self._wiring = wiring or Wiring()

    async def list(self, prefix: str = "") -> "list[ShardInfo]":
        """Return all shards whose names begin with `prefix`, at one revision."""
        root = self._layout.root
        mirror = Mirror(f"{root}/", decoders(root))
        mirror.load(await self.keyspace.range(f"{root}/"))
        return [
            ShardInfo(entry.value, entry.stored.mod_revision, self._replicas(mirror, entry.value.id))
            for entry in mirror.range(self._layout.items + prefix)
            if isinstance(entry.value, ShardDefinition)
        ]

    def _replicas(self, mirror: Mirror, shard: str) -> tuple[ShardReplica, ...]:
        found = []
        for entry in mirror.range(self._layout.assignments_of(shard)):
            place = self._layout.parse_assignment(entry.key)
            if place is not None:
                member = mirror.get(self._layout.members + place.member)
                address = ConsumerSpec.decode(member.stored.value).endpoint if member is not None else ""
                status = ShardStatus.decode(entry.stored.value)
                found.append(ShardReplica(place.member, address, place.slot == PRIMARY_SLOT, status))
        return tuple(found)

    async def get(self, shard: str) -> ShardInfo:
        for info in await self.list(shard):
            if info.definition.id == shard:
                return info
        raise NotFound(f"there is no shard {shard!r} in group {self.group!r}", next_step="penstock shards list")

    async def apply(self, changes: Sequence[ShardChange]) -> Revision:
        """Apply all changes, or none of them."""
        if not 0 < len(changes) <= CHANGES_MAX:
            raise InvalidArgument(f"{len(changes)} changes: expected 1 to {CHANGES_MAX} at a time")
        compares: list[Compare] = []
        then: list[Operation] = []
        for change in changes:
            if change.upsert is not None:
                change.upsert.validate()
            key = self._layout.item_key(change.upsert.id if change.upsert is not None else change.delete)
            if change.expect_mod_revision >= 0:
                compares.append(is_at(key, Revision(change.expect_mod_revision)))
            if change.upsert is not None:
                then.append(PutKey(key, change.upsert.encode()))
            else:
                compares += [is_present(key)] if change.expect_mod_revision < 0 else []
                then.append(DeleteKey(key))
        await self._check_logs(changes)
        outcome = await self.keyspace.transact(compares, then)
        if not outcome.succeeded:
            raise PreconditionFailed(
                "a shard is not at the expected revision: it was changed meanwhile, or does not exist",
                next_step="penstock shards list",
            )
        return outcome.revision

    async def _check_logs(self, changes: Sequence[ShardChange]) -> None:
        """Refuse a recovery log that another shard has, or whose content ends by age. Stores check it again."""
        wanted = {change.upsert.id: change.upsert.recovery_log for change in changes if change.upsert is not None}
        if not any(wanted.values()):
            return
        users = {f"{self.group}/{shard}": log for shard, log in wanted.items() if log}
        if len(set(users.values())) < len(users):
            raise InvalidArgument("two shards have one recovery log; expected a journal for each")
        changed = {f"{self.group}/{change.upsert.id if change.upsert else change.delete}" for change in changes}
        for entry in (await self.keyspace.range(f"{ROOT}/")).entries:
            group, _, shard = entry.key.removeprefix(f"{ROOT}/").rpartition("/items/")
            if not group or f"{group}/{shard}" in changed:
                continue
            log = decode_definition(entry.value).recovery_log
            for user, chosen in users.items():
                if chosen == log:
                    raise InvalidArgument(f"{log} is the recovery log of shard {group}/{shard}; {user} needs another")
        for log in users.values():
            found = await self.keyspace.get(Layout(JOURNALS).item_key(log))
            if found is not None:
                refuse_retention(_spec.decode(found.value))

    async def stat(
        self, shard: str, read_through: Mapping[str, Offset] | None = None, *, timeout: float = 10.0
    ) -> StatResult:
        """Return how far the shard's primary has read; with offsets, as soon as everything before them has taken its
        full effect.

        A shard that no process runs just now is waited for, too.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            left_s = max(0.001, deadline - loop.time())
            query = StatQuery(shard, dict(read_through or {}), max(1, int(left_s * 1_000)))
            try:
                async with self._primary(shard) as channel:
                    answer = await channel.call(STAT, _encode(query), deadline_s=left_s + GRACE_S)
                return STAT_RESULT.decode(answer.body)
            except (Unavailable, Indeterminate):  # it is being handed over, perhaps
                if loop.time() + RETRY_S >= deadline:
                    raise
                await asyncio.sleep(RETRY_S)

    async def restart(self, shard: str) -> None:
        """Begin a new life now: after a failure which was mended, say."""
        async with self._primary(shard) as channel:
            await channel.call(RESTART, _encode(RestartQuery(shard)), deadline_s=10.0)

    @asynccontextmanager
    async def _primary(self, shard: str) -> AsyncIterator[Channel]:
        info = await self.get(shard)
        primary = info.primary
        if primary is None or not primary.address:
            raise Unavailable(f"no process runs shard {shard} now", next_step="penstock shards list")
        channel = self._wiring.channel(primary.address)
        try:
            yield channel
        finally:
            await channel.close()
