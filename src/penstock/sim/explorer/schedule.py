"""A schedule for people: what happened, to whom, and how they stood afterwards, one line per step.

    3. B gets Fence 2 from op1                 B fenced 2: 1B 1C(1)
    4. A submits txn 1                         A leader 1, committed 2: 1B 1C(1) | 1T1

Entries are written as epoch, kind and what they name; what stands behind the bar is not durable yet.
"""

from collections.abc import Iterator
from typing import Any

from penstock.base.ids import NO_ENTRY
from penstock.quorum.entry import Barrier, Confirm, Entry, Rollback, Txn
from penstock.quorum.messages import (
    AddEntryRequest,
    AddEntryResponse,
    AddFollowerRequest,
    BecomeLeaderRequest,
    FenceResponse,
    Refusal,
    TruncateRequest,
    TruncateResponse,
)
from penstock.sim.explorer.happenings import (
    Answered,
    Asked,
    Crashed,
    Delivered,
    Happening,
    Restarted,
    Spoke,
    Submitted,
    Ticked,
    TimedOut,
    Wrote,
)
from penstock.sim.explorer.search import Outcome
from penstock.sim.explorer.site import Site
from penstock.sim.explorer.world import Action, World

__all__ = ["entry_text", "label", "schedule_text", "site_text"]


PLAIN: dict[type, str] = {
    Wrote: "has its oldest write on the disk",
    Spoke: "sends heartbeats",
    Restarted: "crashes and restarts",
    Answered: "has its write to the metadata answered",
}


def schedule_text(world: World, outcome: Outcome[int]) -> list[str]:
    """The steps to a violation, and what it was."""
    lines = []
    for number, (action, state) in enumerate(outcome.schedule, 1):
        after = _party_text(world, action, state) if state is not None else ""
        lines.append(f"{number:3}. {label(world, action):58}  {after}".rstrip())
    return [*lines, f"     {outcome.violation}"] if outcome.violation is not None else lines


def label(world: World, action: Action) -> str:
    """One step, in words."""
    name, happening = world.names[action.party], world.happenings[action.happening]
    again = ", which will come again" if action.is_copied else ""
    return f"{name} {_happening_text(happening)}{again}"


def _happening_text(happening: Happening) -> str:
    match happening:
        case Delivered(letter):
            return f"gets {_message_text(letter.message)} from {letter.sender}"
        case Crashed(survivor):
            return f"crashes and restarts on disk {survivor} of those it may find"
        case Submitted(txn):
            return f"is handed txn {txn + 1}"
        case TimedOut(deadline):
            return f"lets clients give up, to deadline {deadline + 1}"
        case Ticked(is_late):
            return "loses patience" if is_late else "asks again"
        case Asked(op, old, new):
            return " ".join(["is asked to", op.value, *([old] if old else []), *([f"+{new}"] if new else [])])
        case Wrote() | Spoke() | Restarted() | Answered():
            return PLAIN[type(happening)]


def _message_text(message: Any) -> str:
    name = type(message).__name__.removesuffix("Request")
    match message:
        case AddEntryRequest():
            inside = f"behind {message.previous}: {' '.join(map(entry_text, message.entries)) or 'nothing'}"
        case AddEntryResponse():
            inside = f"{message.head}{' (behind)' if message.is_behind else ''}"
        case FenceResponse() | TruncateResponse():
            inside = f"{message.head}"
        case TruncateRequest():
            inside = f"to {message.to}"
        case BecomeLeaderRequest():
            inside = "with " + " ".join(f"{member.node}@{head}" for member, head in message.heads)
        case AddFollowerRequest():
            inside = f"{message.follower.node}@{message.head}"
        case Refusal():
            inside = f"of {message.request} {message.request_epoch}: {message.reason.value}"
        case _:
            inside = ""
    return f"{name} {message.epoch} {inside}".rstrip()


def entry_text(entry: Entry) -> str:
    match entry:
        case Txn():
            return f"{entry.epoch}{'T' if entry.is_sync else 'a'}{entry.seq}"
        case Barrier():
            return f"{entry.epoch}B"
        case Confirm():
            return f"{entry.epoch}C({entry.upto})"
        case Rollback():
            return f"{entry.epoch}R({entry.first})"


def site_text(site: Site) -> str:
    """A node: its role and epoch, what it knows to be committed, and its log."""
    node, disk = site.node, site.disk
    written = disk.written()
    durable, log = disk.log()[1], written.log()[1]
    kept = len(durable) if log[: len(durable)] == durable else 0
    entries = " ".join(_with_bar([entry_text(entry) for entry in log], kept))
    start = "" if disk.state.snapshot.head == NO_ENTRY else f"(…{disk.state.snapshot.head}) "
    return f"{site.name} {node.role.value} {node.epoch}, committed {node.replica.commit}: {start}{entries}"


def _with_bar(entries: list[str], kept: int) -> Iterator[str]:
    yield from entries[:kept]
    if entries[kept:]:
        yield "|"
    yield from entries[kept:]


def _party_text(world: World, action: Action, state: int) -> str:
    part = world.unpack(state)[action.party]
    if action.party < world.node_count:
        return site_text(world.sites[part])
    desk = world.desks[part]
    return f"{desk.name} {desk.operator.activity.value} {desk.epoch}"
