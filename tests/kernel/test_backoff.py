from random import Random

from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.backoff import Backoff


@given(st.integers(0, 2**32), st.integers(1, 200))
def test_pauses_grow_to_the_limit_and_are_spread(seed: int, failures: int) -> None:
    backoff = Backoff(Random(seed), base_ms=50, pause_ms_max=5000)
    for failure in range(failures):
        ceiling = min(50 * 2**failure, 5000)
        assert ceiling / 2 <= backoff.pause_ms() <= ceiling


def test_the_same_random_gives_the_same_pauses_and_two_clients_differ() -> None:
    def pauses(seed: int) -> list[float]:
        backoff = Backoff(Random(seed))
        return [backoff.pause_ms() for _ in range(10)]

    assert pauses(1) == pauses(1)
    assert pauses(1) != pauses(2)


def test_a_reset_begins_anew() -> None:
    backoff = Backoff(Random(3), base_ms=10)
    for _ in range(8):
        backoff.pause_ms()
    backoff.reset()
    assert backoff.pause_ms() <= 10
