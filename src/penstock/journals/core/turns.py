"""Turns: who owns the send side of a journal's pipeline, and who waits for it, in order."""

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.journals.core.append_fsm import Append

__all__ = ["Turns"]


class Turns:
    """The send side belongs to one append at a time, first come, first served."""

    def __init__(self) -> None:
        self.owner: Append | None = None
        self.queue: deque[Append] = deque()

    def acquire(self, append: "Append") -> bool:
        """Own the send side now, or wait in the queue."""
        if self.owner is None and not (self.queue and self.queue[0] is not append):
            if append.is_queued:
                self.leave(append)
            self.owner = append
            return True
        if not append.is_queued:
            append.is_queued = True
            self.queue.append(append)
        return False

    def release(self, append: "Append") -> None:
        if self.owner is append:
            self.owner = None

    def leave(self, append: "Append") -> None:
        """Leave the queue."""
        if append.is_queued:
            append.is_queued = False
            self.queue.remove(append)

    def check(self) -> None:
        """Assert every invariant."""
        assert self.owner is not None or not self.queue, "the send side has no owner, and an append waits for it"
        assert all(append.is_queued for append in self.queue)
