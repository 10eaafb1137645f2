"""What a shard's store offers its shell: the state of an application and the shard's checkpoint, committed together.

The shell calls it as the shard's effects say (`effects.py`), never two methods at once but for `commit`, which may run
while the next transaction is open already. What every store keeps:

- `restore` places the fence before it reads: after it, no older process can commit.
- `seal` closes the open transaction, with the checkpoint in it; the next call of `transaction` opens the next one,
  which sees what the sealed one changed. A store which cannot run two waits there for the commit.
- `commit` makes the sealed transaction durable, checkpoint and all, or raises and has changed nothing: `Fenced` if
  another process has taken over.
"""

from typing import Protocol, TypeVar

from penstock.consumers.core.checkpoint import Checkpoint

__all__ = ["Store"]

T_co = TypeVar("T_co", covariant=True)


class Store(Protocol[T_co]):
    """Where an application keeps its state. `T_co` is the application's view of it: a connection, a dict, ..."""

    async def restore(self) -> Checkpoint:
        """Fence out older processes, then read the checkpoint: an empty one, if the store is new."""
        ...

    async def transaction(self) -> T_co:
        """Return the open transaction, in which the application reads and changes its state. Opens one if none
        is open.
        """
        ...

    async def seal(self, checkpoint: Checkpoint) -> None:
        """Close the open transaction (an empty one, if none is open) with this checkpoint in it."""
        ...

    async def commit(self) -> None:
        """Make the sealed transaction durable, or raise."""
        ...

    async def close(self) -> None:
        """Drop uncommitted changes, and release files and connections. Never raises."""
        ...
