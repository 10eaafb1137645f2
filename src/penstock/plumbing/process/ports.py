"""Free ports of this machine, for processes which are started in a moment, and again after they were killed.

A port which is only seen to be free may be another's by the time it is needed: of a second cluster which chose it in
the same moment, or of any connection, since the system takes the near end of those from ports above a limit. So ports
are chosen below that limit, and each is claimed by a name which only one process of the machine can hold.
"""

import secrets
import socket
import sys
from pathlib import Path
from typing import Final

from penstock.kernel.errors import LimitExceeded

__all__ = ["ReservedPorts"]

LOWEST: Final = 15_000
TRIES_MAX: Final = 2_000
_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


class ReservedPorts:
    """Reserve ports that no process listens on, and give them to no other caller until `close`.

    >>> with ReservedPorts(2) as ports:
    ...     len(set(ports.numbers))
    2
    """

    def __init__(self, count: int) -> None:
        self.numbers: list[int] = []
        self._claims: list[socket.socket] = []
        span = _highest() - LOWEST
        for _ in range(TRIES_MAX):
            if len(self.numbers) == count:
                return
            self._try(LOWEST + secrets.randbelow(span))
        self.close()
        raise LimitExceeded(f"no {count} free ports between {LOWEST} and {LOWEST + span} were found")

    def _try(self, port: int) -> None:
        if port in self.numbers:
            return
        claim = socket.socket(socket.AF_UNIX)
        try:
            if sys.platform == "linux":
                claim.bind(f"\0penstock-port-{port}")  # a name without a file: it ends with the process
            with socket.socket() as trial:
                trial.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
            return
        self._claims.append(claim)
        self.numbers.append(port)

    def close(self) -> None:
        for claim in self._claims:
            claim.close()
        self._claims.clear()

    def __enter__(self) -> "ReservedPorts":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _highest() -> int:
    """Return the first port that the system gives to connections."""
    try:
        return max(LOWEST + 1_000, int(_RANGE.read_text().split()[0]))
    except (OSError, ValueError):
        return 32_768
