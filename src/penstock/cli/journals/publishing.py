"""Messages on stdin, for `penstock journals publish`.

Each line is sent as soon as it is read, and an error says how far the command came. What always holds: every line is
published once and in order; the lines before the one that an error names are published.
"""

import asyncio
import csv
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice, takewhile
from typing import IO, Any, Final

import msgspec

from penstock.cli.journals.journal_messages import FRAMINGS
from penstock.journals.client.journal import Journals
from penstock.journals.client.journal_outcomes import Appended
from penstock.journals.client.messages import MessagePublisher
from penstock.kernel.errors import Indeterminate, InvalidArgument, PenstockError, Written
from penstock.kernel.ids import Offset
from penstock.messages.framing.framing import FRAME_BYTES_MAX
from penstock.plumbing.process.reader_thread import ReaderThread, lines_of

__all__ = ["LinePublisher"]

ROOM_BYTES: Final = 512 << 10  # of lines that are read ahead
MESSAGE_BYTES: Final = 64  # that a short message costs in memory
IN_FLIGHT_MAX: Final = 16  # batches that are not answered yet
SAY_EVERY: Final = 100_000


class _Line(msgspec.Struct, frozen=True, gc=False):
    """A message, and the number of the line at which it begins."""

    number: int
    value: Any


class _Batch(msgspec.Struct, frozen=True):
    """Messages that were published together."""

    done: "asyncio.Future[Appended]"
    first: int  # their lines
    last: int
    count: int


class LinePublisher:
    """Publishes the lines of a file to a journal, and knows how far it came."""

    def __init__(
        self,
        journals: Journals,
        journal: str,
        framing: str,
        *,
        first_line: int = 1,
        say: Callable[[str], None] | None = None,
    ) -> None:
        if first_line < 1:
            raise InvalidArgument(f"--from-line {first_line}: expected 1 or more")
        self._journals = journals
        self._journal = journal
        self._framing_name = framing
        self._framing = FRAMINGS[framing]
        self._say = say
        self._first_line = first_line
        self._batches: deque[_Batch] = deque()  # not known to be published, in their order
        self.count = 0  # messages that are published
        self.end = Offset(0)  # of the last of them

    async def run(self, source: IO[bytes]) -> None:
        """Publish every line. An error says how far it came, and names the line to continue with."""
        parse = _json_values if self._framing_name == "json" else _csv_values
        lines = ReaderThread(parse(source, self._first_line), ROOM_BYTES)
        try:
            async with MessagePublisher(self._journals, self._framing) as publish:
                await self._publish(publish, lines)
        except PenstockError as error:
            raise self._stopped(error) from error
        finally:
            lines.close()

    async def _publish(self, publish: MessagePublisher, lines: ReaderThread[_Line]) -> None:
        failure: InvalidArgument | None = None
        while failure is None:
            try:
                taken = await lines.take()
            except InvalidArgument as error:  # a line that is no message: those before it are good
                failure = error
                break
            if not taken:
                break
            failure = await self._put(publish, taken)
            await self._settle(IN_FLIGHT_MAX)
        await self._settle(0)
        if failure is not None:
            raise failure

    async def _put(self, publish: MessagePublisher, taken: list[_Line]) -> InvalidArgument | None:
        """Publish lines, up to the first that the framing refuses; return why it does."""
        try:
            done = await publish.put(self._journal, [line.value for line in taken])
        except InvalidArgument:
            good, failure = self._until_refused(taken)
            if failure is None:
                raise
            return await self._put(publish, good) or failure if good else failure
        self._batches.append(_Batch(done, taken[0].number, taken[-1].number, len(taken)))
        return None

    def _until_refused(self, taken: list[_Line]) -> tuple[list[_Line], InvalidArgument | None]:
        for place, line in enumerate(taken):
            try:
                self._framing.encode(line.value, None)
            except InvalidArgument as error:
                return taken[:place], InvalidArgument(f"line {line.number}: {error.message}", line=line.number)
        return taken, None

    async def _settle(self, left: int) -> None:
        """Wait until at most `left` batches have no answer, and count those that are published."""
        while self._batches and (len(self._batches) > left or self._batches[0].done.done()):
            batch = self._batches[0]
            await asyncio.wait([batch.done])
            end = batch.done.result().end
            self._batches.popleft()
            before, self.count, self.end = self.count, self.count + batch.count, end
            if self._say is not None and self.count // SAY_EVERY > before // SAY_EVERY:
                self._say(f"{self.count:,} messages")

    def how_far(self, next_line: int | None = None) -> tuple[str, int | None]:
        """Return how far it came, in words, and the line to continue with, if any. It has ended."""
        batches = list(self._batches)
        while batches and _failure_of(batches[0]) is None:
            batch = batches.pop(0)
            self.count, self.end = self.count + batch.count, batch.done.result().end
        self._batches.clear()
        published = f"{self.count:,} messages are published"
        unknown = list(takewhile(lambda batch: isinstance(_failure_of(batch), Indeterminate), batches))
        if unknown:
            published += f", and lines {unknown[0].first} to {unknown[-1].last} may be"
        return published, batches[0].first if batches else next_line

    def _stopped(self, error: PenstockError) -> PenstockError:
        """Return the error with the place where the command stopped."""
        said, next_line = self.how_far(error.details.get("line"))
        error.message = f"{error.message}; {said}"
        error.args = (error.message,)
        error.details |= {"published": self.count, "next_line": next_line}
        if self.count and error.written is Written.NO:
            error.written = Written.YES
        if next_line is not None:
            error.next_step = self.command_from(next_line)
        return error

    def command_from(self, line: int) -> str:
        """Return the command that continues at a line."""
        framing = "" if self._framing_name == "json" else f" --framing {self._framing_name}"
        return f"penstock journals publish {self._journal}{framing} --from-line {line}"


def _failure_of(batch: _Batch) -> BaseException | None:
    if batch.done.done() and not batch.done.cancelled():
        return batch.done.exception()
    return Indeterminate("the command ended before the answer came")


Values = Iterator[tuple[_Line, int]]


def _json_values(source: IO[bytes], first_line: int) -> Values:
    lines = enumerate(lines_of(source, FRAME_BYTES_MAX), start=1)
    for number, line in islice(lines, first_line - 1, None):
        text = line.strip()
        if text:
            try:
                msgspec.json.decode(text, type=dict[str, msgspec.Raw])
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise InvalidArgument(f"line {number} is no JSON object: {error}", line=number) from None
            yield _Line(number, msgspec.Raw(text)), len(text) + MESSAGE_BYTES


def _csv_values(source: IO[bytes], first_line: int) -> Values:
    lines = islice(lines_of(source, FRAME_BYTES_MAX), first_line - 1, None)
    records = csv.reader((line.decode() for line in lines), strict=True)
    number = first_line
    try:
        for row in records:
            if row:
                yield _Line(number, row), sum(map(len, row)) + MESSAGE_BYTES
            number = first_line + records.line_num
    except (csv.Error, UnicodeDecodeError) as error:
        raise InvalidArgument(f"line {number} begins no CSV record: {error}", line=number) from None
