"""What passes between the loop and the writer's thread: groups of appends, jobs, and how they ended."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from penstock.kernel.errors import PenstockError, WalPoisoned, Written
from penstock.kernel.ids import Lsn

__all__ = ["Done", "Group", "Poison", "Waiter", "WalJob", "Work"]


class Waiter(Protocol):
    """A waiter for records to become durable: a future, or an object that behaves as one."""

    def done(self) -> bool:
        """Return whether they have their answer, or do not wait any more."""
        ...

    def set_result(self, lsn: Lsn, /) -> None:
        """Theirs are durable, the last of them has this Lsn."""
        ...

    def set_exception(self, error: PenstockError, /) -> None:
        """Why theirs are not."""
        ...


class Group:
    """Appends which will be one batch. Filled on the loop, then handed over; the loop gets it back when it is done.

    Three lists rather than one of entries: they are filled by every append, and the collector has less to look at.
    """

    __slots__ = ("lsns", "queued_bytes", "records", "waiters")

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.waiters: list[Waiter] = []
        self.lsns: list[Lsn] = []  # for each waiter its last record
        self.queued_bytes = 0  # payloads and index


class WalJob(msgspec.Struct, frozen=True):
    """Something else to be done to the disk in its turn: a truncation, a trim, a state to save."""

    doing: str
    run: Callable[[], None]
    on_done: Callable[[PenstockError | None], None]


Work = Group | WalJob


class Poison(msgspec.Struct, frozen=True):
    """Why nothing is written any more."""

    cause: PenstockError
    folder: str

    def error(self, written: Written) -> WalPoisoned:
        """Return a new error for one waiter, with the facts about their request. Each raises it somewhere else."""
        said = {
            Written.NO: "This request was not begun.",
            Written.UNKNOWN: "This request may be on disk, wholly or in part.",
            Written.YES: "This request is done.",
        }[written]
        error = WalPoisoned(
            f"the WAL in {self.folder} takes no more writes: {self.cause.message}. {said}",
            written=written,
            next_step=f"{self.cause.next_step or 'stop the process'}; recovery reports which records are left",
            cause=self.cause.code,
        )
        error.__cause__ = self.cause
        return error


class Done(msgspec.Struct, frozen=True):
    """Work which has come to its end, well or badly."""

    work: Work
    poison: Poison | None = None
    written: Written = Written.YES
