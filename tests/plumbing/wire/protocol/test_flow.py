"""The flow of a stream: both sides wired together, against a model; and what a peer must not do."""

from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.kernel.errors import AlreadyClosed, LimitExceeded, Overloaded, ProtocolViolation
from penstock.plumbing.wire.protocol.flow import (
    MESSAGE_COST,
    WINDOW_BYTES_MAX,
    FlowState,
    WireFlow,
    message_cost,
)

WINDOW = 1000


def flow() -> WireFlow:
    return WireFlow(window=WINDOW, peer_window=WINDOW)


def test_a_message_costs_more_than_its_payload_so_that_empty_ones_are_bounded() -> None:
    sender = flow()
    for _ in range(WINDOW // MESSAGE_COST):
        sender.send(message_cost(0))
    with pytest.raises(Overloaded):
        sender.send(message_cost(0))


def test_a_message_above_the_window_is_refused_for_good() -> None:
    with pytest.raises(LimitExceeded) as caught:
        flow().send(WINDOW + 1)
    assert not caught.value.retryable


def test_a_message_beyond_the_credit_is_a_violation() -> None:
    receiver = flow()
    receiver.receive(WINDOW - 10)
    with pytest.raises(ProtocolViolation):
        receiver.receive(11)


@pytest.mark.parametrize("credit", [0, 2**31 - WINDOW, 2**32 - 1])
def test_a_credit_of_nothing_or_without_end_is_a_violation(credit: int) -> None:
    with pytest.raises(ProtocolViolation):
        flow().add_credit(credit)


def test_the_window_grows_if_sender_and_reader_both_wait() -> None:
    receiver = flow()
    receiver.receive(200, both_wait=True)
    receiver.consume(200)
    assert receiver.take_grant(spare_bytes=10 * WINDOW) == 200 + WINDOW
    assert (receiver.window, receiver.grown) == (2 * WINDOW, WINDOW)
    receiver.receive(200, both_wait=True)
    receiver.consume(200)
    assert receiver.take_grant(spare_bytes=300) == 200 + 300
    assert receiver.grown == WINDOW + 300
    receiver.check()


def test_no_window_grows_beyond_the_limit() -> None:
    receiver = flow()
    for _ in range(50):
        receiver.receive(10, both_wait=True)
        receiver.consume(10)
        receiver.take_grant(spare_bytes=2**30)
    assert receiver.window == WINDOW_BYTES_MAX


def test_nothing_follows_the_end_of_a_side() -> None:
    ours = flow()
    ours.end_remote()
    with pytest.raises(ProtocolViolation):
        ours.receive(1)
    with pytest.raises(ProtocolViolation):
        ours.end_remote()
    ours.send(1)
    ours.end_local()
    assert ours.state is FlowState.CLOSED
    with pytest.raises(AlreadyClosed):
        ours.send(1)
    with pytest.raises(AlreadyClosed):
        ours.end_local()


def test_credit_is_granted_in_quarters_of_the_window_and_not_behind_the_end() -> None:
    receiver = flow()
    receiver.receive(900)
    receiver.consume(249)
    assert receiver.take_grant() == 0
    receiver.consume(1)
    assert receiver.take_grant() == 250
    receiver.consume(650)
    receiver.end_remote()
    assert receiver.take_grant() == 0


def test_closing_ends_both_halves() -> None:
    ours = flow()
    ours.close()
    assert not ours.may_send
    assert not ours.may_receive


class TwoSides(RuleBasedStateMachine):
    """A sender and a receiver; messages and credits travel in two queues, as on a connection."""

    def __init__(self) -> None:
        super().__init__()
        self.sender, self.receiver = flow(), flow()
        self.messages: deque[tuple[int, bool]] = deque()
        self.credits: deque[int] = deque()
        self.unread: deque[int] = deque()
        self.spare = 3 * WINDOW
        self.has_waited = False

    @rule(payload=st.integers(0, WINDOW - MESSAGE_COST))
    def send(self, payload: int) -> None:
        cost = message_cost(payload)
        if cost <= self.sender.credit:
            self.sender.send(cost)
            self.messages.append((cost, self.has_waited))
            self.has_waited = False
        else:
            self.has_waited = True
            with pytest.raises(Overloaded):
                self.sender.send(cost)

    @precondition(lambda self: self.messages)
    @rule()
    def arrive(self) -> None:
        cost, has_waited = self.messages.popleft()
        self.receiver.receive(cost, both_wait=has_waited and not self.unread)
        self.unread.append(cost)

    @precondition(lambda self: self.unread)
    @rule()
    def read(self) -> None:
        self.receiver.consume(self.unread.popleft())
        before = self.receiver.grown
        if grant := self.receiver.take_grant(self.spare):
            self.credits.append(grant)
        self.spare -= self.receiver.grown - before

    @precondition(lambda self: self.credits)
    @rule()
    def credit(self) -> None:
        self.sender.add_credit(self.credits.popleft())

    @invariant()
    def nothing_is_lost(self) -> None:
        self.sender.check()
        self.receiver.check()
        on_the_way = sum(cost for cost, _ in self.messages) + sum(self.credits)
        held = sum(self.unread)
        assert self.sender.credit + on_the_way + held + self.receiver.owed == self.receiver.window
        assert held == self.receiver.unconsumed <= self.receiver.window
        assert self.spare + self.receiver.grown == 3 * WINDOW

    @invariant()
    def a_reader_who_has_read_everything_never_starves_the_sender(self) -> None:
        if not self.messages and not self.unread and not self.credits:
            assert self.sender.credit > self.receiver.window * 3 // 4


TestTwoSides = TwoSides.TestCase
TestTwoSides.settings = settings(max_examples=50, deadline=None)
