"""How a process listens, and how it dials others: the same for every role and every client of the command line."""

import msgspec

from penstock.kernel.backoff import Backoff
from penstock.plumbing.ports.ports import Ports, system_ports
from penstock.plumbing.process.health import Health
from penstock.plumbing.wire.client import Channel
from penstock.plumbing.wire.limits import WireLimits
from penstock.plumbing.wire.tls import Tls
from penstock.plumbing.wiring.advertise import announced, check_announced
from penstock.plumbing.wiring.switchboard import Switchboard

__all__ = ["PEER_LIMITS", "Wiring"]

MIB = 1 << 20
# A follower that must catch up gets megabytes at a time; a paused peer is noticed within seconds, not minutes.
PEER_LIMITS = WireLimits(
    frame_bytes_max=32 * MIB,
    stream_window_bytes=32 * MIB,
    request_bytes_max=64 * MIB,
    write_bytes_max=8 * MIB,
    keepalive_ms=2_000,
    pong_ms=3_000,
)


class Wiring(msgspec.Struct, frozen=True):
    """How a process listens, and how it dials others."""

    host: str = "127.0.0.1"
    port: int = 0
    token: str | None = None
    server_tls: Tls | None = None
    client_tls: Tls | None = None
    limits: WireLimits = PEER_LIMITS
    ports: Ports = msgspec.field(default_factory=system_ports)
    advertise: str = ""  # the host that others dial; empty: the one that is bound
    health: Health = msgspec.field(default_factory=Health)  # the checks of this process
    board: Switchboard | None = None  # the server that this process's roles share; None: each has its own

    def announced(self, bound: str) -> str:
        """Return the address that others dial for a bound one; `ConfigError` if they could not."""
        return announced(bound, self.advertise)

    def check_announced(self) -> None:
        """Raise `ConfigError` if others could not dial what this process would announce."""
        check_announced(self.host, self.advertise)

    def channel(self, address: str) -> Channel:
        # A node which was restarted should be followed at once: its links are few, so frequent dialling costs nothing.
        backoff = Backoff(self.ports.chance.generator(), base_ms=20.0, pause_ms_max=300.0)
        return Channel(
            address,
            token=self.token,
            tls=self.client_tls,
            limits=self.limits,
            backoff=backoff,
            deadline_s=5.0,
            ports=self.ports,
        )
