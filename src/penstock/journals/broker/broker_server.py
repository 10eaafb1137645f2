"""A broker: the journals which are assigned to it, driven by a mirror of the KeySpace.

Design: transactional-appends.rst.

    <folder>/spools/<journal>/   what of a journal is not in a store yet

A replica is made when the allocator assigns a journal to this broker, or when a Spool which survived a restart is
found; it ends when the broker has left the journal's Route and all it held is decided and stored.
"""

import asyncio
import contextlib
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Final

from penstock.journals.broker.appends import HeldContent
from penstock.journals.broker.config import BrokerConfig
from penstock.journals.broker.load_reporter import LoadReporter
from penstock.journals.broker.persister import Persister, PersisterOptions
from penstock.journals.broker.replica_host import ReplicaHost
from penstock.journals.broker.specs.catalog import Catalog
from penstock.journals.broker.spools.room import FullDisk
from penstock.journals.broker.spools.spool_files import DamagedSpan, Keeps, SpoolFiles, damages_in, kept_journals
from penstock.journals.broker.spools.unstored import Unstored, default_bound
from penstock.journals.broker.status.figures import TALLY, Alarms, Figures
from penstock.journals.core.replica import Replica
from penstock.journals.core.resolve import resolve_by_table
from penstock.journals.records.api import AppendResponse, Fate, Resolution, Resolve, Status
from penstock.journals.records.head import EMPTY_TABLE
from penstock.journals.records.protocol import ResolveQuery
from penstock.journals.records.route import Topology
from penstock.journals.storage.fragment_store import FragmentStores
from penstock.kernel.errors import InternalError, PenstockError, StorageError, Unavailable
from penstock.kernel.ids import Incarnation, NodeId, Offset, Revision
from penstock.keyspace.core.allocator.layout import Layout, MemberId
from penstock.keyspace.core.mirror import MirrorChange
from penstock.keyspace.core.transaction import PutKey
from penstock.keyspace.shell.mirror import KeySpaceMirror
from penstock.keyspace.shell.port import KeySpace
from penstock.plumbing.files.quarantine import Quarantine
from penstock.plumbing.ports.ports import Ports
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.process.tasks import Tasks
from penstock.plumbing.wire.channels import Channels
from penstock.plumbing.wire.client import Channel

__all__ = ["BrokerServer"]

LISTINGS_MAX: Final = 16
TOUCHED_MAX: Final = 32  # journals looked after in one turn of the loop: others must get theirs
CATCH_UP_S: Final = 2.0  # a mirror learns of a change within milliseconds, or it is cut off
log = get_logger()


class BrokerServer:
    """All journals of one broker."""

    def __init__(
        self,
        member: MemberId,
        folder: Path,
        ports: Ports,
        keyspace: KeySpace,
        mirror: KeySpaceMirror,
        channels: Channels,
        tasks: Tasks,
        config: BrokerConfig,
        *,
        on_failure: Callable[[PenstockError], None] = lambda _: None,
    ) -> None:
        self.me = NodeId(str(member))
        self.ports = ports
        self.keyspace = keyspace
        self.mirror = mirror
        self.tasks = tasks
        self.catalog = Catalog(keyspace, mirror, Layout(config.root), config)
        self.folder = folder
        self._spools = folder / "spools"
        self._channels = channels
        self._config = config
        self._on_failure = on_failure
        self._retained = f"{config.root}/retained/"
        self.stores = FragmentStores(ports.open_store)
        bound = config.unstored_bytes_max or default_bound(ports.disk.disk_bytes(folder))
        self.held = HeldContent(config.held_bytes_max)
        self.unstored = Unstored(self.me, bound, ports.clock.monotonic_ns)
        options = PersisterOptions(late_ms=config.late_upload_ms)
        self.persister = Persister(self.stores, ports.chance.generator(), options, self.unstored)
        self.loads = LoadReporter(keyspace, config.root, mirror.range, self._leads, self.catalog.has)
        self.listing = asyncio.Semaphore(LISTINGS_MAX)
        self.quarantine = Quarantine(folder / "quarantine", ports)
        self._hosts: dict[str, ReplicaHost] = {}
        self._closing: set[str] = set()  # journals whose last replica has not closed its files yet
        self._refused: dict[str, PenstockError] = {}  # journals whose Spools cannot be opened
        self._damages: dict[str, list[DamagedSpan]] = {}
        self.full_disk = FullDisk(lambda: self.free_bytes, ports.clock.monotonic_ns)
        self.work = 0  # rises with appends: while it does, neighbours are asked more often
        self._is_exiting = False
        self._has_left = asyncio.Event()
        self._touched: dict[str, None] = {}  # journals of which something changed, not looked after yet
        self._touching: asyncio.Handle | None = None  # the turn in which the next of them are
        self.alarms = Alarms(ports.clock.monotonic_ns)
        self._figures = Figures(self)
        self._stop_observing: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Serve the assigned journals, and those of which an earlier run left a Spool."""
        self.ports.disk.make_folders(self._spools)
        self.ports.disk.fsync_folder(self._spools.parent)
        self._damages = damages_in(self.quarantine)
        for journal in kept_journals(self.ports.disk, self._spools):
            self._open(journal)
        self._stop_observing = self.mirror.observe(self._observe)
        TALLY.add(self._figures, self.me)
        self._touched.update(dict.fromkeys(self._assigned()))
        self._touch_some()
        self.loads.start()

    async def close(self) -> None:
        """Stop every replica. Kept Spools stay on disk."""
        self._is_exiting = True
        TALLY.remove(self._figures)
        self._stop_observing()
        if self._touching is not None:
            self._touching.cancel()
        await self.loads.close()
        hosts, self._hosts = list(self._hosts.values()), {}
        await self.persister.close()
        await asyncio.gather(*(host.close(keeps=True) for host in hosts))
        await self.stores.close()

    async def cannot_be_relieved(self) -> None:
        """Wait until this broker exits and none of its journals can be another's: too few brokers stay."""
        changed = asyncio.Event()
        stop = self.mirror.observe(lambda _: changed.set())
        try:
            while True:
                changed.clear()
                brokers = self.catalog.brokers()
                me, staying = brokers.get(self.me), sum(not each.is_exiting for each in brokers.values())
                specs = [self.topology(host.journal).spec for host in self.hosts]
                if me is not None and me.is_exiting and all(s is None or s.replication > staying for s in specs):
                    return
                await changed.wait()
        finally:
            stop()

    def exit(self) -> None:
        """The process ends: Spools are kept from now on, so that it comes back with its content."""
        self._is_exiting = True

    async def left(self, wait_s: float) -> None:
        """Wait until every journal was left, and all it held is in the store; but not for ever."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while not all(host.failed or host.is_stored for host in self._hosts.values()):
                    self._has_left.clear()
                    await self._has_left.wait()

    # journals

    @property
    def hosts(self) -> list[ReplicaHost]:
        return list(self._hosts.values())

    def host(self, journal: str) -> ReplicaHost | None:
        """The running replica of a journal."""
        host = self._hosts.get(journal)
        return host if host is not None and not host.failed else None

    def served(self, journal: str) -> ReplicaHost:
        """The same, or the error which says where to go."""
        host = self.host(journal)
        if host is not None:
            return host
        if journal in self._refused:
            raise self._refused[journal]
        self.catalog.spec(journal)
        route = self.topology(journal).route
        addresses = [address for each in route.members if (address := self.catalog.address_of(each))]
        raise Unavailable(
            f"{self.me} does not serve {journal}; its brokers are: {route}",
            next_step=f"penstock journals explain {journal}",
            brokers=addresses,
        )

    def topology(self, journal: str) -> Topology:
        return self.catalog.topology(journal)

    def channel_of(self, broker: NodeId) -> Channel | None:
        address = self.catalog.address_of(broker)
        return self._channels.get(address) if address else None

    def primary_address(self, journal: str) -> str:
        primary = self.topology(journal).route.primary
        return self.catalog.address_of(primary) if primary is not None else ""

    def unserved(self, journal: str, min_revision: Revision) -> tuple[AppendResponse, str]:
        """Return the answer to an append to a journal that this broker does not serve, for a client that knows this
        revision.
        """
        topology = self.topology(journal)
        status = Status.NOT_JOURNAL_PRIMARY_BROKER
        if not self.mirror.has_revision(min_revision):
            status = Status.NO_JOURNAL_PRIMARY_BROKER  # as far as this one knows
        elif topology.spec is None:
            status = Status.JOURNAL_NOT_FOUND
        elif topology.route.primary is None:
            status = Status.NO_JOURNAL_PRIMARY_BROKER
        reason = f"its brokers are: {topology.route}"
        if journal in self._refused:
            status = Status.INSUFFICIENT_JOURNAL_BROKERS
            reason = f"{self.me} cannot open its Spool: {self._refused[journal]}"
        answer = AppendResponse(fate=Fate.ABORTED, status=status, reason=reason)
        return answer, self.primary_address(journal)

    async def caught_up(self, revision: Revision) -> None:
        """Wait until this broker knows the KeySpace up to the client's revision; otherwise let another one be asked."""
        if self.mirror.has_revision(revision):
            return
        try:
            async with asyncio.timeout(CATCH_UP_S):
                await self.mirror.wait_for_revision(revision)
        except TimeoutError:
            raise Unavailable(
                f"{self.me} knows revision {self.mirror.revision} of the KeySpace, not yet {revision}"
            ) from None

    async def resolve(self, query: ResolveQuery) -> Resolution:
        """Any broker may answer whose mirror has the entry which decides."""
        await self.caught_up(query.epoch.revision)
        host = self.host(query.journal)
        if host is not None:
            return await host.resolve(Resolve(query.epoch, query.begin, query.end))
        head = self.topology(query.journal).head
        return resolve_by_table(head.table if head is not None else EMPTY_TABLE, query.epoch, query.end)

    # for the fragments of all journals

    @property
    def damaged(self) -> list[str]:
        """Return the journals with files in quarantine."""
        return [journal for journal, spans in self._damages.items() if spans]

    @property
    def free_bytes(self) -> int:
        return self.ports.disk.free_bytes(self.folder)

    def damages(self, journal: str) -> list[DamagedSpan]:
        return self._damages.get(journal, [])

    def nested(self, journal: str) -> list[str]:
        return self.catalog.nesting.below(journal)

    def retained_from(self, journal: str) -> Offset:
        entry = self.mirror.get(self._retained + journal)
        return Offset(int(entry.stored.value)) if entry is not None else Offset(0)

    async def retain(self, journal: str, offset: Offset) -> None:
        if offset > self.retained_from(journal):
            outcome = await self.keyspace.transact(then=[PutKey(self._retained + journal, b"%d" % offset)])
            await self.mirror.wait_for_revision(outcome.revision)

    # the KeySpace

    def _observe(self, applied: MirrorChange) -> None:
        """Look after every journal of which something changed: now, or if there are many, a few in each turn."""
        layout = self.catalog.layout
        for change in applied.changes:
            for prefix in (layout.items, f"{layout.root}/heads/", layout.assignments):
                if change.key.startswith(prefix):
                    self._touched[change.key[len(prefix) :].partition("#")[0]] = None
        if self._touched and self._touching is None:
            self._touch_some()

    def _touch_some(self) -> None:
        """Touch some changed journals. A journal that changed again while it waited is touched once, in its present
        state.
        """
        self._touching = None
        for journal in list(islice(self._touched, TOUCHED_MAX)):
            del self._touched[journal]
            self._touch(journal)
        if self._touched:
            self._touching = asyncio.get_running_loop().call_soon(self._touch_more)

    def _touch_more(self) -> None:
        """Touch more journals, as an observer of the mirror. A broker that fails to look after a journal must not
        continue as if it did.
        """
        try:
            self._touch_some()
        except Exception as error:
            log.exception("a journal cannot be looked after")
            self._on_failure(InternalError(f"a journal cannot be looked after: {type(error).__name__}: {error}"))

    def _touch(self, journal: str) -> None:
        """Something of the journal changed, or is seen for the first time."""
        topology = self.topology(journal)
        host = self._hosts.get(journal)
        if host is not None and host.failed and self.me not in topology.route.members:
            self._drop(host)
            return
        if host is None:
            if self.me not in topology.route.members or journal in self._closing:
                return
            host = self._open(journal)
        if host is None:
            return
        if host.is_replaced:
            return
        if self._syncs_otherwise(host, topology):
            host.is_replaced = True  # it learns nothing of the new spec, so it promises nothing on it
            self.tasks.start(self._reopen_with(host), f"{journal}: opens again, with another fsync")
            return
        host.on_topology(topology)
        if host.is_stored:
            self._let_go(host)

    def _syncs_otherwise(self, host: ReplicaHost, topology: Topology) -> bool:
        """Return whether the journal's `fsync` was changed since its replica was opened."""
        spool, spec = host.replica.spool, topology.spec
        if spec is None or host.failed or self.me not in topology.route.members:
            return False
        return spool.is_kept is not spec.fsync and spool.create_revision == topology.create_revision

    async def _reopen_with(self, host: ReplicaHost) -> None:
        """Close a replica as a process that ends would, and open it as the next process would."""
        await host.close(keeps=True)
        if self._hosts.get(host.journal) is host and not self._is_exiting:
            del self._hosts[host.journal]
            self._touch(host.journal)

    def _leads(self, journal: str) -> bool:
        host = self._hosts.get(journal)
        return host is not None and host.is_primary

    def _assigned(self) -> list[str]:
        layout, mine = self.catalog.layout, str(self.me)
        places = (layout.parse_assignment(entry.key) for entry in self.mirror.range(layout.assignments))
        return sorted({place.item for place in places if place is not None and place.member == mine})

    def _open(self, journal: str) -> ReplicaHost | None:
        """Run a replica of the journal. If its Spool cannot be opened, set the journal aside, and try again later."""
        try:
            host = self._opened(journal)
        except (PenstockError, OSError) as error:
            if str(self._refused.get(journal)) != str(error):
                log.error("journal not opened", journal=journal, reason=str(error))
            self._refused[journal] = error if isinstance(error, PenstockError) else StorageError(str(error))
            self.tasks.start(self._open_later(journal), f"{journal}: opens later")
            return None
        self._refused.pop(journal, None)
        return host

    async def _open_later(self, journal: str) -> None:
        await asyncio.sleep(self._config.reopen_s)
        if journal in self._refused and journal not in self._hosts and not self._is_exiting:
            self._open(journal)
            self._touch(journal)

    def _opened(self, journal: str) -> ReplicaHost:
        topology = self.topology(journal)
        spec = topology.spec
        is_kept = spec is not None and spec.fsync
        files, recovered = SpoolFiles.open(self.ports, self._spools, journal, Keeps.ALWAYS, quarantine=self.quarantine)
        if recovered is None and topology.spec is not None:
            files.keep_final(topology.create_revision)
        self._damages.setdefault(journal, []).extend(files.damages)
        replica = Replica(
            self.me,
            journal,
            Incarnation(self.ports.chance.token(4).hex()),
            self._config.core,
            is_kept=is_kept,
            state=recovered.state if recovered is not None else None,
        )
        if recovered is None and files.fragments() and topology.spec is not None:
            replica.spool.create_revision = topology.create_revision  # another life would drop them
        if not is_kept:
            files.forget_state()  # a clean exit left it; a crash must not find it
            replica.spool.is_kept = False
        host = self._hosts[journal] = ReplicaHost(self, journal, replica, files)
        log.info("journal opened", journal=journal, is_kept=is_kept, is_recovered=recovered is not None)
        host.start(tuple(files.fragments()))
        host.on_topology(topology)  # before an append: a replica without one knows of no journal
        if recovered is None and self.me not in topology.route.members:
            host.is_retired = True  # finished fragments are stored even if the rest is damaged
            self.retired(host)
        return host

    def failed(self, host: ReplicaHost) -> None:
        """A replica failed: try again a little later, with the readable part of its Spool."""
        self.tasks.start(self._reopen(host), f"{host.journal}: opens again")

    async def _reopen(self, host: ReplicaHost) -> None:
        await asyncio.sleep(self._config.reopen_s)
        await host.close(keeps=True)
        if self._hosts.get(host.journal) is host:
            del self._hosts[host.journal]
            self._touch(host.journal)

    def retired(self, host: ReplicaHost) -> None:
        """It has left the journal's Route, and everything is decided: it goes when its uploads are done."""
        self.tasks.start(self._retire(host), f"{host.journal}: retires")

    async def _retire(self, host: ReplicaHost) -> None:
        await host.fragments.stored()
        self._has_left.set()
        self._let_go(host)

    def _let_go(self, host: ReplicaHost) -> None:
        """Drop a replica which has retired, unless it may be needed again.

        While no other broker has certified a later epoch, this replica may be the only one that has everything
        acknowledged: after a restart of the whole cluster no broker is a member at first.
        """
        topology, epoch = self.topology(host.journal), host.replica.spool.epoch
        is_needed = topology.spec is not None and topology.head is not None and topology.head.epoch <= epoch
        if self.me not in topology.route.members and not is_needed and self._hosts.get(host.journal) is host:
            log.info("journal left", journal=host.journal)
            self._drop(host)

    def _drop(self, host: ReplicaHost) -> None:
        if self._hosts.get(host.journal) is host:
            del self._hosts[host.journal]
        self._has_left.set()
        self._closing.add(host.journal)
        self.tasks.start(self._close(host), f"{host.journal}: closes")

    async def _close(self, host: ReplicaHost) -> None:
        """Close a replica, and open the next one of its journal only then: it has the same folder."""
        await host.close(keeps=self._is_exiting)
        self._closing.discard(host.journal)
        if not self._is_exiting:
            self._touch(host.journal)
