"""The request table: whatever its bound, a copy is known or refused."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.lake.core.staging.areas.state_hash import StateSum, item
from penstock.lake.core.staging.records import Limits, Request
from penstock.lake.core.staging.requests import RequestTable
from penstock.lake.core.staging.results import Result, Status

OK = Result(Status.OK)


@given(st.lists(st.integers(0, 20), max_size=40), st.integers(1, 6), st.integers(0, 10))
def test_what_was_recorded_is_known_or_forgotten_for_all_to_see(issued: list[int], bound: int, age: int) -> None:
    total = StateSum()
    table = RequestTable(total)
    limits = Limits(requests_max=bound, request_age_ns=age)
    recorded: list[Request] = []
    for now, moment in enumerate(issued):
        request = Request(f"{now}", min(moment, now))
        if not table.is_forgotten(request):
            table.record(request, OK, now)
            table.evict(limits, now)
            recorded.append(request)
        assert len(table) <= bound
        assert all(table.get(each.id) == OK or table.is_forgotten(each) for each in recorded)
    assert total.value == sum(item("request", each) for each in table) % (1 << 128)


def test_old_entries_leave_by_age() -> None:
    table = RequestTable(StateSum())
    table.record(Request("a", 1), OK, 10)
    table.record(Request("b", 5), OK, 20)
    table.evict(Limits(request_age_ns=10), 25)
    assert (table.get("a"), table.get("b"), table.floor) == (None, OK, 1)
