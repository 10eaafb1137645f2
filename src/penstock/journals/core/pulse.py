"""The pulse daemon: a zero-byte append by the primary itself. Design: transactional-appends.rst; gazette.md §2.6.

It synchronizes the pipeline when the Route changed or a pipeline broke, and rolls idle Fragments at their flush
interval, whether anyone appends or not. One runs at a time; it has no deadline.
"""

from typing import TYPE_CHECKING

from penstock.journals.core.append_fsm import Append, Kind
from penstock.journals.records.api import AppendRequest, AppendResponse, Fate
from penstock.kernel.deadlines import NEVER
from penstock.kernel.effects import SetTimer
from penstock.kernel.ids import MILLISECOND, Instant

if TYPE_CHECKING:
    from penstock.journals.core.replica import Replica

__all__ = ["TIMER", "Pulse"]

TIMER = "pulse"


class Pulse:
    """The replica's own append, if one is on its way."""

    def __init__(self, replica: "Replica") -> None:
        self.replica = replica
        self.append: Append | None = None
        self._calendar = (0, Instant(0))  # what the calendar said when an append came

    def note(self, unix_ms: int) -> None:
        """An append says what time it is: the core has no calendar of its own."""
        if unix_ms:
            self._calendar = (unix_ms, self.replica.now)

    def start(self) -> Append | None:
        """Begin one, if this broker is the primary and none is on its way."""
        replica = self.replica
        if self.append is not None or replica.topology.route.primary != replica.me:
            return None
        unix_ms, then = self._calendar
        if unix_ms:
            unix_ms += (replica.now - then) // MILLISECOND
        body = AppendRequest(deadline=NEVER, may_proxy=False, unix_ms=unix_ms)
        self.append = replica.append_class(replica, Kind.PULSE, None, body)
        return self.append

    def ended(self, answer: AppendResponse | None) -> None:
        """The next one comes after a minute or so if all is well, else soon; sooner while a peer has no room."""
        self.append = None
        replica = self.replica
        config = replica.config
        at = Instant(replica.now + (config.shortage_ns if replica.lead.shortages else config.pulse_ns))
        if answer is None or answer.fate is not Fate.COMMITTED:
            replica.backoff.extend(replica.now)
            at = replica.backoff.until
        replica.out.append(SetTimer(TIMER, at))
