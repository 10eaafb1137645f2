"""S1 to S12 of journals.md, step by step."""

from tests.journals.core.schedule_world import B0, B1, B2, B3, B4, begin, world

from penstock.journals.core.effects import IndexRefreshed
from penstock.journals.core.replica import Replica
from penstock.journals.records.api import Fate, Resolution, Status
from penstock.kernel.ids import Offset
from penstock_lab.explorer_journal.world import JournalWorld


def s1_early_sight(kind: type[Replica]) -> JournalWorld:
    """Append at the primary, crash before a peer has it: no reader may have seen it, and the offset is written
    again.
    """
    w = world(kind)
    a = w.append(B0)
    w.cut(B0, B1)
    w.crash(B0)
    w.fail_over(B1, B2)
    w.settle()
    b = w.append(B1)
    w.settle()
    assert (w.fate(a), w.fate(b)) == (None, Fate.COMMITTED)
    assert w.checks.truth == {0: b}
    return w


def s1_majority(kind: type[Replica]) -> JournalWorld:
    """The same with R = 3, where one of two peers has it: two of three are not enough."""
    w = world(kind, replication=3, size=4)
    a = w.append(B0)
    w.drain(B0, B1)
    w.drain(B1, B0)
    assert w.fate(a) is None
    w.cut(B0, B2)
    w.crash(B0)
    w.crash(B1)
    w.boot(B1)
    w.fail_over(B2, B3, B1)
    w.settle()
    b = w.append(B2)
    w.settle()
    assert w.fate(b) is Fate.COMMITTED
    return w


def s2_zombie_and_lagging_peer(kind: type[Replica]) -> JournalWorld:
    """A zombie appends to a peer which has promised another primary: it is neither applied nor acknowledged."""
    w = world(kind)
    w.expire(B0)
    w.add(B2)  # in slot 0: the primary
    a = w.append(B0)
    w.mirror(B2)
    w.mirror(B1)
    w.deliver(B2, B1)  # the promise
    w.drain(B0, B1)
    w.settle(B1, B2)
    b = w.append(B2)
    w.settle(B1, B2)
    w.settle()
    assert w.fate(b) is Fate.COMMITTED
    assert w.fate(a) is Fate.ABORTED, "the next epoch went on without it"
    return w


def s3_zombie_drains_to_the_store(kind: type[Replica]) -> JournalWorld:
    """Like S2 with an unacknowledged append; the zombie leaves, and uploads only decided content: nothing of that."""
    w = world(kind)
    w.expire(B0)
    w.append(B0)
    w.cut(B0, B1)
    w.fail_over(B1, B2)
    w.mirror(B0, 1)  # it learns that it is out, and not yet who is in
    while w.sites[B0].uploads:
        w.persist(B0)
    w.settle(B1, B2)
    b = w.append(B1)
    w.settle()
    while w.sites[B0].uploads:
        w.persist(B0)
    assert w.fate(b) is Fate.COMMITTED
    assert not w.checks.stored
    return w


def s4_commit_reaches_some(kind: type[Replica]) -> JournalWorld:
    """R = 3, a commit reaches one of two peers, the connection breaks: the next epoch decides, and says so to all."""
    w = world(kind, replication=3, size=3)
    a = w.append(B0)
    w.drain(B0, B1)
    w.cut(B0, B1)
    w.cut(B0, B2)
    w.settle()
    w.pulse(B0)
    w.settle()
    assert w.fate(a) is Fate.ABORTED, "one member did not have it"
    assert w.resolve(B1, a) is Resolution.ABORTED if w.fate(a) is Fate.UNKNOWN else True
    b = w.append(B0)
    w.settle()
    assert w.fate(b) is Fate.COMMITTED
    return w


def s4_the_ack_is_lost(kind: type[Replica]) -> JournalWorld:
    """The peer has it, its acknowledgement is lost, the primary dies: the append is committed, registers and all."""
    w = world(kind)
    w.append(B0)
    w.drain(B0, B1)
    w.cut(B0, B1)
    w.settle(B0)
    w.expire(B0)
    w.fail_over(B1, B2)
    w.settle(B1, B2)
    assert w.keys.head is not None
    assert w.keys.head.start == 1
    w.settle()
    assert w.fate(1) is Fate.COMMITTED, "the zombie learns it from the KeySpace"
    return w


def s4_own_registers(kind: type[Replica]) -> JournalWorld:
    """The primary alone has an append when its peer's connection breaks: its registers must go with its bytes."""
    w = world(kind)
    w.append(B0)
    w.settle()
    a = w.append(B0)
    w.cut(B0, B1)
    w.settle()
    w.pulse(B0)
    w.settle()
    assert w.fate(a) is Fate.ABORTED
    return w


def s5_largest_end(kind: type[Replica]) -> JournalWorld:
    """R = 3: a commit is on one of two replicas, the primary dies, re-sync, that replica dies: no hole may be left."""
    w = world(kind, replication=3, size=5)
    a = w.append(B0)
    w.drain(B0, B1)
    w.cut(B0, B2)
    w.crash(B0)
    w.fail_over(B2, B3)
    w.settle()
    b = w.append(B2)
    w.settle()
    w.crash(B1)
    w.fail_over(B2, B4)
    w.settle()
    assert w.fate(b) is Fate.COMMITTED
    assert a not in w.checks.truth.values()
    return w


def s6_certify_before_adopted(kind: type[Replica]) -> JournalWorld:
    """A certification before all have adopted: the primary dies, and who did not adopt is no participant."""
    w = world(kind, is_synchronized=False)
    w.mirror(B1)
    w.mirror(B0)
    w.deliver(B0, B1)  # promise
    w.deliver(B1, B0)  # and b0 adopts, alone
    while w.transactions:
        w.transact()
    w.cut(B0, B1)
    w.crash(B0)
    w.fail_over(B1, B2)
    w.settle()
    b = w.append(B1)
    w.settle()
    assert w.fate(b) is Fate.COMMITTED, "one fault does not lose the head"
    return w


def s7_mark_before_certification(kind: type[Replica]) -> JournalWorld:
    """A sync is adopted at a point which another participant of the older epoch has not reached, and not certified."""
    w = world(kind, replication=2, size=4)
    w.append(B0)
    w.drain(B0, B1)  # b1 has it, and no other member knows
    w.cut(B0, B1)
    w.expire(B0)
    w.fail_over(B1, B2)
    w.settle(B1)
    w.mirror(B2)
    w.deliver(B1, B2)  # promise
    w.deliver(B2, B1)  # b1 adopts at 1, alone
    w.expire(B1)
    w.regain(B0)
    w.fail_over(B2, B0)
    w.settle(B0, B2)
    b = w.append(B2)
    w.settle()
    assert w.fate(b) is Fate.COMMITTED
    return w


def s8_a_spool_comes_back(kind: type[Replica]) -> JournalWorld:
    """A Spool with a failed tail, longer than the real end, returns when its lease is regained, in one watch batch."""
    w = world(kind, size=4)
    w.append(B0)
    w.append(B0)
    w.cut(B0, B1)
    w.expire(B0)
    w.fail_over(B1, B2)
    w.settle(B1, B2)
    b = w.append(B1)
    w.settle(B1, B2)
    w.regain(B0)
    w.add(B0)
    w.settle()
    w.remove(B2)
    w.settle()
    c = w.append(B1)
    w.settle()
    assert (w.fate(b), w.fate(c)) == (Fate.COMMITTED, Fate.COMMITTED)
    assert w.checks.truth == {0: b, 1: c}
    assert w.sites[B0].view.end == 2
    return w


def s8_equal_length(kind: type[Replica], tail: int = 1) -> JournalWorld:
    """The same where the failed tail is as long as the content written instead, and the Spool survived a restart."""
    w = world(kind, size=4, is_kept=True)
    for _ in range(tail):
        w.append(B0)
    w.cut(B0, B1)
    w.crash(B0)
    w.fail_over(B1, B2)
    w.settle(B1, B2)
    b = w.append(B1)
    w.settle(B1, B2)
    w.boot(B0, is_added=True)
    w.settle()
    w.remove(B2)
    w.settle()
    c = w.append(B1)
    w.settle()
    assert (w.fate(b), w.fate(c)) == (Fate.COMMITTED, Fate.COMMITTED)
    assert w.checks.truth == {0: b, 1: c}
    return w


def s8_longer(kind: type[Replica]) -> JournalWorld:
    """The same where the failed tail is longer."""
    return s8_equal_length(kind, tail=3)


def s9_total_loss_of_a_virgin_journal(kind: type[Replica]) -> JournalWorld:
    """Let all R leases expire with an empty store: the next members must refuse, for the zombies still acknowledge."""
    w = world(kind, size=4)
    w.expire(B0)
    w.expire(B1)
    a = w.append(B0)
    w.drain(B0, B1)
    w.drain(B1, B0)
    assert w.fate(a) is Fate.COMMITTED
    w.add(B2)
    w.add(B3)
    w.settle(B2, B3)
    b = w.append(B2)
    w.settle(B2, B3)
    assert w.answers[b].status is Status.HEAD_LOST
    return w


def s10_reset_head(kind: type[Replica]) -> JournalWorld:
    """Lose all R, reset-head; then a zombie's late upload: its offsets and the new ones must not meet."""
    w = world(kind, size=4, fragment_length=1)
    w.append(B0)
    w.settle()
    w.append(B0)
    w.settle()
    w.persist(B0)
    w.expire(B0)
    w.expire(B1)
    z = w.append(B0)
    w.drain(B0, B1)
    w.drain(B1, B0)
    assert w.fate(z) is Fate.COMMITTED
    w.add(B2)
    w.add(B3)
    for name in (B2, B3):
        w.step(name, IndexRefreshed(Offset(1)))
    w.settle(B2, B3)
    r = w.reset_head(B2)
    w.settle(B2, B3)
    assert w.answers[r].status is Status.OK
    c = w.append(B2)
    w.settle(B2, B3)
    w.settle()
    while w.sites[B0].uploads:
        w.persist(B0)
    assert w.fate(c) is Fate.COMMITTED
    assert begin(w, c) == 1_000, "above all that was ever allowed"
    return w


def s11_two_later_epochs(kind: type[Replica]) -> JournalWorld:
    """A broker departs with a tail; two later epochs, the second starts above it: the first decides."""
    w = world(kind, size=4)
    w.append(B0)
    w.cut(B0, B1)
    w.expire(B0)
    w.fail_over(B1, B2)
    w.settle(B1, B2)
    w.append(B1)
    w.append(B1)
    w.settle(B1, B2)
    w.cut(B1, B2)
    w.settle(B1, B2)
    w.pulse(B1)
    w.settle(B1, B2)
    assert w.keys.head is not None
    assert w.keys.head.start == 2
    w.mirror(B0)  # in one batch
    while w.sites[B0].uploads:
        w.persist(B0)
    assert not w.checks.stored
    return w


def s12_resolve_after_two_epochs(kind: type[Replica]) -> JournalWorld:
    """The same for resolve, asked only after the second epoch."""
    w = world(kind, size=4)
    a = w.append(B0, deadline=w.now)
    w.cut(B0, B1)
    w.settle(B0)
    w.pass_time(B0, 1, "deadline")
    assert w.fate(a) is Fate.UNKNOWN
    w.expire(B0)
    w.fail_over(B1, B2)
    w.settle(B1, B2)
    w.append(B1)
    w.append(B1)
    w.settle(B1, B2)
    assert w.resolve(B1, a) is Resolution.ABORTED
    w.cut(B1, B2)
    w.settle(B1, B2)
    w.pulse(B1)
    w.settle(B1, B2)
    assert w.resolve(B2, a) is Resolution.ABORTED
    return w
