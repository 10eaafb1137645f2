"""Hello: the first frame of each side. It agrees on a version, proves the token, and states the limits.

The client's HELLO and the server's WELCOME are msgpack maps, and their layout stays the same in all versions, so that
any two sides can at least tell each other that they do not match. Unknown keys are ignored.
What always holds: a token is compared in constant time, and is in no representation and no log line.
"""

import hmac
from typing import Any, Final

import msgspec

from penstock.kernel.bounds import Count, Name
from penstock.kernel.codec import Codec
from penstock.kernel.errors import MalformedFrame, Unauthenticated, VersionMismatch
from penstock.kernel.version import Release
from penstock.plumbing.wire.limits import FRAME_BYTES_MIN, WireLimits

__all__ = [
    "HELLO_BYTES_MAX",
    "HELLO_CODEC",
    "VERSION_MAX",
    "VERSION_MIN",
    "WELCOME_BYTES_MAX",
    "WELCOME_CODEC",
    "Welcome",
    "WireHello",
    "agree",
    "check_welcome",
]

PROTOCOL: Final = "penstock-wire"
VERSION_MIN: Final = 1
VERSION_MAX: Final = 1
HELLO_BYTES_MAX: Final = 4 * 1024  # of a peer we do not know yet
WELCOME_BYTES_MAX: Final = 256 * 1024
METHODS_MAX: Final = 4096


class WireHello(msgspec.Struct, frozen=True):
    """What a client says first."""

    protocol: str
    version_min: int
    version_max: int
    frame_bytes_max: int
    stream_window_bytes: int
    token: str = ""
    release: Name = ""  # of a peer from before levels, as are the two zeros
    level_min: Count = 0
    level_max: Count = 0

    def __repr__(self) -> str:
        token = "given" if self.token else "none"
        return f"Hello({self.protocol} {self.version_min}..{self.version_max}, token {token})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("protocol", self.protocol)]

    @classmethod
    def of(cls, limits: WireLimits, token: str | None) -> "WireHello":
        frame, window = limits.frame_bytes_max, limits.stream_window_bytes
        return cls(PROTOCOL, VERSION_MIN, VERSION_MAX, frame, window, token or "", *Release())


class Welcome(msgspec.Struct, frozen=True):
    """What a server answers. A method's number is its place in `methods`."""

    version: int
    methods: list[str]
    frame_bytes_max: int
    stream_window_bytes: int
    streams_max: int
    requests_max: int
    request_bytes_max: int
    silence_ms: int
    release: Name = ""
    level_min: Count = 0
    level_max: Count = 0

    @classmethod
    def of(cls, limits: WireLimits, version: int, methods: list[str]) -> "Welcome":
        return cls(
            version,
            methods,
            limits.frame_bytes_max,
            limits.stream_window_bytes,
            limits.streams_max,
            limits.requests_max,
            limits.request_bytes_max,
            limits.silence_ms,
            *Release(),
        )


HELLO_CODEC: Final = Codec[WireHello](WireHello)
WELCOME_CODEC: Final = Codec[Welcome](Welcome)


def agree(hello: WireHello, token: str | None) -> int:
    """The version to speak with this client, or the reason why not."""
    if hello.protocol != PROTOCOL:
        raise MalformedFrame("the peer speaks another protocol", expected=PROTOCOL)
    version = min(hello.version_max, VERSION_MAX)
    if version < max(hello.version_min, VERSION_MIN):
        raise VersionMismatch(
            f"the client speaks versions {hello.version_min} to {hello.version_max}, "
            f"the server {VERSION_MIN} to {VERSION_MAX}",
            next_step="upgrade the older side",
        )
    if min(hello.frame_bytes_max, hello.stream_window_bytes) < FRAME_BYTES_MIN:
        raise MalformedFrame(f"a hello with a frame or window of less than {FRAME_BYTES_MIN} bytes")
    # Both are encoded first: compare_digest takes no text outside ASCII. An empty token is compared as well.
    if token is not None and not hmac.compare_digest(hello.token.encode(), token.encode()):
        raise Unauthenticated(
            "the token is wrong" if hello.token else "a token is required",
            next_step="give the token the server was started with",
        )
    return version


def check_welcome(welcome: Welcome) -> None:
    """Refuse a server whose answer no server of this protocol would give."""
    if not VERSION_MIN <= welcome.version <= VERSION_MAX:
        raise VersionMismatch(f"the server chose version {welcome.version}, which was not offered")
    if len(welcome.methods) > METHODS_MAX:
        raise MalformedFrame(f"a welcome with {len(welcome.methods)} methods")
    if min(welcome.frame_bytes_max, welcome.stream_window_bytes, welcome.request_bytes_max) < FRAME_BYTES_MIN:
        raise MalformedFrame(f"a welcome with a frame or window of less than {FRAME_BYTES_MIN} bytes")
    if min(welcome.streams_max, welcome.requests_max, welcome.silence_ms) <= 0:
        raise MalformedFrame("a welcome with a limit of nothing")
