"""Stores of the exactly-once workload: one per shard, shared by all processes which ever run it, as a database is.

It holds what messages have done (how often each was applied, and sums), and the checkpoint, which commit together. The
fence decides who may commit.
"""

import msgspec

from penstock.consumer.checkpoint import Checkpoint

__all__ = ["Session", "Store"]


class Effects(msgspec.Struct):
    """What a transaction has staged."""

    applied: list[str] = msgspec.field(default_factory=list)  # ids of messages
    sums: dict[str, int] = msgspec.field(default_factory=dict)

    def apply(self, id_: str, key: str, amount: int) -> None:
        self.applied.append(id_)
        self.sums[key] = self.sums.get(key, 0) + amount


class Store:
    """What is durable."""

    def __init__(self) -> None:
        self.fence = 0
        self.checkpoint = Checkpoint().encode()
        self.applied: dict[str, int] = {}  # id -> the commit which applied it
        self.sums: dict[str, int] = {}
        self.commits = 0

    def commit(self, effects: Effects, checkpoint: bytes) -> None:
        self.commits += 1
        self.checkpoint = checkpoint
        for id_ in effects.applied:
            assert id_ not in self.applied, f"{id_} was applied in commit {self.applied[id_]} and {self.commits}"
            self.applied[id_] = self.commits
        for key, amount in effects.sums.items():
            self.sums[key] = self.sums.get(key, 0) + amount


class Session:
    """One process's connection to the store."""

    is_fenced = True  # a mutant's sessions are not

    def __init__(self, store: Store) -> None:
        self._store = store
        self._fence = 0
        self.open = Effects()
        self._sealed: tuple[Effects, bytes] | None = None

    def restore(self) -> Checkpoint:
        self._store.fence += 1
        self._fence = self._store.fence
        return Checkpoint.decode(self._store.checkpoint)

    def seal(self, checkpoint: Checkpoint) -> None:
        assert self._sealed is None, "the transaction before is not committed"
        self._sealed = (self.open, checkpoint.encode())
        self.open = Effects()

    def commit(self) -> bool:
        """Commit what was sealed; False if somebody else has taken the store over."""
        assert self._sealed is not None, "nothing is sealed"
        if self.is_fenced and self._fence != self._store.fence:
            return False
        self._store.commit(*self._sealed)
        self._sealed = None
        return True
