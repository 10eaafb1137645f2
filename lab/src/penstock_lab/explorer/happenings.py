"""What can happen to a party in a world. Each is a value with a line of text, for schedules people read."""

import msgspec

from penstock.quorum.records.messages import ChangeOp
from penstock_lab.explorer.letters import Letter

__all__ = [
    "AnswerHappened",
    "Asked",
    "Crashed",
    "DeliveryHappened",
    "Happening",
    "Restarted",
    "Spoke",
    "Submitted",
    "Ticked",
    "TimedOut",
    "WriteHappened",
]


class DeliveryHappened(msgspec.Struct, frozen=True):
    """A letter arrives."""

    letter: Letter


class WriteHappened(msgspec.Struct, frozen=True):
    """The oldest write of a node is durable."""


class Crashed(msgspec.Struct, frozen=True):
    """A node's process ends and starts again, on one of the disks the crash may have left."""

    survivor: int


class Submitted(msgspec.Struct, frozen=True):
    """A client hands its transaction to a leader."""

    txn: int


class TimedOut(msgspec.Struct, frozen=True):
    """Clients of a leader give up: those waiting until its n-th deadline."""

    deadline: int


class Spoke(msgspec.Struct, frozen=True):
    """A leader's heartbeat."""


class Ticked(msgspec.Struct, frozen=True):
    """An operator's timer."""

    is_late: bool


class Restarted(msgspec.Struct, frozen=True):
    """An operator's process ends, and another one starts under its name."""


class Asked(msgspec.Struct, frozen=True):
    """An operator is asked for a reconfiguration."""

    op: ChangeOp
    old: str
    new: str


class AnswerHappened(msgspec.Struct, frozen=True):
    """The KeySpace makes an operator's oldest write, and answers."""


Happening = (
    DeliveryHappened
    | WriteHappened
    | Crashed
    | Submitted
    | TimedOut
    | Spoke
    | Ticked
    | Restarted
    | Asked
    | AnswerHappened
)
