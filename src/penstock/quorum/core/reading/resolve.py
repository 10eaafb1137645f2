"""What became of a transaction whose answer was lost or INDETERMINATE? Design: quorum-log.md P10.

COMMITTED and ABORTED rest on committed entries only, so any node may give them for entries at or below its known
commit. A node which cannot tell says PENDING; below the window the answer is EXPIRED, never a guess.
"""

from penstock.kernel.ids import EntryId, Epoch, Offset
from penstock.quorum.core.log import Log
from penstock.quorum.records.resolution import Resolution

__all__ = ["resolve"]


def resolve(log: Log, epoch: Epoch, committed: Offset, entry: EntryId) -> Resolution:
    """Return the answer about an entry of a node in `epoch` that knows everything up to `committed` to be committed."""
    if entry.epoch > epoch:
        return Resolution.NOT_LEADER
    if entry.offset <= committed:
        return _settled(log, entry)
    return Resolution.ABORTED if is_displaced(log, committed, entry) else Resolution.PENDING


def _settled(log: Log, entry: EntryId) -> Resolution:
    if entry.offset < log.window_start:
        return Resolution.EXPIRED
    if log.epoch_at(entry.offset) == entry.epoch and not log.is_doomed(entry.offset):
        return Resolution.COMMITTED
    return Resolution.ABORTED


def is_displaced(log: Log, committed: Offset, entry: EntryId) -> bool:
    """Is an entry of a higher epoch committed at a smaller offset? Then this one can never follow there."""
    return log.epoch_at(committed) > entry.epoch
