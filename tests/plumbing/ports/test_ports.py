"""The ports of this machine."""

from penstock.plumbing.ports.ports import system_ports


def test_the_clocks_go_on() -> None:
    clock = system_ports().clock
    for now in (clock.monotonic_ns, clock.boot_ns, clock.time_ns, clock.perf_counter):
        assert 0 < now() <= now()
    assert clock.boot() == clock.boot()


def test_chance_is_not_repeated() -> None:
    chance = system_ports().chance
    assert len(chance.token(8)) == 8
    assert chance.token(8) != chance.token(8)
    assert chance.generator().random() != chance.generator().random()
