"""The answers to an append, state by state: refusals, waits, deadlines, barriers, transactions."""

import msgspec

from penstock.journals.core.append_fsm import AppendState
from penstock.journals.core.effects import IndexRefreshed, TopologyChanged
from penstock.journals.records.api import Fate, Status
from penstock.journals.records.registers import Txn
from penstock.journals.records.spec import Flags
from penstock.kernel.ids import SECOND, Instant, Offset
from penstock_lab.explorer_journal.world import JournalWorld, broker

B0, B1, B2 = map(broker, range(3))


def synchronized(**options: int) -> JournalWorld:
    return JournalWorld(**options).start(synchronized=True)  # type: ignore[arg-type]


def waits(world: JournalWorld, append: int) -> tuple[AppendState, str]:
    explained = world.sites[world.asked[append][0]].replica.explain()
    return next((state, why) for request, state, why in explained if request == append)


def test_a_journal_nobody_knows() -> None:
    world = JournalWorld()
    world.boot(B0)
    append = world.append(B0)
    assert world.answers[append].status is Status.JOURNAL_NOT_FOUND


def test_another_broker_is_the_primary() -> None:
    world = synchronized()
    refused = world.append(B1)
    assert world.answers[refused].status is Status.NOT_JOURNAL_PRIMARY_BROKER
    handed_on = world.append(B1, may_proxy=True)
    assert world.proxied == {handed_on: B0}


def test_too_few_members() -> None:
    world = JournalWorld().start(members=1, synchronized=True)
    append = world.append(B0)
    assert world.answers[append].status is Status.INSUFFICIENT_JOURNAL_BROKERS
    assert "1 of 2 brokers" in world.answers[append].reason


def test_too_many_members_wait_until_the_allocator_has_removed_one() -> None:
    world = synchronized()
    world.add(B2)
    world.settle()
    append = world.append(B0)
    [(_, pulse, why), (_, state, _)] = world.sites[B0].replica.explain()
    assert (pulse, why.split()[0], state) == (AppendState.RESOLVE, "revision", AppendState.ACQUIRE_PIPELINE)
    world.remove(B1)
    world.settle()
    assert world.fate(append) is Fate.COMMITTED


def test_preconditions_wait_for_the_first_listing_of_the_stores() -> None:
    world = synchronized()
    world.sites[B0].replica.index_end = None
    append = world.append(B0)
    assert waits(world, append)[0] is AppendState.VALIDATE_PRECONDITIONS
    world.step(B0, IndexRefreshed(Offset(0)))
    world.settle()
    assert world.fate(append) is Fate.COMMITTED


def test_the_turn_is_waited_for_in_words() -> None:
    world = synchronized()
    first = world.append(B0, by_hand=True)
    second = world.append(B0)
    assert waits(world, first) == (AppendState.STREAM_CONTENT, "the client's content")
    assert waits(world, second)[0] is AppendState.ACQUIRE_PIPELINE
    world.feed(first)
    assert waits(world, first) == (AppendState.READ_ACKNOWLEDGEMENTS, "acknowledgement by b1")
    assert waits(world, second)[0] is AppendState.READ_ACKNOWLEDGEMENTS, "one behind the other, both in flight"
    world.settle()
    assert world.fate(first) is world.fate(second) is Fate.COMMITTED


def test_appends_in_flight_are_bounded() -> None:
    world = synchronized()
    replica = world.sites[B0].replica
    replica.config = msgspec.structs.replace(replica.config, in_flight_max=2)
    appends = [world.append(B0) for _ in range(3)]
    assert waits(world, appends[2])[1] == "room in the pipeline"
    world.settle()
    assert [world.fate(each) for each in appends] == [Fate.COMMITTED] * 3


def test_the_queue_is_bounded() -> None:
    world = synchronized()
    replica = world.sites[B0].replica
    replica.config = msgspec.structs.replace(replica.config, queue_max=2)
    world.append(B0, by_hand=True)
    world.append(B0)
    refused = world.append(B0)
    assert world.answers[refused].status is Status.OVERLOADED


def test_a_deadline_before_the_proposal_is_definite_and_behind_it_is_not() -> None:
    world = synchronized()
    soon = Instant(SECOND)
    proposed = world.append(B0, deadline=soon)
    streaming = world.append(B0, by_hand=True, deadline=soon)
    waiting = world.append(B0, deadline=soon)
    world.pass_time(B0, 2, "deadline")
    assert [world.fate(each) for each in (proposed, streaming, waiting)] == [Fate.UNKNOWN, Fate.ABORTED, Fate.ABORTED]
    unknown = world.answers[proposed]
    assert unknown.commit is not None
    assert (unknown.commit.begin, unknown.commit.end, unknown.epoch.n) == (0, 1, 1)
    world.settle()
    assert world.resolve(B1, proposed).value == "committed"


def test_an_offset_which_is_not_the_end() -> None:
    world = synchronized()
    world.append(B0, length=3)
    right, wrong = world.append(B0, offset=3), world.append(B0, offset=3)
    world.settle()
    assert world.fate(right) is Fate.COMMITTED
    assert (world.answers[wrong].status, world.answers[wrong].end) == (Status.WRONG_APPEND_OFFSET, 4)


def test_a_barrier_tells_the_registers_and_the_end() -> None:
    world = synchronized()
    world.append(B0)
    barrier = world.append(B0, length=0)
    world.settle()
    answer = world.answers[barrier]
    assert (answer.fate, answer.end, str(answer.registers)) == (Fate.COMMITTED, 1, "last=1")


def test_registers_change_only_with_content() -> None:
    world = synchronized()
    txn = world.append(B0, length=0, txn=Txn("writer", 1))
    assert world.answers[txn].status is Status.NOT_ALLOWED


def test_transactions_of_a_writer_only_rise() -> None:
    world = synchronized()
    world.append(B0, txn=Txn("writer", 2))
    late = world.append(B0, txn=Txn("writer", 1))
    world.settle()
    assert world.answers[late].status is Status.TXN_SUPERSEDED


def test_a_read_only_journal_takes_barriers_and_no_content() -> None:
    world = synchronized()
    replica = world.sites[B0].replica
    assert replica.topology.spec is not None
    spec = msgspec.structs.replace(replica.topology.spec, flags=Flags.READ_ONLY)
    world.step(B0, TopologyChanged(msgspec.structs.replace(replica.topology, spec=spec)))
    world.step(B0, IndexRefreshed(Offset(50)))
    content, barrier = world.append(B0), world.append(B0, length=0)
    world.settle_links(B0, B1)
    assert world.answers[content].status is Status.NOT_ALLOWED
    assert world.fate(barrier) is Fate.COMMITTED, "whatever the stores hold"


def test_an_index_which_is_ahead_refuses() -> None:
    world = synchronized()
    world.step(B0, IndexRefreshed(Offset(7)))
    refused = world.append(B0)
    assert world.answers[refused].status is Status.INDEX_HAS_GREATER_OFFSET, "a zombie's answer, or a foreign writer"


def test_a_deleted_journal_leaves_what_was_proposed_unknown() -> None:
    world = synchronized()
    append, waiting = world.append(B0), world.append(B0, by_hand=True)
    world.cut(B0, B1)
    world.settle(B0)
    world.keys.delete()
    world.mirror(B0)
    assert (world.fate(append), world.fate(waiting)) == (Fate.UNKNOWN, Fate.ABORTED)


def test_reset_head_is_refused_while_there_is_nothing_to_reset() -> None:
    world = synchronized()
    reset = world.reset_head(B0)
    world.settle()
    assert world.answers[reset].status is Status.NOT_ALLOWED
    append = world.append(B0)
    world.settle()
    assert world.fate(append) is Fate.COMMITTED


def test_after_a_reset_checks_and_transactions_fail_until_registers_are_written() -> None:
    world = JournalWorld(replication=1, size=2).start(synchronized=True)
    world.append(B0)
    world.crash(B0)
    world.fail_over(B1, B1)
    world.settle()
    world.reset_head(B1)
    world.settle()
    checked = world.append(B1, check="last=1")
    txn = world.append(B1, txn=Txn("writer", 1))
    world.settle()
    assert {world.answers[each].status for each in (checked, txn)} == {Status.REGISTERS_LOST}
    world.append(B1)
    again = world.append(B1, check="last=5")
    world.settle()
    assert world.fate(again) is Fate.COMMITTED


def test_a_head_which_is_known_to_be_lost_is_told_at_once_and_an_operator_does_not_wait() -> None:
    world = JournalWorld(replication=1, size=2).start(synchronized=True)
    world.append(B0)
    world.crash(B0)
    world.fail_over(B1, B1)
    world.settle()
    backoff = world.sites[B1].replica.backoff
    backoff.until = Instant(SECOND)
    refused = world.append(B1)
    assert world.answers[refused].status is Status.HEAD_LOST
    reset = world.reset_head(B1)
    world.settle()
    assert world.answers[reset].status is Status.OK
