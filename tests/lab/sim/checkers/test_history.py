"""Requests have names of their own."""

from penstock_lab.sim.checkers.history import OperationHistory


def test_every_request_has_its_own_name() -> None:
    history = OperationHistory()
    assert [history.next_request() for _ in range(3)] == [1, 2, 3]
