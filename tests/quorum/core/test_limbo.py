"""The limbo's own rules, on a leader whose log is in the test's hands. The queue's order is tested beside it."""

import pytest
from tests.quorum.core.single import E1, E2, A, txn

from penstock.kernel.effects import Effect, Persist
from penstock.kernel.ids import MILLISECOND, SECOND, Epoch, Instant, Lsn, Offset, RequestId
from penstock.quorum.core.config import NodeConfig
from penstock.quorum.core.limbo import Limbo
from penstock.quorum.core.limbo_queue import LimboLimits
from penstock.quorum.core.log import Log
from penstock.quorum.core.replica import Replica
from penstock.quorum.records.answers import Answers, Cause, Fate
from penstock.quorum.records.effects import AppendRequest
from penstock.quorum.records.entry import Barrier, ClientId, Rollback
from penstock.quorum.records.state import NO_SNAPSHOT, NodeState

NOW = Instant(0)


def limbo(**limits: int) -> Limbo:
    """In epoch 1, behind its barrier."""
    config = NodeConfig(limbo=LimboLimits(**limits))
    replica = Replica(NodeState(A, E1), Log(NO_SNAPSHOT, Offset(0), 1 << 20), config)
    replica.append((Barrier(E1),))
    replica.take_effects()
    return Limbo(replica)


def offer(limbo: Limbo, *requests: AppendRequest, now: Instant = NOW) -> list[Effect]:
    limbo.offer(requests, 3, now)
    limbo.admit(is_active=True)
    limbo.check()
    return limbo.replica.take_effects()


def request(number: int, value: str = "x", **options: object) -> AppendRequest:
    return AppendRequest(RequestId(number), ClientId("c"), number, value.encode(), **options)  # type: ignore[arg-type]


def expire(limbo: Limbo, at: int) -> list[Effect]:
    limbo.expire(Instant(at))
    limbo.check()
    return limbo.replica.take_effects()


def commit(limbo: Limbo, upto: int) -> list[Effect]:
    limbo.replica.commit = Offset(upto)
    limbo.committed(Offset(upto))
    limbo.check()
    return limbo.replica.take_effects()


def told(fate: Fate, *pairs: tuple[int, int], epoch: int = 1, cause: Cause = Cause.NONE) -> Answers:
    requests, offsets = zip(*pairs, strict=True)
    return Answers(fate, Epoch(epoch), tuple(map(RequestId, requests)), tuple(map(Offset, offsets)), cause=cause)


def test_what_is_admitted_is_appended_as_one_batch() -> None:
    assert offer(limbo(), request(1, "a"), request(2, "b", is_sync=False)) == [
        Persist(Lsn(2), (txn("a", 1), txn("b", 2, is_sync=False)))
    ]


def test_back_pressure_is_definite() -> None:
    full = limbo(length_max=1, volatile_length_max=2)
    effects = offer(full, request(1), request(2), request(3))
    assert effects == [
        told(Fate.OVERLOADED, (3, 0), epoch=0),
        Persist(Lsn(2), (txn("x", 1),)),
    ]
    assert commit(full, 2) == [told(Fate.COMMITTED, (1, 2))]
    full.admit(is_active=True)
    assert full.replica.take_effects() == [Persist(Lsn(3), (txn("x", 2),))]


def test_a_waiter_has_at_most_the_longest_time_out() -> None:
    one = limbo()
    offer(one, request(1, timeout_ns=10**18))
    assert one.timer_due() == one.config.append_timeout_ns_max


def test_the_timer_is_set_again_only_if_somebody_gives_up_sooner() -> None:
    one = limbo()
    assert one.timer_due() is None
    offer(one, request(1))
    assert one.timer_due() == 5 * SECOND
    offer(one, request(2))
    assert one.timer_due() is None
    offer(one, request(3, timeout_ns=MILLISECOND))
    assert one.timer_due() == 10 * MILLISECOND, "rounded up to the grain"


def test_a_rollback_names_the_lowest_of_those_who_want_it() -> None:
    one = limbo()
    offer(one, request(1), request(2, rolls_back=True), request(3, rolls_back=True), request(4))
    assert expire(one, 5 * SECOND) == [
        told(Fate.INDETERMINATE, (1, 2), cause=Cause.QUORUM_TIMEOUT),
        told(Fate.INDETERMINATE, (4, 5), cause=Cause.QUORUM_TIMEOUT),
        Persist(Lsn(6), (Rollback(E1, Offset(3)),)),
    ]
    assert commit(one, 2) == [], "1 was detached"
    assert commit(one, 6) == [told(Fate.ABORTED, (3, 4), (2, 3), cause=Cause.QUORUM_TIMEOUT)]


def test_a_doomed_waiter_writes_no_second_rollback() -> None:
    one = limbo()
    offer(one, request(1, rolls_back=True, timeout_ns=SECOND), request(2, rolls_back=True))
    assert expire(one, SECOND) == [Persist(Lsn(4), (Rollback(E1, Offset(2)),))]
    assert expire(one, 5 * SECOND) == [], "2 is doomed already: it waits for that to commit"
    assert expire(one, 6 * SECOND) == [told(Fate.INDETERMINATE, (1, 2), cause=Cause.QUORUM_TIMEOUT)], (
        "its grace is over"
    )
    assert expire(one, 10 * SECOND) == [told(Fate.INDETERMINATE, (2, 3), cause=Cause.QUORUM_TIMEOUT)]


@pytest.mark.parametrize(("is_sync", "rolls_back"), [(False, True), (True, False)])
def test_async_and_those_who_did_not_ask_are_never_rolled_back(is_sync: bool, rolls_back: bool) -> None:
    one = limbo()
    offer(one, request(1, is_sync=is_sync, rolls_back=rolls_back))
    assert expire(one, 5 * SECOND) == [told(Fate.INDETERMINATE, (1, 2), cause=Cause.QUORUM_TIMEOUT)]


def test_prior_epochs_are_never_rolled_back() -> None:
    one = limbo()
    offer(one, request(1, rolls_back=True))
    one.replica.epoch = E2
    one.replica.append((Barrier(E2),))
    one.replica.take_effects()
    assert expire(one, 5 * SECOND) == [told(Fate.INDETERMINATE, (1, 2), cause=Cause.QUORUM_TIMEOUT)]


def test_a_volatile_waiter_which_gives_up_takes_the_younger_ones_with_it() -> None:
    one = limbo(length_max=1)
    offer(one, request(1), request(2, timeout_ns=SECOND), request(3))
    assert expire(one, SECOND) == [told(Fate.ABORTED, (3, 0), (2, 0), epoch=0, cause=Cause.NO_ROOM)]


def test_levels_are_those_of_the_ensemble() -> None:
    one = limbo()
    effects = offer(one, request(1, level=1), request(2, level=4), request(3, level=2), request(4, level=3))
    assert effects[0] == told(Fate.INVALID, (1, 0), (2, 0), epoch=0)
    assert commit(one, 3) == [], "both wait for more than the commit"
    one.levels_reached(lambda level: Offset({2: 3, 3: 2}[level]))
    assert one.replica.take_effects() == [told(Fate.COMMITTED, (3, 2))]
    assert one.queue.levels() == [3]


def test_a_frozen_limbo_takes_nothing_and_says_nothing() -> None:
    one = limbo()
    offer(one, request(1))
    one.freeze()
    assert one.replica.take_effects() == [told(Fate.INDETERMINATE, (1, 2), cause=Cause.FENCED)]
    assert offer(one, request(2)) == [told(Fate.OVERLOADED, (2, 0), epoch=0)]
    assert expire(one, 9 * SECOND) == []
    assert one.timer_due() is None
