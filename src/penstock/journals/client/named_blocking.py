"""One journal by its name, without `await`: the methods are those of `named_journal.py`."""

from collections.abc import Iterator
from typing import Final

from penstock.journals.client.append_service import PATIENCE_S
from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.journals.client.messages import JSON, Message
from penstock.journals.client.named_journal import AsyncJournal
from penstock.journals.client.publishers import JournalPublisher
from penstock.messages.framing.framing import Framing
from penstock.plumbing.process.blocking import Blocking, blocking
from penstock.plumbing.process.loop_thread import LoopThread

__all__ = ["Journal"]

READ_AHEAD: Final = 4  # batches of up to a thousand messages


@blocking(AsyncJournal, without=("read_batches",))
class Journal(Blocking[AsyncJournal]):
    """A journal by its name: publish messages, read them, append bytes."""

    def __init__(self, journals: BlockingJournals, name: str) -> None:
        self.name = name
        self._journals = journals

    @property
    def _async(self) -> AsyncJournal:
        return AsyncJournal(self._journals.journals, self.name)

    def publisher(self, framing: Framing = JSON, *, patience: float = PATIENCE_S) -> JournalPublisher:
        """Return a publisher of messages to it, for a `with`.

        While no broker takes messages they are sent again for `patience` seconds; then they fail with the reason.
        """
        return JournalPublisher(lambda: self._async.publisher(framing, patience=patience), framing)

    def read(
        self, offset: int = 0, *, end: int | None = None, framing: Framing = JSON, follow: bool = False
    ) -> Iterator[Message]:
        """Yield its committed messages from an offset on; with `follow`, also new ones as they come."""
        batches = self._async.read_batches(offset, end=end, framing=framing, follow=follow)
        for batch in LoopThread.shared().iterate(batches, ahead=READ_AHEAD):
            yield from batch
