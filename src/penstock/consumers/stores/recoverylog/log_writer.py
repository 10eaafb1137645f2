"""Appends to a recovery log: in order, each only while the log's register `author` is ours. Design: gazette.md 2.10.

A handoff changes the register only from the value that its process has read. So a repeated or late handoff cannot take
the log back from its present author; and an append that the broker accepts counts in the chain of operations too.
Repeated appends do no harm: a playback skips operations that it has.
"""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Final

from penstock.consumers.core.recoverylog.recorded_op import Author
from penstock.consumers.core.recoverylog.recorder import AUTHOR_REGISTER, OWNER_REGISTER
from penstock.journals.client.journal import Appended, Journals
from penstock.journals.records.api import Status
from penstock.journals.records.labels import Label, LabelSelector, LabelSet
from penstock.journals.records.registers import Origin
from penstock.kernel.errors import (
    ConfigError,
    Fenced,
    Indeterminate,
    PenstockError,
    PreconditionFailed,
    Unavailable,
    Written,
)
from penstock.kernel.ids import Offset

__all__ = ["LogWriter"]

JOINED_BYTES_MAX: Final = 512 << 10  # sent as one buffer; more is streamed
PAUSE_S: Final = (0.05, 1.0)
NOBODY: Final = LabelSelector(exclude=LabelSet((Label(AUTHOR_REGISTER),)))


class LogWriter:
    """Writes as one author."""

    def __init__(self, journals: Journals, log: str, author: Author, *, owner: str = "", timeout: float = 60.0) -> None:
        """`owner`: whose files the log has, for ever; empty: any shard's."""
        self.author = author
        self._owner = owner
        self._journals = journals
        self._log = log
        self._ours = LabelSelector(LabelSet((_register(author),)))
        self._timeout = timeout  # after which an append which finds no broker fails
        self._random = Random()
        self._is_handed_over = False

    async def hand_off(self, frame: bytes) -> None:
        """Append a handoff, which makes the log ours. A second handoff is a plain append."""
        if self._is_handed_over:
            await self.append([frame])
            return
        loop = asyncio.get_running_loop()
        deadline, attempt = loop.time() + self._timeout, 0
        while True:
            try:
                await self._try_hand_off(frame)
                break
            except (PreconditionFailed, Unavailable, Indeterminate):  # or another process was faster
                attempt += 1
                if loop.time() > deadline:
                    raise
                await self._pause(attempt)
        self._is_handed_over = True

    async def _try_hand_off(self, frame: bytes) -> None:
        seen = await self._journals.append(self._log, b"", timeout=self._timeout)
        self._check_owner(seen.registers.labels.value_of(OWNER_REGISTER))
        author = seen.registers.labels.value_of(AUTHOR_REGISTER)
        if author == _register(self.author).value:
            return  # an attempt whose answer was lost took effect
        check, end = NOBODY, None
        if author is not None:
            check = LabelSelector(LabelSet((Label(AUTHOR_REGISTER, author),)))
        if seen.registers.origin is Origin.LOST:
            # A reset-head lost them. Only an append without a check writes them; its offset makes it the only one.
            check, end = LabelSelector(), seen.end
        union = [_register(self.author)]
        if self._owner:
            union.append(Label(OWNER_REGISTER, self._owner))
        await self._journals.append(self._log, frame, offset=end, check=check, union=union)

    def _check_owner(self, owner: str | None) -> None:
        if self._owner and owner is not None and owner != self._owner:
            raise ConfigError(
                f"{self._log} is the recovery log of {owner}; expected {self._owner}",
                next_step="name another journal as recovery_log, and run: penstock shards apply FILE",
            )

    async def append(self, frames: Sequence[bytes]) -> Offset:
        """Append all of them, or nothing: `Fenced` if another author has the log. Returns where it ends then."""
        content = b"".join(frames) if sum(map(len, frames)) <= JOINED_BYTES_MAX else frames
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout
        written, attempt = Written.NO, 0
        while True:
            try:
                left_s = max(1.0, deadline - loop.time())
                appended: Appended = await self._journals.append(self._log, content, check=self._ours, timeout=left_s)
            except PreconditionFailed as error:
                raise self._fenced(error, written) from error
            except (Unavailable, Indeterminate) as error:
                if error.written is Written.UNKNOWN:
                    written = Written.UNKNOWN
                attempt += 1
                if loop.time() > deadline:
                    error.written = written
                    raise
                await self._pause(attempt)
            else:
                return appended.end

    def _fenced(self, error: PreconditionFailed, written: Written) -> PenstockError:
        if error.details.get("status") not in (Status.REGISTER_MISMATCH.value, Status.REGISTERS_LOST.value):
            return error
        return Fenced(f"{self._log}: another process has taken over the recovery log", written=written, **error.details)

    async def _pause(self, attempt: int) -> None:
        least, most = PAUSE_S
        await asyncio.sleep(min(most, least * float(1 << min(attempt, 10))) * self._random.uniform(0.5, 1.0))


def _register(author: Author) -> Label:
    return Label(AUTHOR_REGISTER, f"{author:08x}")
