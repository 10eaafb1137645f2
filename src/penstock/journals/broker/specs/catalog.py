"""The catalog: which journals there are, who serves them, and how specs are changed. All of it is the KeySpace's.

Reads come from the mirror; changes are one transaction which compares what the caller knew, and are answered when the
mirror shows them.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Final, cast

import msgspec

from penstock.journals.broker.config import BrokerConfig
from penstock.journals.broker.specs.nesting import Nesting, check_keys
from penstock.journals.core.allocation import BrokerSpec
from penstock.journals.records.head import HeadRecord
from penstock.journals.records.labels import LabelSelector
from penstock.journals.records.names import check_journal_name
from penstock.journals.records.protocol import Apply, Change, JournalInfo, Listing, ListQuery, Serving
from penstock.journals.records.route import Topology, topology_of
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import (
    InvalidArgument,
    LimitExceeded,
    NotFound,
    PreconditionFailed,
    Unavailable,
    Written,
)
from penstock.kernel.ids import NodeId, Offset, Revision
from penstock.keyspace.core.allocator.layout import Layout
from penstock.keyspace.core.limits import OPERATIONS_MAX
from penstock.keyspace.core.mirror import Mirror, MirrorEntry
from penstock.keyspace.core.records import NO_REVISION
from penstock.keyspace.core.transaction import (
    Compare,
    DeleteKey,
    Operation,
    PutKey,
    Relation,
    Target,
    is_at,
    is_present,
)
from penstock.keyspace.shell.mirror import KeySpaceMirror
from penstock.keyspace.shell.port import KeySpace

__all__ = ["Catalog"]

CHANGES_MAX: Final = 100  # of one apply: it is one transaction
ATTEMPTS: Final = 10  # of one apply, while others create journals in new folders
IN_FORCE_S: Final = 10.0  # a sync takes milliseconds
PART_JOURNALS: Final = 256  # of a listing, per message
_encode = msgspec.msgpack.Encoder().encode


class Catalog:
    """Journals and brokers as the mirror has them."""

    def __init__(self, keyspace: KeySpace, mirror: KeySpaceMirror, layout: Layout, config: BrokerConfig) -> None:
        self.layout = layout
        self.nesting = Nesting(layout.root, mirror)
        self._keyspace = keyspace
        self._mirror = mirror
        self._default_store = config.default_store
        self._replication_max = config.replication_max

    # asking

    def topology(self, journal: str) -> Topology:
        return topology_of(cast("Mirror", self._mirror), self.layout, journal)

    def address_of(self, broker: NodeId) -> str:
        """Return a broker's address; empty if it is not running."""
        entry = self._mirror.get(self.layout.members + broker)
        return BrokerSpec.decode(entry.stored.value).endpoint if entry is not None else ""

    def brokers(self) -> dict[NodeId, BrokerSpec]:
        """Return all running brokers."""
        prefix = self.layout.members
        entries = self._mirror.range(prefix)
        return {NodeId(entry.key[len(prefix) :]): BrokerSpec.decode(entry.stored.value) for entry in entries}

    def spec(self, journal: str) -> JournalSpec:
        entry = self._mirror.get(self.layout.items + journal)
        if entry is None or not isinstance(entry.value, JournalSpec):
            raise NotFound(f"there is no journal {journal!r}", next_step="penstock journals list")
        return entry.value

    def has(self, journal: str) -> bool:
        return self._mirror.get(self.layout.items + journal) is not None

    def info(self, entry: MirrorEntry) -> JournalInfo:
        assert isinstance(entry.value, JournalSpec)
        topology = self.topology(entry.value.name)
        head = topology.head if isinstance(topology.head, HeadRecord) else None
        if head is not None and head.create_revision != topology.create_revision:
            head = None  # of a former life
        route = topology.route
        return JournalInfo(
            entry.value,
            entry.stored.create_revision,
            entry.stored.mod_revision,
            tuple(Serving(each, self.address_of(each), each == route.primary) for each in route.members),
            head.epoch if head is not None else None,
            head.start if head is not None else Offset(0),
            tuple(each.start for each in head.table.entries if each.is_reset) if head is not None else (),
        )

    async def unheard(self, selector: LabelSelector) -> Revision:
        """The revision of the one journal which is asked for by name, if the KeySpace has it and the mirror has not.

        Return the revision to wait for before an empty answer. A mirror is behind by a moment: a journal that was just
        created must not be reported as missing.
        """
        name = _named(selector)
        if name is None or self.has(name):
            return Revision(0)
        found = await self._keyspace.get(self.layout.items + name)
        return Revision(0) if found is None else found.mod_revision

    def journals(self, selector: LabelSelector) -> Iterator[JournalInfo]:
        name = _named(selector)
        one = None if name is None else self._mirror.get(self.layout.items + name)
        entries = self._mirror.range(self.layout.items) if name is None else [] if one is None else [one]
        for entry in entries:
            spec = entry.value
            if isinstance(spec, JournalSpec) and selector.matches(spec.labels, spec.name):
                yield self.info(entry)

    async def listings(self, query: ListQuery) -> AsyncIterator[Listing]:
        """Yield the journals that match the selector, as far as the mirror has come; again after each change, if the
        query watches.
        """
        changed = asyncio.Event()
        stop = self._mirror.observe(lambda _: changed.set())
        told: list[JournalInfo] | None = None
        try:
            while True:
                changed.clear()
                found = list(self.journals(query.selector))
                if found != told:
                    told = found
                    revision = self._mirror.revision
                    for at in range(0, max(1, len(found)), PART_JOURNALS):
                        part = tuple(found[at : at + PART_JOURNALS])
                        yield Listing(revision, part, at + PART_JOURNALS >= len(found), len(self.brokers()))
                if not query.watches:
                    return
                await changed.wait()
        finally:
            stop()

    # changing

    async def apply(self, request: Apply) -> Revision:
        """Apply all changes, or none of them; a changed `fsync` is in force when this returns."""
        if not 0 < len(request.changes) <= CHANGES_MAX:
            raise InvalidArgument(f"{len(request.changes)} changes: expected 1 to {CHANGES_MAX} at a time")
        synced = self._with_another_fsync(request)
        for _ in range(ATTEMPTS):
            compares, then = self._transaction(request)
            outcome = await self._keyspace.transact(compares, then)
            if outcome.succeeded:
                await self._mirror.wait_for_revision(outcome.revision)
                await self._in_force(synced, outcome.revision)
                return outcome.revision
            await self._mirror.wait_for_revision(outcome.revision)
            conflict = await self._conflict(request)
            if conflict is not None:
                raise conflict
        raise PreconditionFailed("journals are created all the time", next_step="apply it again")

    def _transaction(self, request: Apply) -> tuple[list[Compare], list[Operation]]:
        """Return the changes as one transaction, with all that must not have changed meanwhile."""
        compares: list[Compare] = []
        then: list[Operation] = []
        created: list[str] = []
        for change in request.changes:
            name = _name(change)
            key, known = self.layout.items + name, self._mirror.get(self.layout.items + name)
            if change.expect_mod_revision >= 0:
                compares.append(is_at(key, Revision(change.expect_mod_revision)))
            if change.upsert is None:
                if change.expect_mod_revision < 0:
                    compares.append(is_present(key))
                then.append(DeleteKey(key))
                continue
            spec = self._completed(change.upsert)
            check_keys(self.layout, spec)
            then.append(PutKey(key, _encode(spec)))
            if known is None:
                created.append(name)
            elif change.expect_mod_revision < 0:
                compares.append(Compare(key, Target.CREATE_REVISION, Relation.EQUAL, known.stored.create_revision))
        deletes = any(change.upsert is None for change in request.changes)
        guards, folders = self.nesting.guard(created, deletes=deletes)
        compares, then = [*compares, *guards], [*then, *folders]
        if max(len(compares), len(then)) > OPERATIONS_MAX:
            raise LimitExceeded(
                f"{len(request.changes)} changes make {len(folders) - 1} new folders: this is more than one "
                "transaction of the KeySpace takes",
                next_step="apply fewer journals at a time",
            )
        return compares, then

    def _with_another_fsync(self, request: Apply) -> list[str]:
        """Return the journals in use whose `fsync` changes."""
        found: list[str] = []
        for change in request.changes:
            topology = self.topology(_name(change))
            if change.upsert is not None and topology.spec is not None and topology.head is not None:
                found += [change.upsert.name] * (self._completed(change.upsert).fsync != topology.spec.fsync)
        return found

    async def _in_force(self, journals: list[str], revision: Revision) -> None:
        """Wait until these journals have synchronized on the new spec: each broker has taken it before it promised."""

        def is_behind(journal: str) -> bool:
            topology = self.topology(journal)
            return topology.spec is not None and (topology.head is None or topology.head.epoch.revision < revision)

        behind: list[str] = []
        changed = asyncio.Event()
        stop = self._mirror.observe(lambda _: changed.set())
        try:
            async with asyncio.timeout(IN_FORCE_S):
                while behind := [journal for journal in journals if is_behind(journal)]:
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            raise Unavailable(
                f"the spec of {behind[0]} is saved, but its `fsync` is not in force yet: its brokers have not "
                f"synchronized within {IN_FORCE_S:.0f} s",
                written=Written.YES,
                next_step=f"penstock journals explain {behind[0]}",
            ) from None
        finally:
            stop()

    def _completed(self, spec: JournalSpec) -> JournalSpec:
        """With this cluster's store, if the spec names none; on no more brokers than it may have.

        Where there are no more copies than this, they must at least be on disk: also if no more were asked for.
        """
        if 0 < self._replication_max <= spec.replication:
            least = min(spec.least, self._replication_max)
            spec = msgspec.structs.replace(spec, replication=self._replication_max, least=least, fsync=True)
        if not spec.least:
            spec = msgspec.structs.replace(spec, least=spec.replication)
        if spec.fragment.stores or not self._default_store:
            return spec
        fragment = msgspec.structs.replace(spec.fragment, stores=(self._default_store,))
        return msgspec.structs.replace(spec, fragment=fragment)

    async def _conflict(self, request: Apply) -> NotFound | PreconditionFailed | None:
        """Return the error for the change that did not hold, as far as it can be seen afterwards. None: other journals
        were created, or this one changed, and that is no matter.
        """
        for change in request.changes:
            stored = await self._keyspace.get(self.layout.items + _name(change))
            now = stored.mod_revision if stored is not None else NO_REVISION
            if change.upsert is None and stored is None:
                return NotFound(f"there is no journal {change.delete!r}", next_step="penstock journals list")
            if change.expect_mod_revision == NO_REVISION and stored is not None:
                return PreconditionFailed(
                    f"there is a journal {_name(change)!r} already", next_step="use it, or choose another name"
                )
            if change.expect_mod_revision not in (-1, now):
                return PreconditionFailed(
                    f"journal {_name(change)!r} is at revision {now}, not at {change.expect_mod_revision}: "
                    "it was changed meanwhile",
                    next_step="list it, and apply the change to the present version",
                )
        return None


def _name(change: Change) -> str:
    if (change.upsert is None) == (not change.delete):
        raise InvalidArgument("a change puts a spec, or deletes a journal: one of the two")
    if change.upsert is not None:
        change.upsert.validate()
        return change.upsert.name
    check_journal_name(change.delete)
    return change.delete


def _named(selector: LabelSelector) -> str | None:
    """The only journal which can fit; None: more than one can."""
    names = [label for label in selector.include.labels if label.name == "name"]
    return names[0].value if len(names) == 1 and not names[0].is_prefix else None
