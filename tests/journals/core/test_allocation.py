"""Journals are consistent when their head record and every assignment name the Route they have."""

from collections.abc import Sequence

import msgspec
import pytest

from penstock.journals.core.allocation import BrokerSpec, JournalPolicy, encode_load
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.head import EMPTY_TABLE, HeadRecord, Member
from penstock.journals.records.registers import NO_REGISTERS
from penstock.journals.records.route import Route, decoders
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import Incarnation, NodeId, Offset, Revision
from penstock.keyspace.core.allocator import Allocator, Layout, MemberId
from penstock.keyspace.core.mirror import Mirror, MirrorEntry
from penstock.keyspace.core.store import KeyStore
from penstock.keyspace.core.transaction import PutKey, Transaction, is_at

ROOT = "/journals"
LAYOUT = Layout(ROOT)
JOURNAL = "shop/orders"


class Cluster:
    """A mirror with one journal."""

    def __init__(self) -> None:
        self._store = KeyStore()
        spec = JournalSpec(name=JOURNAL, replication=2)
        self.created = self.put(f"{ROOT}/items/{JOURNAL}", msgspec.msgpack.encode(spec))

    def put(self, key: str, value: bytes) -> Revision:
        revision = self._store.transact(Transaction(then=(PutKey(key, value),))).revision
        self.mirror = Mirror(ROOT, decoders(ROOT))
        self.mirror.load(self._store.snapshot(ROOT))
        self.policy = JournalPolicy(LAYOUT, self.mirror.get)
        return revision

    def assign(self, *places: str, value: bytes) -> None:
        for place in places:
            self.put(f"{ROOT}/assign/{JOURNAL}#{place}", value)

    def head(self, *brokers: str, created: Revision | None = None) -> Revision:
        record = HeadRecord(
            create_revision=self.created if created is None else created,
            epoch=PipelineEpoch(Revision(5), 1),
            start=Offset(0),
            members=tuple(Member(NodeId(broker), Incarnation("i")) for broker in brokers),
            primary=NodeId(brokers[0]),
            registers=NO_REGISTERS,
            limit=Offset(1 << 30),
            table=EMPTY_TABLE,
        )
        return self.put(f"{ROOT}/heads/{JOURNAL}", msgspec.msgpack.encode(record))

    @property
    def item(self) -> MirrorEntry:
        entry = self.mirror.get(f"{ROOT}/items/{JOURNAL}")
        assert entry is not None
        return entry

    def consistent(self) -> Sequence[bool]:
        return self.policy.consistent(self.item, self.mirror.range(LAYOUT.assignments_of(JOURNAL)))


ROUTE = Route((NodeId("a#one"), NodeId("b#one")), NodeId("b#one")).encode()


def test_consistent_is_when_head_and_assignments_name_the_route() -> None:
    cluster = Cluster()
    cluster.assign("a#one#1", "b#one#0", value=ROUTE)
    assert cluster.consistent() == [False, False], "there is no head record"
    cluster.head("b#one", "a#one")
    assert cluster.consistent() == [True, True]
    cluster.assign("c#one#2", value=b"")
    assert cluster.consistent() == [False] * 3


def test_a_head_of_others_or_of_an_earlier_life_is_not_enough() -> None:
    cluster = Cluster()
    cluster.assign("a#one#1", "b#one#0", value=ROUTE)
    cluster.head("b#one", "c#one")
    assert cluster.consistent() == [False, False]
    cluster.head("b#one", "a#one", created=Revision(1))
    assert cluster.consistent() == [False, False]
    assert cluster.policy.preferred(cluster.item) == ()


def test_an_assignment_of_another_route_is_not_consistent() -> None:
    cluster = Cluster()
    cluster.assign("a#one#0", "b#one#1", value=ROUTE)  # the primary is another one
    cluster.head("b#one", "a#one")
    assert cluster.consistent() == [False, False]


def test_removals_are_guarded_by_the_head_record() -> None:
    cluster = Cluster()
    assert cluster.policy.guards(cluster.item) == [is_at(f"{ROOT}/heads/{JOURNAL}", Revision(0))]
    revision = cluster.head("a#one")
    assert cluster.policy.guards(cluster.item) == [is_at(f"{ROOT}/heads/{JOURNAL}", revision)]
    assert cluster.policy.preferred(cluster.item) == ["a#one"]


def test_load_is_what_was_measured_and_nonsense_is_none() -> None:
    cluster = Cluster()
    loads = []
    for value in (None, encode_load(3 << 20), encode_load(float("nan")), encode_load(-1.0), b"\xc1"):
        if value is not None:
            cluster.put(f"{ROOT}/loads/{JOURNAL}", value)
        demand = cluster.policy.demand(cluster.item)
        assert demand is not None
        loads.append((demand.replication, demand.load))
    assert loads == [(2, 1.0), (2, 4.0), (2, 1.0), (2, 1.0), (2, 1.0)]


def test_other_keys_of_a_journal_name_it() -> None:
    policy = Cluster().policy
    assert policy.item_of(f"{ROOT}/heads/{JOURNAL}") == policy.item_of(f"{ROOT}/loads/{JOURNAL}") == JOURNAL
    assert policy.item_of(f"{ROOT}/other/{JOURNAL}") is None


def test_a_broker_is_read_back_and_nonsense_is_refused() -> None:
    broker = BrokerSpec(endpoint="tcp://127.0.0.1:1", limit=7, is_exiting=True)
    assert BrokerSpec.decode(broker.encode()) == broker
    with pytest.raises(InvalidArgument):
        BrokerSpec.decode(b"nonsense")


def test_a_spec_nobody_can_read_is_left_alone() -> None:
    cluster = Cluster()
    cluster.put(f"{ROOT}/items/{JOURNAL}", b"nonsense")
    assert cluster.policy.demand(cluster.item) is None


def test_an_allocator_of_journals_places_one() -> None:
    cluster = Cluster()
    for name in ("a#one", "b#one"):
        cluster.put(f"{ROOT}/members/{name}", BrokerSpec(endpoint="x").encode())
    allocator = Allocator(ROOT, cluster.policy)
    allocator.load(cluster.mirror.range(ROOT))
    (batch,) = allocator.plan(MemberId("a", "one"))
    assert batch.items == [JOURNAL]
    assert len(batch.transaction.then) == 2


@pytest.mark.parametrize(
    ("rest", "coming", "may"),
    [
        (("z#b#1", "z#c#2"), 0, True),
        (("z#b#1",), 0, False),  # one is too few
        (("z#b#1",), 1, True),
        (("z#d#1", "z#e#2"), 0, False),  # neither was named by the head record
    ],
)
def test_a_pass_over_leaves_enough_brokers_and_one_that_was_certified(
    rest: tuple[str, ...], coming: int, *, may: bool
) -> None:
    cluster = Cluster()
    spec = JournalSpec(name=JOURNAL, replication=3, least=2)
    cluster.put(f"{ROOT}/items/{JOURNAL}", msgspec.msgpack.encode(spec))
    cluster.assign("z#a#0", *rest, value=b"route")
    cluster.head("z#a", "z#b", "z#c")
    entries = [entry for place in rest if (entry := cluster.mirror.get(f"{ROOT}/assign/{JOURNAL}#{place}"))]
    assert cluster.policy.may_pass_over(cluster.item, entries, coming) is may
    cluster.assign(*rest, value=b"")
    entries = [entry for place in rest if (entry := cluster.mirror.get(f"{ROOT}/assign/{JOURNAL}#{place}"))]
    assert not cluster.policy.may_pass_over(cluster.item, entries, coming), "none was synchronized since it came"


def test_a_journal_that_never_was_synchronized_wants_all() -> None:
    cluster = Cluster()
    assert cluster.policy.may_pass_over(cluster.item, [], 2)
    assert not cluster.policy.may_pass_over(cluster.item, [], 1)
