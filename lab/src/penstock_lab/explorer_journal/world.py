"""A world of single steps: brokers, streams, the KeySpace, the store and clients; every step is one call.

Nothing happens by itself, and nothing takes time: the driver of the world chooses the next delivery, loss, crash or
write. After each step the checkers look. Schedules call the steps by name; walks and the search choose among
`penstock_lab.explorer_journal.actions`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.journals.core.config import JournalConfig
from penstock.journals.core.effects import (
    AppendAborted,
    CloseStream,
    IndexRefreshed,
    Proxy,
    ReadContent,
    StreamClosed,
    TopologyChanged,
    Transact,
    Transacted,
    TransactionEnd,
)
from penstock.journals.core.replica import Replica
from penstock.journals.records.api import AppendRequest, AppendResponse, Fate, ResetHead, Resolution, Resolve
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.fragment import Fragment
from penstock.journals.records.labels import Label, LabelSelector, LabelSet
from penstock.journals.records.messages import ProposeResponse
from penstock.journals.records.registers import RegisterChange, Txn
from penstock.journals.records.spec import FragmentSpec, JournalSpec
from penstock.kernel.effects import Effect, Event, Received, Reply, Requested, Send, TimerFired
from penstock.kernel.ids import SECOND, Instant, NodeId, Offset, RequestId, Revision
from penstock.keyspace.core.records import LeaseId
from penstock.keyspace.core.transaction import Transaction
from penstock_lab.explorer_journal.keys import JOURNAL, ROOT, Keys
from penstock_lab.explorer_journal.site import ModelBroker, ModelFeed
from penstock_lab.sim.checkers.journal import JournalChecks
from penstock_lab.sim.checkers.journal_view import JournalContents, JournalView
from penstock_lab.sim.least.least_checks import LeastChecks

__all__ = ["CLOSED", "JournalWorld", "broker"]

CLOSED = None  # the end of a stream, as the last thing in it
Link = tuple[NodeId, NodeId, PipelineEpoch]  # from, to, and whose stream it is
START = Instant(0)
FAR = Instant(1_000_000 * SECOND)


def broker(number: int) -> NodeId:
    return NodeId(f"b{number}")


@dataclass
class JournalWorld:
    """One journal on some brokers."""

    replication: int = 2
    size: int = 3
    is_kept: bool = False  # Spools survive a restart (fsync)
    least: int = 0  # members that an epoch needs; 0: all
    replica_class: type[Replica] = Replica
    fragment_length: int = 1 << 10
    limit_step: int = 1_000
    is_checked: bool = True  # whether the core's own check is asked: not of mutants
    contents: JournalContents = field(default_factory=JournalContents)
    keys: Keys = field(default_factory=Keys)
    sites: dict[NodeId, ModelBroker] = field(default_factory=dict)
    mirrors: dict[NodeId, int] = field(default_factory=dict)
    leases: dict[NodeId, LeaseId] = field(default_factory=dict)
    runs: dict[NodeId, int] = field(default_factory=dict)
    disks: dict[NodeId, tuple[Any, tuple[Fragment, ...]]] = field(default_factory=dict)  # of brokers that are down
    links: dict[Link, tuple[Any, ...]] = field(default_factory=dict)
    transactions: tuple[tuple[NodeId, int, int, Transaction], ...] = ()  # broker, its run, number
    asked: dict[int, tuple[NodeId, bytes, int]] = field(default_factory=dict)  # append → broker, content, journal's end
    answers: dict[int, AppendResponse] = field(default_factory=dict)
    proxied: dict[int, NodeId] = field(default_factory=dict)
    resolutions: dict[int, Resolution] = field(default_factory=dict)
    retries: dict[int, int] = field(default_factory=dict)  # append → the one it repeats
    manual: tuple[int, ...] = ()  # appends whose content is fed by hand
    reading: tuple[int, ...] = ()  # appends which wait for that
    now: Instant = START
    next_lease: int = 1
    faulty: tuple[tuple[NodeId, int], ...] = ()

    def __post_init__(self) -> None:
        self.checks = (
            LeastChecks(self.replication, self.least, self.contents)
            if self.least
            else JournalChecks(self.replication, self.contents)
        )
        self.config = JournalConfig(root=ROOT, limit_step=self.limit_step, retry_ns=0, retry_ns_max=0)
        self.trace: Callable[[NodeId, Event, list[Effect]], None] = lambda *_: None

    @property
    def spec(self) -> JournalSpec:
        fragment = FragmentSpec(length=max(1, self.fragment_length))
        return JournalSpec(
            name=JOURNAL, replication=self.replication, least=self.least, fragment=fragment, fsync=self.is_kept
        )

    # brokers come and go

    def start(self, members: int | None = None, *, synchronized: bool = False) -> "JournalWorld":
        """Create the journal, boot all brokers, and give it to the first ones."""
        self.keys.create(self.spec)
        for number in range(self.size):
            self.boot(broker(number))
        for number in range(self.replication if members is None else members):
            self.add(broker(number))
        if synchronized:
            self.settle()
        return self

    def boot(self, name: NodeId, *, is_added: bool = False) -> None:
        """A new process, with its Spool if that was kept; it may be given the journal before it looks."""
        if name in self.leases:
            self.keys.expire(self.leases[name])  # it waits until its old lease has ended
        self.runs[name] = self.runs.get(name, 0) + 1
        state, uploads = self.disks.pop(name, (None, ()))
        is_back = self.is_kept and state is not None
        self.sites[name] = ModelBroker(
            name,
            self.runs[name],
            self.contents,
            self.config,
            replica_class=self.replica_class,
            is_kept=self.is_kept,
            state=state if is_back else None,
            uploads=uploads if is_back else (),
            is_checked=self.is_checked,
        )
        self.grant(name)
        if is_added:
            self.add(name)
        self.mirrors[name] = len(self.keys.history) - 1
        self.step(name, IndexRefreshed(Offset(0)))
        self.step(name, TopologyChanged(self.keys.now))

    def grant(self, name: NodeId) -> None:
        """A lease, the first one or another."""
        self.leases[name] = LeaseId(self.next_lease)
        self.next_lease += 1

    def crash(self, name: NodeId) -> None:
        """kill -9: streams break, and the Spool is lost, unless it is kept."""
        site = self.sites[name]
        ends = [link for other in self.sites for link in self.open_streams(name, other) if link[1] != name]
        del self.sites[name]
        self._fault(name, site.run)
        if self.is_kept:
            self.disks[name] = (site.state, site.uploads)
        self.transactions = tuple(each for each in self.transactions if each[0] != name)
        for link in [link for link in self.links if link[1] == name]:
            del self.links[link]
        for link in ends:  # its sent messages still arrive, and then the end
            self.links[link] = (*self.links.get(link, ()), CLOSED)
        if not self.is_kept and isinstance(self.checks, LeastChecks):
            self.checks.wiped(name, site.view.incarnation)
        elif not self.is_kept:
            self._check_copies()

    def expire(self, name: NodeId) -> None:
        """End its lease: it is a zombie until its mirror shows that."""
        self._fault(name, self.runs[name])
        self.keys.expire(self.leases[name])

    def regain(self, name: NodeId) -> None:
        """A living zombie gets another lease, and is as good as new; its Spool is not."""
        self.faulty = tuple(each for each in self.faulty if each[0] != name)
        self.grant(name)

    def _fault(self, name: NodeId, run: int) -> None:
        self.checks.faults += 1
        if (name, run) not in self.faulty:
            self.faulty = (*self.faulty, (name, run))

    def _check_copies(self) -> None:
        uploads = [fragment for site in self.sites.values() for fragment in site.uploads]
        uploads += [fragment for _, held in self.disks.values() for fragment in held]
        self.checks.failed([site.view for site in self.sites.values()], uploads)

    # the allocator

    def add(self, name: NodeId) -> None:
        self.keys.assign(name, self.leases[name])

    def remove(self, name: NodeId) -> None:
        """J14: only from a consistent journal, and only if R members remain."""
        assert self.may_remove(name)
        self.keys.unassign(name)

    def may_remove(self, name: NodeId) -> bool:
        members = self.keys.now.route.members
        return name in members and self.keys.is_consistent and len(members) > self.replication

    def pass_over(self, name: NodeId) -> None:
        """Take a member out that others cannot reach, whether it lives or not."""
        assert self.may_pass_over(name)
        self.keys.unassign(name)

    def may_pass_over(self, name: NodeId) -> bool:
        """Return whether enough members remain, and among them one that has what the last epoch acknowledged."""
        topology = self.keys.now
        rest = [each for each in topology.assignments if each.broker != name]
        had = {member.broker for member in topology.head.members} if topology.head is not None else set()
        takes_part = topology.head is None or any(each.value and each.broker in had for each in rest)
        return name in topology.route.members and len(rest) >= self.least > 0 and takes_part

    def promote(self, name: NodeId) -> None:
        self.keys.promote(name)

    # the KeySpace

    def mirror(self, name: NodeId, revisions: int | None = None) -> None:
        """Let a mirror see the next revisions, as one batch; all of them, if not said otherwise."""
        newest = len(self.keys.history) - 1
        place = newest if revisions is None else min(newest, self.mirrors[name] + revisions)
        if place > self.mirrors[name]:
            self.mirrors[name] = place
            self.step(name, TopologyChanged(self.keys.history[place]))

    def catch_up(self) -> None:
        for name in list(self.sites):
            self.mirror(name)

    def transact(self, index: int = 0, *, end: TransactionEnd | None = None) -> None:
        """A transaction on its way takes place; its answer may be lost."""
        name, run, number, transaction = self.transactions[index]
        self.transactions = (*self.transactions[:index], *self.transactions[index + 1 :])
        before = self.keys.head
        is_done = self.keys.transact(transaction)
        if self.keys.head is not None and self.keys.head != before:
            self.checks.certified(self.keys.head, [site.view for site in self.sites.values()])
        if name in self.sites and self.runs[name] == run:
            end = end or (TransactionEnd.DONE if is_done else TransactionEnd.LOST)
            self.step(name, Transacted(number, end, self.keys.revision if is_done else Revision(0)))

    # streams

    def deliver(self, source: NodeId, to: NodeId, epoch: PipelineEpoch | None = None, count: int = 1) -> None:
        """The next messages of a stream arrive; of the oldest one between the two, if not said otherwise."""
        for _ in range(count):
            link = self._link(source, to, epoch)
            message, rest = self.links[link][0], self.links[link][1:]
            if rest:
                self.links[link] = rest
            else:
                del self.links[link]
            if message is CLOSED:
                self.step(to, StreamClosed(source, link[2]))
            else:
                self.step(to, Received(source, message))

    def _link(self, source: NodeId, to: NodeId, epoch: PipelineEpoch | None) -> Link:
        found = [link for link in self.links if link[:2] == (source, to) and epoch in (None, link[2])]
        assert found, f"nothing is on its way from {source} to {to}"
        return min(found)

    def cut(self, one: NodeId, other: NodeId) -> None:
        """Connections between two break: messages on their way are lost, and both sides will notice."""
        for source, to in ((one, other), (other, one)):
            for link in [link for link in self.links if link[:2] == (source, to)]:
                del self.links[link]
        for link in self.open_streams(one, other):
            self.links[link] = (CLOSED,)

    def open_streams(self, one: NodeId, other: NodeId) -> list[Link]:
        """Every end of a stream between the two which believes that it is open."""
        found: list[Link] = []
        for source, to in ((one, other), (other, one)):
            if to not in self.sites:
                continue
            replica = self.sites[to].replica
            if replica.pipeline is not None and source in replica.pipeline.peers:
                found.append((source, to, replica.pipeline.epoch))
            replicate = replica.replicate
            if replicate.primary == source:
                found.append((source, to, replicate.epoch))
            if replicate.held is not None and replicate.held[0] == source:
                found.append((source, to, replicate.held[1].epoch))
        return list(dict.fromkeys(found))

    def settle(self, *only: NodeId) -> None:
        """Deliver and write everything until nothing is left, mirrors included; among these brokers alone, if named."""
        names = only or tuple(self.runs)
        for _ in range(1_000):
            newest = len(self.keys.history) - 1
            late = [name for name in names if name in self.sites and self.mirrors[name] < newest]
            links = sorted(link for link in self.links if link[0] in names and link[1] in names)
            running = [index for index, each in enumerate(self.transactions) if each[0] in names]
            if running:
                self.transact(running[0])
            elif links:
                self.deliver(*links[0])
            elif late:
                self.mirror(late[0])
            else:
                return
        raise AssertionError("it does not settle")

    def settle_links(self, *only: NodeId) -> None:
        """Deliver everything among these brokers, and nothing else."""
        for _ in range(1_000):
            links = sorted(link for link in self.links if link[0] in only and link[1] in only)
            if not links:
                return
            self.deliver(*links[0])
        raise AssertionError("it does not settle")

    def drain(self, source: NodeId, to: NodeId) -> None:
        """Everything on its way from one to the other arrives."""
        while any(link[:2] == (source, to) for link in self.links):
            self.deliver(source, to)

    def fail_over(self, to: NodeId, *joining: NodeId) -> None:
        """The allocator's answer to a primary which is gone: its lease ends, there is another one, and others join."""
        for name in self.runs:
            if name not in self.sites:
                self.keys.expire(self.leases[name])
        if to in self.keys.now.route.members and self.keys.now.route.primary is None:
            self.promote(to)
        for name in joining:
            self.add(name)

    # clients

    def append(
        self,
        name: NodeId,
        *,
        length: int = 1,
        check: str = "",
        offset: int | None = None,
        txn: Txn | None = None,
        by_hand: bool = False,
        deadline: Instant = FAR,
        sets_register: bool = True,
        may_proxy: bool = False,
        retry_of: int = 0,
    ) -> int:
        """A client appends its own number, `length` times, and leaves it in a register. Length 0 is a barrier."""
        append = len(self.asked) + 1
        number = retry_of or append
        self.asked[append] = (name, bytes([number]) * length, self.checks.end)
        self.checks.lengths[number] = length
        if retry_of:
            self.retries[append] = retry_of
        if by_hand:
            self.manual = (*self.manual, append)
        union = LabelSet((Label("last", str(append)),)) if length and sets_register else LabelSet()
        body = AppendRequest(
            deadline=deadline,
            offset=None if offset is None else Offset(offset),
            check=LabelSelector.parse(check),
            change=RegisterChange(union=union),
            txn=txn,
            may_proxy=may_proxy,
        )
        self.step(name, Requested(RequestId(append), body))
        return append

    def feed(self, append: int, content: bytes | None = None, *, is_end: bool = True) -> None:
        """Content of an append which is fed by hand."""
        name, whole, _ = self.asked[append]
        if name in self.sites:
            self.step(name, ModelFeed(RequestId(append), whole if content is None else content, is_end))

    def abort(self, append: int) -> None:
        self.step(self.asked[append][0], AppendAborted(RequestId(append), "the client went away"))

    def reset_head(self, name: NodeId) -> int:
        append = len(self.asked) + 1
        self.asked[append] = (name, b"", 0)
        self.step(name, Requested(RequestId(append), ResetHead(deadline=FAR)))
        return append

    def resolve(self, name: NodeId, append: int) -> Resolution:
        """Ask a broker about an append whose fate is unknown."""
        answer = self.answers[append]
        assert answer.commit is not None
        body = Resolve(answer.epoch, answer.commit.begin, answer.commit.end)
        self.step(name, Requested(RequestId(-append), body))
        return self.resolutions[append]

    def fate(self, append: int) -> Fate | None:
        return self.answers[append].fate if append in self.answers else None

    def pulse(self, name: NodeId) -> None:
        self.step(name, TimerFired("pulse"))

    def pass_time(self, name: NodeId, seconds: int, timer: str) -> None:
        self.now = Instant(self.now + seconds * SECOND)
        self.step(name, TimerFired(timer))

    # the store

    def persist(self, name: NodeId, index: int = 0) -> Fragment:
        """Let one upload of a broker reach the store."""
        site = self.sites[name]
        fragment = site.uploads[index]
        site.uploads = (*site.uploads[:index], *site.uploads[index + 1 :])
        self.checks.stored_one(fragment)
        return fragment

    # one step of one broker

    def step(self, name: NodeId, event: Event) -> None:
        site = self.sites.get(name)
        if site is None:
            return
        before = site.view
        outside, passed = site.step(event, self.now)
        view = site.view
        self.trace(name, event, outside)
        self.checks.stepped(before, view, passed)
        if view.leads is not None and view.end > before.end:
            self._on_proposal(view)
        if view != before:
            self.checks.looked(view, {other: self.sites[other].view for other in self.sites if other != name})
        for effect in outside:
            self._perform(name, before, effect)

    def _perform(self, name: NodeId, before: JournalView, effect: Effect) -> None:
        match effect:
            case Send(to, message):
                self._on_send(name, message)
                link = (name, to, message.epoch)
                self.links[link] = (*self.links.get(link, ()), message if to in self.sites else CLOSED)
                if to not in self.sites:
                    self.links.pop(link)
                    self.links[to, name, message.epoch] = (CLOSED,)
            case CloseStream(peer, epoch):
                if peer in self.sites:
                    link = (name, peer, epoch)
                    self.links[link] = (*self.links.get(link, ()), CLOSED)
            case Transact(number, transaction):
                self.transactions = (*self.transactions, (name, self.runs[name], number, transaction))
            case ReadContent(request):
                if request in self.manual:
                    self.reading = (*self.reading, request)
                else:
                    self.feed(request)
            case Reply(request, result):
                self._on_reply(request, result)
            case Proxy(request, to, _):
                self.proxied[request] = to
            case _:
                raise AssertionError(f"the world does not know {type(effect).__name__}")

    def _on_proposal(self, view: JournalView) -> None:
        """A primary has proposed an append."""
        content = self.contents[view.points[-1].sum]
        if content and view.leads is not None:
            length = len(self.asked[content[-1]][1])
            self.checks.proposes(content[-1], Offset(view.end - length), view.end, view.leads)

    def _on_send(self, name: NodeId, message: Any) -> None:
        if isinstance(message, ProposeResponse):
            self.checks.acknowledges(self.sites[name].view, message.epoch)

    def _on_reply(self, request: RequestId, result: Any) -> None:
        if isinstance(result, Resolution):
            self.resolutions[-request] = result
            self.checks.resolved(-request, result)
        else:
            self.answers[request] = result
            self.checks.answered(self.retries.get(request, request), result, self.asked[request][2])
