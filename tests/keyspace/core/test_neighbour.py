"""A neighbour is suspected when it is silent or lost, and trusted again after a time that grows each time."""

from penstock.keyspace.core.neighbour import FORGET_S, HOLD_S, HOLD_S_MAX, Neighbour

SILENT_S = 0.5


def answers_for(neighbour: Neighbour, begin: float, seconds: float) -> float:
    """Let it answer ten times a second; return when that is over."""
    for tenth in range(1, round(10 * seconds) + 1):
        neighbour.asked(begin + tenth / 10)
        neighbour.answered(begin + tenth / 10)
        neighbour.judge(begin + tenth / 10)
    return begin + seconds


def test_a_neighbour_that_answers_is_trusted() -> None:
    neighbour = Neighbour(SILENT_S)
    assert not neighbour.judge(0.0), "nothing was asked yet"
    neighbour.asked(1.0)
    assert not neighbour.judge(1.4)
    neighbour.answered(1.4)
    assert not neighbour.judge(100.0)


def test_silence_counts_from_the_first_question_without_an_answer() -> None:
    neighbour = Neighbour(SILENT_S)
    neighbour.asked(1.0)
    neighbour.asked(1.4)
    assert not neighbour.judge(1.49)
    assert neighbour.judge(1.5)


def test_a_lost_connection_needs_no_silence() -> None:
    neighbour = Neighbour(SILENT_S)
    neighbour.lost()
    assert neighbour.judge(0.0)


def test_own_pauses_are_nobodys_silence() -> None:
    neighbour = Neighbour(SILENT_S)
    neighbour.asked(1.0)
    neighbour.paused(8.0)
    assert not neighbour.judge(9.2)
    assert neighbour.judge(9.5)


def test_it_is_trusted_again_after_answers_without_a_gap() -> None:
    neighbour = Neighbour(SILENT_S)
    neighbour.lost()
    neighbour.judge(0.0)
    now = answers_for(neighbour, 10.0, HOLD_S - 0.2)
    assert neighbour.is_suspected
    neighbour.asked(now)
    assert neighbour.judge(now + SILENT_S), "a gap: the time begins anew"
    neighbour.answered(now + SILENT_S)
    now = answers_for(neighbour, now + SILENT_S, HOLD_S - 0.2)
    assert neighbour.is_suspected
    answers_for(neighbour, now, 0.3)
    assert not neighbour.is_suspected


def test_one_that_flaps_is_trusted_more_slowly_each_time() -> None:
    neighbour, now, held = Neighbour(SILENT_S), 0.0, []
    for _ in range(8):
        neighbour.lost()
        neighbour.judge(now)
        begin = now
        while neighbour.is_suspected:
            now = answers_for(neighbour, now, 0.1)
        held.append(now - begin)
    expected = [min(HOLD_S * 2**index, HOLD_S_MAX) for index in range(8)]
    assert [round(each) for each in held] == expected
    now += FORGET_S
    neighbour.lost()
    neighbour.judge(now)
    answers_for(neighbour, now, HOLD_S + 0.2)
    assert not neighbour.is_suspected, "long ago: a first suspicion again"
