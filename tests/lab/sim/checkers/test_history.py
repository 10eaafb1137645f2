"""Requests have names of their own."""

from penstock_lab.sim.checkers.history import History


def test_every_request_has_its_own_name() -> None:
    history = History()
    assert [history.next_request() for _ in range(3)] == [1, 2, 3]
