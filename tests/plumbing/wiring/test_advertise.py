import pytest

from penstock.kernel.errors import ConfigError
from penstock.plumbing.wiring.advertise import announced, check_announced, is_wildcard, machine_addresses


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "0:0:0:0:0:0:0:0", ""])
def test_a_wildcard_is_never_announced(host: str) -> None:
    assert is_wildcard(host)
    with pytest.raises(ConfigError, match=r"others cannot dial .*; set server\.advertise") as refused:
        check_announced(host, "")
    for address in machine_addresses():
        assert address in refused.value.message
    bound = f"[{host}]:7070" if ":" in host else f"{host}:7070"
    with pytest.raises(ConfigError):
        announced(bound, "")
    assert announced(bound, "10.0.0.1") == "10.0.0.1:7070"


def test_what_is_advertised_must_be_dialled_too() -> None:
    with pytest.raises(ConfigError, match=r"cannot dial 0\.0\.0\.0"):
        check_announced("10.0.0.1", "0.0.0.0")


def test_a_single_address_is_announced_as_it_is_bound() -> None:
    assert announced("127.0.0.1:4711", "") == "127.0.0.1:4711"
    assert announced("[::1]:4711", "") == "[::1]:4711"
    assert announced("[::]:4711", "fe80::1") == "[fe80::1]:4711"


def test_addresses_of_this_machine_are_those_that_others_may_dial() -> None:
    assert not [address for address in machine_addresses() if address.startswith("127.") or is_wildcard(address)]
