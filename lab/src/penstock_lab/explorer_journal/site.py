"""A site: one broker's process around its replica, with files which are bytes, and a disk which is never slow.

It is to the explorer what the broker's shell is to the runtime: it feeds content, keeps the running sum, cuts and rolls
its file, and holds the fragments to upload. What leaves the process comes back from `step`.
"""

from penstock.journals.core.config import JournalConfig
from penstock.journals.core.effects import (
    Alarm,
    AwaitRevision,
    CloseStream,
    ContentEnded,
    ContentReceived,
    CutSpool,
    DropSpool,
    ProposalReceived,
    Proxy,
    ReadContent,
    Retired,
    RollSpool,
    SetAside,
    ShowMark,
    Transact,
    Upload,
    WriteContent,
)
from penstock.journals.core.replica import Replica
from penstock.journals.core.spool import SpoolState
from penstock.journals.records.fragment import Fragment
from penstock.journals.records.messages import ProposeRequest
from penstock.kernel.effects import (
    CancelTimer,
    Effect,
    Event,
    Received,
    Reply,
    SaveState,
    Send,
    SetTimer,
    StateSaved,
)
from penstock.kernel.ids import Incarnation, Instant, NodeId, RequestId
from penstock_lab.explorer_journal.keys import JOURNAL
from penstock_lab.sim.checkers.journal_view import JournalContents, JournalView, Passed, passed_in, view_of

__all__ = ["ModelBroker", "ModelFeed"]


class ModelFeed(Event, frozen=True):
    """A client's content: one chunk, and perhaps the end."""

    request: RequestId
    content: bytes
    is_end: bool = True


class ModelBroker:
    """One run of one broker."""

    def __init__(
        self,
        name: NodeId,
        run: int,
        contents: JournalContents,
        config: JournalConfig,
        *,
        replica_class: type[Replica] = Replica,
        is_kept: bool = False,
        state: SpoolState | None = None,
        uploads: tuple[Fragment, ...] = (),
        is_checked: bool = True,
    ) -> None:
        self.name = name
        self.run = run
        self.contents = contents
        self.is_checked = is_checked
        incarnation = Incarnation(f"{name}{run}")
        self.replica = replica_class(name, JOURNAL, incarnation, config, is_kept=is_kept, state=state)
        self.state = state  # the durable part
        self.running = contents[state.points[-1].sum] if state is not None else b""
        self.uploads = uploads  # handed over, and not yet in the store
        self.set_aside = 0
        self.timers: dict[str, Instant] = {}

    @property
    def view(self) -> JournalView:
        return view_of(self.replica, self.run)

    def step(self, event: Event, now: Instant) -> tuple[list[Effect], Passed]:
        """Let the replica handle it; return what concerns others, and checkers. The disk completes at once."""
        outside: list[Effect] = []
        seen: list[Effect] = []
        events: list[Event] = [event]
        while events:
            effects = self.replica.step(self._translated(events.pop(0)), now)
            seen += effects
            for effect in effects:
                if isinstance(effect, SaveState):
                    self.state = effect.state
                    events.append(StateSaved())
                elif not self._perform(effect):
                    outside.append(effect)
            if self.is_checked:
                self.replica.check()
        return outside, passed_in(seen)

    def _translated(self, event: Event) -> Event:
        match event:
            case Received(sender, ProposeRequest() as message):
                return ProposalReceived(sender, message, self.contents.sum_of(self.running + message.content))
            case ModelFeed(request, content, False):
                return ContentReceived(request, content)
            case ModelFeed(request, content, True):
                sum_ = self.contents.sum_of(self.running + content)
                return ContentEnded(request, sum_, self.contents.sum_of(content), content)
            case _:
                return event

    def _perform(self, effect: Effect) -> bool:
        match effect:
            case WriteContent(content):
                self.running += content
            case CutSpool(point) | RollSpool(point):
                self.running = self.contents[point.sum]
            case DropSpool():
                self.running, self.uploads = b"", ()
            case Upload(fragment):
                self.uploads = (*self.uploads, fragment)
            case SetAside():
                self.set_aside += 1
            case SetTimer(name, at):
                self.timers[name] = at
            case CancelTimer() | ShowMark() | AwaitRevision() | Retired() | Alarm():
                pass
            case Send() | CloseStream() | Transact() | Reply() | Proxy() | ReadContent():
                return False
            case _:
                raise AssertionError(f"a site does not know {type(effect).__name__}")
        return True
