"""S13 to S23 of journals.md, and H1 to H3 which were found here, step by step."""

from tests.journals.core.schedule_world import B0, B1, B2, B3, B4, begin, mark, world

from penstock.journals.core.effects import IndexRefreshed, TransactionEnd
from penstock.journals.core.replica import Replica
from penstock.journals.records.api import Fate, Status
from penstock.journals.records.registers import Txn
from penstock.kernel.ids import Offset
from penstock_lab.explorer_journal.world import JournalWorld


def s13_quoting_what_nobody_acknowledged(kind: type[Replica]) -> JournalWorld:
    """REGISTER_MISMATCH because of an append which no peer has: told only when that is committed, else tried again."""
    w = world(kind)
    w.append(B0)
    c = w.append(B0, check="last=0")
    assert w.fate(c) is None
    w.cut(B0, B1)
    w.settle()
    w.pulse(B0)
    w.settle()
    assert w.fate(c) is Fate.COMMITTED, "the registers are virgin again, and every check passes"
    return w


def s13_a_zombie_quotes(kind: type[Replica]) -> JournalWorld:
    """A zombie cannot tell a client that it is fenced: its peer has promised another."""
    w = world(kind)
    w.append(B0)
    w.settle()
    w.expire(B0)
    w.fail_over(B1, B2)
    w.settle(B1, B2)
    b = w.append(B1)
    w.settle(B1, B2)
    c = w.append(B0, check="last=2")
    w.drain(B0, B1)
    w.drain(B1, B0)
    assert w.fate(b) is Fate.COMMITTED
    assert w.fate(c) is None, "nothing is told from stale registers"
    w.settle()
    assert w.answers[c].status in (Status.NOT_JOURNAL_PRIMARY_BROKER, Status.NO_JOURNAL_PRIMARY_BROKER)
    return w


def s14_the_first_of_two_fails(kind: type[Replica]) -> JournalWorld:
    """Two pipelined appends, and the pipeline breaks after the first: the second cannot commit without it."""
    w = world(kind)
    a = w.append(B0)
    b = w.append(B0)
    w.deliver(B0, B1, count=2)  # content and proposal of the first
    w.cut(B0, B1)
    w.settle()
    w.pulse(B0)
    w.settle()
    assert w.fate(a) is w.fate(b) is Fate.ABORTED, "the primary counts with its mark"
    c = w.append(B0)
    w.settle()
    assert w.fate(c) is Fate.COMMITTED
    return w


def s15_planned_replacement(kind: type[Replica]) -> JournalWorld:
    """Replace all R while uploads are on their way: no fault, and nothing is lost."""
    w = world(kind, size=4)
    a = w.append(B0)
    w.settle()
    for new, old in ((B2, B0), (B3, B1)):
        w.add(new)
        w.settle()
        w.remove(old)
        if w.keys.now.route.primary is None:
            w.promote(new)
        w.settle()
    b = w.append(B2)
    w.settle()
    assert (w.fate(a), w.fate(b)) == (Fate.COMMITTED, Fate.COMMITTED)
    assert [fragment.end for fragment in w.sites[B0].uploads] == [1], "who left still has it, and uploads it"
    assert not w.checks.faults
    return w


def s16_a_zombie_completes(kind: type[Replica]) -> JournalWorld:
    """A zombie completes a commit with all old members after the Route changed: it stays OK."""
    w = world(kind)
    w.expire(B0)
    w.fail_over(B1, B2)
    a = w.append(B0)
    w.drain(B0, B1)
    w.drain(B1, B0)
    assert w.fate(a) is Fate.COMMITTED
    w.settle()
    b = w.append(B1)
    w.settle()
    assert w.fate(b) is Fate.COMMITTED
    assert w.checks.truth == {0: a, 1: b}
    return w


def s17_restart_with_an_old_mark(kind: type[Replica]) -> JournalWorld:
    """A primary with a kept Spool restarts: its saved mark is older than its last acknowledgement."""
    w = world(kind, is_kept=True)
    a = w.append(B0)
    w.settle()
    assert w.fate(a) is Fate.COMMITTED
    w.crash(B0)
    w.boot(B0)
    w.crash(B1)
    w.boot(B1)
    w.add(B0)
    w.add(B1)
    w.settle()
    b = w.append(B0)
    w.settle()
    assert w.fate(b) is Fate.COMMITTED
    assert w.checks.truth == {0: a, 1: b}
    return w


def s18_another_life(kind: type[Replica]) -> JournalWorld:
    """Deleted and created again in one batch, with an upload of the old life on its way: they do not meet."""
    w = world(kind, fragment_length=1)
    w.append(B0)
    w.settle()
    w.append(B0)
    w.settle()
    assert w.sites[B0].uploads
    late = w.sites[B0].uploads[0]
    w.keys.delete()
    w.keys.create(w.spec)
    w.add(B1)
    w.add(B2)
    for name in (B0, B1, B2):
        w.mirror(name)
        w.step(name, IndexRefreshed(Offset(0)))
    w.settle()
    assert w.sites[B0].view.end == 0, "what it held belongs to nobody"
    b = w.append(B1)
    w.settle()
    w.checks.stored_one(late)
    assert w.fate(b) is Fate.COMMITTED
    assert begin(w, b) == 1_000
    return w


def s19_the_client_gives_up(kind: type[Replica]) -> JournalWorld:
    """A client aborts before its turn, before its first byte, between bytes, and again: no trace of it anywhere."""
    w = world(kind)
    first = w.append(B0, length=2, by_hand=True)
    second = w.append(B0, by_hand=True)
    w.abort(second)
    w.feed(first, bytes([first]), is_end=False)
    w.drain(B0, B1)
    w.abort(first)
    third = w.append(B0, by_hand=True)
    w.abort(third)
    assert [w.answers[each].status for each in (first, second, third)] == [Status.CLIENT_ABORT] * 3
    good = w.append(B0)
    w.settle()
    assert w.fate(good) is Fate.COMMITTED
    assert w.checks.truth == {0: good}
    return w


def s20_the_limit(kind: type[Replica]) -> JournalWorld:
    """The limit is reached while the KeySpace does not answer: a definite ABORTED, and reads continue."""
    w = world(kind, limit_step=4)
    for _ in range(4):
        w.append(B0)
        w.drain(B0, B1)
        w.drain(B1, B0)
    e = w.append(B0)
    w.drain(B0, B1)
    assert w.answers[e].status is Status.LIMIT_REACHED
    assert mark(w, B0) == 4
    w.settle()
    f = w.append(B0)
    w.settle()
    assert w.fate(f) is Fate.COMMITTED
    return w


def s21_one_replica_and_a_zombie(kind: type[Replica]) -> JournalWorld:
    """R = 1: the zombie's acknowledged append and the new member's must not share an offset."""
    w = world(kind, replication=1, size=2)
    w.expire(B0)
    a = w.append(B0)
    assert w.fate(a) is Fate.COMMITTED
    w.add(B1)
    w.settle(B1)
    b = w.append(B1)
    w.settle(B1)
    assert w.answers[b].status is Status.HEAD_LOST
    w.regain(B0)
    w.settle(B0)
    w.add(B0)
    w.settle()
    assert w.keys.is_consistent, "who holds the last bytes is back, and the journal goes on"
    return w


def s22_open_streams(kind: type[Replica]) -> JournalWorld:
    """A zombie holds its streams open: the new primary does not wait for it."""
    w = world(kind)
    a = w.append(B0, length=2, by_hand=True)
    w.feed(a, bytes([a]), is_end=False)
    w.drain(B0, B1)
    w.expire(B0)
    w.add(B2)  # in slot 0: the primary
    w.settle(B1, B2)
    b = w.append(B2)
    w.settle(B1, B2)
    assert w.fate(b) is Fate.COMMITTED
    return w


def s23_late_acks(kind: type[Replica]) -> JournalWorld:
    """The old primary, back as a replica, promises with acknowledgements of its old pipeline on their way."""
    w = world(kind, size=3)
    a = w.append(B0)
    w.drain(B0, B1)  # the acknowledgement is on its way
    w.expire(B0)
    w.expire(B1)
    w.regain(B0)
    w.add(B2)
    w.add(B0)
    w.mirror(B2)
    w.settle(B2)
    w.mirror(B0)  # removed and added again in one batch
    w.deliver(B2, B0)  # promise
    w.deliver(B0, B2)
    w.drain(B1, B0)  # the late acknowledgement
    w.settle(B0, B2)
    b = w.append(B2)
    w.settle()
    assert w.fate(a) is not Fate.COMMITTED
    assert w.fate(b) is Fate.COMMITTED
    return w


def _a_stale_member(kind: type[Replica]) -> tuple[JournalWorld, int]:
    """R = 3: b1 alone has an append of the first epoch; b1, b3 and b4 continue from there, and that is being certified.

    b2 was a member of the first epoch, has nothing, and comes back.
    """
    w = world(kind, replication=3, size=5)
    a = w.append(B0)
    w.drain(B0, B1)
    w.cut(B0, B1)
    w.cut(B0, B2)
    w.expire(B0)
    w.expire(B2)
    w.fail_over(B1, B3, B4)
    w.mirror(B3)
    w.mirror(B4)
    w.mirror(B1)
    w.settle_links(B1, B3, B4)
    assert w.transactions, "the certification is on its way"
    w.regain(B2)
    return w, a


def h1_certification_in_flight(kind: type[Replica]) -> JournalWorld:
    """The stale member joins while the certification is on its way: its compares still hold, it lands late."""
    w, a = _a_stale_member(kind)
    w.add(B2)
    for name in (B1, B2, B3, B4):
        w.mirror(name)
    w.settle_links(B1, B2, B3, B4)
    while w.transactions:
        w.transact(end=TransactionEnd.UNKNOWN if len(w.transactions) == 1 else None)
        w.settle_links(B1, B2, B3, B4)
        w.mirror(B1)
    w.settle()
    w.pulse(B1)
    w.settle()
    assert w.fate(a) is Fate.COMMITTED
    assert w.checks.truth == {0: a}
    return w


def s_old_route_certifies_last(kind: type[Replica]) -> JournalWorld:
    """The Route has another primary when the certification lands: it must not."""
    w, a = _a_stale_member(kind)
    w.expire(B1)
    w.fail_over(B3, B2)
    for name in (B2, B3, B4):
        w.mirror(name)
    w.settle_links(B2, B3, B4)
    w.transact()
    w.settle()
    w.pulse(B3)
    w.settle()
    assert w.fate(a) is Fate.ABORTED
    b = w.append(B3)
    w.settle()
    assert w.fate(b) is Fate.COMMITTED
    return w


def h2_uncertified_twice(kind: type[Replica]) -> JournalWorld:
    """A replica that lags becomes primary, adopts a sync, and must build it again: its own mark is too low."""
    w = world(kind)
    a = w.append(B0)
    w.drain(B0, B1)
    w.drain(B1, B0)
    assert w.fate(a) is Fate.COMMITTED
    assert mark(w, B1) == 0, "the mark is on its way"
    w.crash(B0)
    w.links.clear()
    w.fail_over(B1, B2)
    w.mirror(B1)
    w.mirror(B2)
    w.deliver(B1, B2)
    w.deliver(B2, B1)  # b1 adopts, and is not certified
    w.cut(B1, B2)
    w.settle()
    w.pulse(B1)
    w.settle()
    b = w.append(B1)
    w.settle()
    assert w.fate(b) is Fate.COMMITTED
    assert w.checks.truth == {0: a, 1: b}
    return w


def h3_too_few(kind: type[Replica]) -> JournalWorld:
    """Members join one by one: an epoch of fewer than R would be lost with fewer faults, so it is not certified."""
    w = JournalWorld(replica_class=kind, is_checked=kind is Replica).start(members=1, synchronized=True)
    w.crash(B0)
    w.fail_over(B1, B1, B2)
    w.settle()
    b = w.append(B1)
    w.settle()
    assert w.fate(b) is Fate.COMMITTED
    return w


def h4_uncertified_reset(kind: type[Replica]) -> JournalWorld:
    """R = 1: a reset is adopted at a limit which the zombie has just raised, so it is not certified, and never was."""
    w = world(kind, replication=1, size=2, limit_step=4)
    for _ in range(3):
        w.append(B0)
    assert w.transactions, "the limit is being raised"
    w.expire(B0)
    w.add(B1)
    w.mirror(B1)
    reset = w.reset_head(B1)
    w.transact()  # the limit is raised
    w.transact()  # and the reset is lost; it is tried again
    w.settle(B1)
    w.pulse(B1)
    w.settle(B1)
    for _ in range(3):
        w.append(B0)  # the zombie continues, up to the new limit
    b = w.append(B1)
    w.settle(B1)
    assert w.answers[reset].status is Status.OK
    assert begin(w, b) == 8, "above all that the zombie may still write"
    return w


def h4_uncertified_reset_and_a_restart(kind: type[Replica]) -> JournalWorld:
    """Restart b1 with its Spool before it knows the end of its reset: H4 with a kept Spool."""
    w = world(kind, replication=1, size=2, limit_step=4, is_kept=True)
    for _ in range(3):
        w.append(B0)
    w.expire(B0)
    w.add(B1)
    w.mirror(B1)
    w.reset_head(B1)
    w.transact()  # the limit is raised
    w.crash(B1)  # the reset leaves with its process
    w.boot(B1, is_added=True)
    w.settle(B1)
    w.pulse(B1)
    w.settle(B1)
    for _ in range(3):
        w.append(B0)  # the zombie continues, up to the new limit
    lost = w.append(B1)
    w.settle(B1)
    assert w.answers[lost].status is Status.HEAD_LOST, "the reset never was"
    reset = w.reset_head(B1)
    w.settle(B1)
    b = w.append(B1)
    w.settle(B1)
    assert w.answers[reset].status is Status.OK
    assert begin(w, b) == 8, "above all that the zombie may still write"
    return w


def h5_certified_reset_and_a_restart(kind: type[Replica]) -> JournalWorld:
    """The reset is certified, and its broker restarts before it saves anything again: the reset holds."""
    w = world(kind, replication=1, size=2, limit_step=4, is_kept=True)
    w.expire(B0)
    w.crash(B0)
    w.add(B1)
    w.mirror(B1)
    reset = w.reset_head(B1)
    w.settle(B1)
    assert w.answers[reset].status is Status.OK
    w.crash(B1)
    w.boot(B1, is_added=True)
    w.settle(B1)
    b = w.append(B1)
    w.settle(B1)
    assert w.fate(b) is Fate.COMMITTED, w.answers[b]
    assert begin(w, b) == w.answers[reset].end
    return w


def txn_retries(kind: type[Replica]) -> JournalWorld:
    """J12: a retry of the same transaction is answered with what the first one wrote."""
    w = world(kind)
    txn = Txn("writer", 1)
    a = w.append(B0, txn=txn)
    w.settle()
    again = w.append(B0, txn=txn, retry_of=a)
    w.settle()
    assert w.answers[again].commit == w.answers[a].commit
    assert w.checks.truth == {0: a}
    return w
