from penstock.messages.clock import TICK, from_unix_ns, ticked, to_unix_ns, updated

NOON = 1_700_000_000_000_000_000


def test_it_ticks_by_a_microsecond() -> None:
    clock = from_unix_ns(NOON)
    assert to_unix_ns(ticked(clock)) == NOON + 1_000
    assert ticked(clock) - clock == TICK


def test_it_follows_the_world_but_never_back() -> None:
    clock = updated(from_unix_ns(NOON), NOON + 5_000)
    assert to_unix_ns(clock) == NOON + 5_000
    assert updated(clock, NOON) == clock


def test_it_fits_into_64_bits_for_three_thousand_years() -> None:
    assert from_unix_ns(3_000 * 365 * 86_400 * 10**9) < 1 << 64
