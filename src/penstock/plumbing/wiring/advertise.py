"""Addresses that a process announces to others. Design: operating.md O2.

`listen` is bound, `advertise` is announced. A process can bind the wildcard (0.0.0.0, ::), and no other can dial it.
Therefore the wildcard needs an `advertise`.
"""

import contextlib
import fcntl
import ipaddress
import socket
from struct import pack

from penstock.kernel.errors import ConfigError

__all__ = ["announced", "check_announced", "is_wildcard", "machine_addresses"]

_SIOCGIFADDR = 0x8915


def is_wildcard(host: str) -> bool:
    """Return whether a host stands for every address of the machine.

    >>> [host for host in ("0.0.0.0", "::", "", "127.0.0.1", "m1") if is_wildcard(host)]
    ['0.0.0.0', '::', '']
    """
    try:
        return host == "" or ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def check_announced(host: str, advertise: str) -> None:
    """Raise `ConfigError` if others could not dial the address that would be announced."""
    if is_wildcard(advertise or host):
        found = machine_addresses()
        proposal = f"this machine has {', '.join(found)}" if found else "name an address or a DNS name of this machine"
        raise ConfigError(
            f"others cannot dial {advertise or host or 'an empty host'}; {proposal}; set server.advertise",
            next_step=f"--set server.advertise={found[0] if found else 'HOST'}",
            addresses=found,
        )


def announced(bound: str, advertise: str) -> str:
    """Return the address to announce for a bound one, as a channel takes it.

    >>> announced("0.0.0.0:7070", "m1.example"), announced("10.0.0.1:7070", "")
    ('m1.example:7070', '10.0.0.1:7070')
    """
    host, _, port = bound.rpartition(":")
    check_announced(host.strip("[]"), advertise)
    if not advertise:
        return bound
    return f"[{advertise}]:{port}" if ":" in advertise else f"{advertise}:{port}"


def machine_addresses() -> list[str]:
    """Return the IPv4 addresses of this machine that others may dial. None, if the system does not tell."""
    found = []
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(asking, _SIOCGIFADDR, pack("256s", name.encode()[:15]))
                found.append(socket.inet_ntoa(answer[20:24]))
    return [address for address in found if not ipaddress.ip_address(address).is_loopback]
