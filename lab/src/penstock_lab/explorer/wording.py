"""Words for what happens: one phrase for every happening, message and entry.

Entries are written as epoch, kind and subject: 1B a barrier, 1T2 the sync TXN 2, 1a2 an async one, 1C(4) a CONFIRM up
to 4, 1R(3) a ROLLBACK from 3 on.
"""

from typing import Any

from penstock.quorum.records.entry import Barrier, Confirm, Entry, Rollback, Txn
from penstock.quorum.records.messages import (
    AddEntryRequest,
    AddEntryResponse,
    AddFollowerRequest,
    BecomeLeaderRequest,
    FenceResponse,
    Refusal,
    TruncateRequest,
    TruncateResponse,
)
from penstock_lab.explorer.happenings import (
    AnswerHappened,
    Asked,
    Crashed,
    DeliveryHappened,
    Happening,
    Restarted,
    Spoke,
    Submitted,
    Ticked,
    TimedOut,
    WriteHappened,
)

__all__ = ["entry_text", "happening_text", "message_text"]

PLAIN: dict[type, str] = {
    WriteHappened: "has its oldest write on the disk",
    Spoke: "sends heartbeats",
    Restarted: "crashes and restarts",
    AnswerHappened: "has its write to the metadata answered",
}


def happening_text(happening: Happening) -> str:
    match happening:
        case DeliveryHappened(letter):
            return f"gets {message_text(letter.message)} from {letter.sender}"
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
        case WriteHappened() | Spoke() | Restarted() | AnswerHappened():
            return PLAIN[type(happening)]


def message_text(message: Any) -> str:
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
