from penstock.kernel.ids import Instant, Offset, RequestId
from penstock.quorum.core.reading.reads import ReadRounds


def add(rounds: ReadRounds, request: int, offset: int = 5, deadline: int = 100) -> None:
    rounds.add(RequestId(request), Offset(offset), Instant(deadline))
    rounds.check()


def test_a_round_under_way_proves_nothing_about_a_read_which_came_later() -> None:
    rounds = ReadRounds()
    add(rounds, 1)
    assert rounds.starts_round()
    add(rounds, 2)
    assert not rounds.starts_round(), "one round at a time"
    rounds.confirm(1)
    assert rounds.servable(Offset(5)) == [1]
    assert rounds.starts_round()
    rounds.confirm(2)
    assert rounds.servable(Offset(5)) == [2]
    assert not rounds.starts_round(), "nobody waits"


def test_a_read_waits_until_what_it_must_see_is_applied() -> None:
    rounds = ReadRounds()
    add(rounds, 1, offset=3)
    add(rounds, 2, offset=5)
    rounds.starts_round()
    rounds.confirm(1)
    assert rounds.servable(Offset(2)) == []
    assert rounds.servable(Offset(4)) == [1]
    assert rounds.servable(Offset(5)) == [2]


def test_many_reads_share_a_round() -> None:
    rounds = ReadRounds()
    for request in range(10):
        add(rounds, request)
    assert rounds.starts_round()
    assert rounds.started == 1
    rounds.confirm(1)
    assert rounds.servable(Offset(5)) == list(range(10))


def test_reads_end_by_time_or_with_the_leadership() -> None:
    rounds = ReadRounds()
    add(rounds, 1, deadline=10)
    add(rounds, 2, deadline=20)
    twin = rounds.copy()
    assert rounds.expired(Instant(10)) == [1]
    assert rounds.drain() == [2]
    assert rounds.drain() == []
    assert twin.drain() == [1, 2]
