from penstock.consumers.core.stat import Stat, StatResult, Stats
from penstock.kernel.effects import Reply
from penstock.kernel.ids import Offset, RequestId


def stats() -> Stats:
    return Stats(frozenset({"in"}))


def through(offset: int) -> dict[str, Offset]:
    return {"in": Offset(offset)}


def test_who_asks_for_the_past_hears_at_once_and_who_asks_for_the_future_waits() -> None:
    mine = stats()
    assert mine.ask(RequestId(1), Stat(through(10))) == []
    assert mine.advance(through(9)) == []
    assert mine.advance(through(10)) == [Reply(RequestId(1), StatResult(through(10), {}))]
    assert mine.ask(RequestId(2), Stat(through(3))) == [Reply(RequestId(2), StatResult(through(10), {}))]


def test_only_sources_count_and_nothing_is_a_question_too() -> None:
    mine = stats()
    assert mine.ask(RequestId(1), Stat({"elsewhere": Offset(99)})) == [Reply(RequestId(1), StatResult({}, {}))]
    assert mine.ask(RequestId(2), Stat()) == [Reply(RequestId(2), StatResult({}, {}))]


def test_the_answer_says_where_to_ask_next() -> None:
    mine = stats()
    mine.published("out", Offset(70))
    mine.published("out", Offset(50))
    assert mine.ask(RequestId(1), Stat()) == [Reply(RequestId(1), StatResult({}, {"out": Offset(70)}))]


def test_nobody_waits_in_vain() -> None:
    mine = stats()
    mine.ask(RequestId(1), Stat(through(10)))
    assert mine.stop() == [Reply(RequestId(1), StatResult({}, {}, is_running=False))]
    assert mine.stop() == []


def test_too_many_do_not_wait() -> None:
    mine = Stats(frozenset({"in"}), waiting_max=2)
    answered = [effect for number in range(4) for effect in mine.ask(RequestId(number), Stat(through(10)))]
    assert [effect.request for effect in answered if isinstance(effect, Reply)] == [0, 1]
