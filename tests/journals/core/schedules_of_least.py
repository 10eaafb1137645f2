"""Schedules of journals that need fewer than R members (decision 312), step by step. R = 3, two are enough."""

from typing import Any

from tests.journals.core.schedule_world import B0, B1, B2, B3, world

from penstock.journals.core.effects import IndexRefreshed
from penstock.journals.core.replica import Replica
from penstock.journals.records.api import Fate, Status
from penstock.journals.records.head import TABLE_MAX
from penstock.journals.records.registers import Txn
from penstock.kernel.ids import NodeId
from penstock_lab.explorer_journal.world import JournalWorld
from penstock_lab.sim.least.broken import SetsAside


def _three(kind: type[Replica], **options: Any) -> JournalWorld:
    return world(kind, replication=3, least=2, size=3, **options)


def _passed_over(w: JournalWorld, name: NodeId) -> None:
    w.pass_over(name)
    if w.keys.now.route.primary is None:
        w.promote(next(each for each in w.keys.now.route.members if each in w.sites))
    w.settle()


def _back(w: JournalWorld, name: NodeId) -> None:
    w.add(name)
    w.settle()


def l_goes_on_with_two(kind: type[Replica]) -> JournalWorld:
    """A broker of three is lost and passed over: appends continue. With two lost, none is taken."""
    w = _three(kind)
    w.crash(B2)
    _passed_over(w, B2)
    a = w.append(B0)
    w.settle()
    assert w.fate(a) is Fate.COMMITTED
    assert w.keys.head is not None
    assert [member.broker for member in w.keys.head.members] == [B0, B1]
    assert not w.may_pass_over(B1), "one member is too few"
    w.crash(B1)
    w.fail_over(B0)
    w.settle()
    b = w.append(B0)
    w.settle()
    assert w.answers[b].status is Status.INSUFFICIENT_JOURNAL_BROKERS
    return w


def l_a_participant_remains(kind: type[Replica]) -> JournalWorld:
    """Two of three came back empty, and no sync was certified since: the third one is not passed over."""
    w = _three(kind)
    a = w.append(B0)
    w.settle()
    for name in (B1, B2):
        w.crash(name)
        w.boot(name)
        w.add(name)
    assert not w.may_pass_over(B0), "it alone has what was acknowledged"
    assert w.may_pass_over(B1)
    w.settle()
    b = w.append(B0)
    w.settle()
    assert [w.fate(each) for each in (a, b)] == [Fate.COMMITTED] * 2
    return w


def l_no_participant_is_named(kind: type[Replica]) -> JournalWorld:
    """Two are up, and neither has what the last epoch acknowledged: refused, and the answer says whom to bring back."""
    w = _three(kind)
    _passed_over(w, B2)
    a = w.append(B0)
    w.settle()
    assert w.fate(a) is Fate.COMMITTED
    w.expire(B0)
    w.expire(B1)
    w.crash(B1)
    w.boot(B1)
    w.add(B1)
    w.add(B2)
    w.settle()
    b = w.append(w.keys.now.route.primary or B1)
    w.settle()
    assert w.answers[b].status is Status.HEAD_LOST
    assert w.answers[b].reason.endswith("bring back one of b0, b1")
    w.regain(B0)
    _back(w, B0)
    c = w.append(w.keys.now.route.primary or B1)
    w.settle()
    assert w.fate(c) is Fate.COMMITTED
    assert w.checks.truth == {0: a, 1: c}
    return w


def sa_acks_of_participants(kind: type[Replica]) -> JournalWorld:
    """S-a: a member that came back empty acknowledges like the others, or an answered append is cut."""
    w = _three(kind)
    w.append(B0, length=20)
    w.settle()
    w.crash(B2)
    _passed_over(w, B2)
    w.boot(B2)
    _back(w, B2)
    x = w.append(B0)
    w.drain(B0, B1)
    w.drain(B1, B0)
    assert w.fate(x) is not Fate.ABORTED
    w.crash(B0)
    w.fail_over(B1)
    w.settle(B1, B2)
    assert w.keys.head is not None
    assert w.keys.head.start == 20
    return w


def sb_set_aside_alone(kind: type[Replica]) -> JournalWorld:
    """S-b: four brokers fall into two pairs that cannot reach each other. The KeySpace decides which pair leaves."""
    w = world(kind, replication=4, least=2, size=4)
    for name, gone in ((B0, (B1, B3)), (B1, (B0, B2))):
        replica = w.sites[name].replica
        if isinstance(replica, SetsAside):
            replica.set_aside(*gone)
        elif name == B0:
            w.pass_over(B1)
            w.pass_over(B3)
            w.catch_up()
    for name in (B0, B1):
        w.pulse(name)
    w.settle_links(B0, B2)
    w.settle_links(B1, B3)
    w.transact()
    w.mirror(B0)
    x = w.append(B0)
    w.settle_links(B0, B2)
    assert w.fate(x) is Fate.COMMITTED
    while w.transactions:
        w.transact()
    w.mirror(B1)
    w.pulse(B1)
    w.settle_links(B1, B3)
    while w.transactions:
        w.transact()
    w.settle(B0, B2)
    assert w.checks.truth == {0: x}
    return w


def sc_many_epochs_without_it(kind: type[Replica]) -> JournalWorld:
    """S-c: a broker is away for more epochs than the table has, and alone has an acknowledged append."""
    w = _three(kind)
    _passed_over(w, B2)
    y = w.append(B0)
    w.drain(B0, B1)
    w.drain(B1, B0)
    assert w.fate(y) is Fate.COMMITTED
    _back_with_two(w, B2)
    for _ in range(TABLE_MAX + 2):
        w.expire(B2)
        w.settle(B0, B2)
        w.regain(B2)
        w.add(B2)
        w.settle(B0, B2)
    w.crash(B0)
    w.settle()
    assert w.sites[B1].set_aside == 0
    assert any(each.begin <= 0 < each.end for each in w.sites[B1].uploads), "it is stored from there"
    return w


def _back_with_two(w: JournalWorld, name: NodeId) -> None:
    """The broker joins, and B1 is frozen and passed over before it learns of that."""
    w.cut(B0, B1)
    w.add(name)
    w.pass_over(B1)
    w.settle(B0, name)


def l_one_copy_is_not_committed(kind: type[Replica]) -> JournalWorld:
    """J12: an append that never left its primary is kept by a sync, and is committed only when it is in the store."""
    w = world(kind, replication=3, least=2, size=4, is_kept=True)
    x = w.append(B0, txn=Txn("w", 7))
    for name in (B1, B2):
        w.cut(B0, name)
        w.expire(name)
    w.crash(B0)
    w.boot(B0, is_added=True)
    w.add(B3)
    w.settle(B0, B3)
    again = w.append(B0, txn=Txn("w", 7), retry_of=x, sets_register=False)
    w.settle(B0, B3)
    assert w.answers[again].status is Status.IN_DOUBT
    while w.sites[B0].uploads:
        stored = w.persist(B0)
        w.step(B0, IndexRefreshed(stored.end, stored.end))
    again = w.append(B0, txn=Txn("w", 7), retry_of=x, sets_register=False)
    w.settle(B0, B3)
    assert w.fate(again) is Fate.COMMITTED
    return w


def l_a_life_begins_with_all(kind: type[Replica]) -> JournalWorld:
    """The first epoch wants R members: with two of them, nothing is acknowledged yet."""
    w = world(kind, is_synchronized=False, replication=3, least=2, size=3)
    w.keys.unassign(B2)
    w.settle()
    a = w.append(B0)
    w.settle()
    assert w.answers[a].status is Status.INSUFFICIENT_JOURNAL_BROKERS
    _back(w, B2)
    b = w.append(B0)
    w.settle()
    assert w.fate(b) is Fate.COMMITTED
    return w
