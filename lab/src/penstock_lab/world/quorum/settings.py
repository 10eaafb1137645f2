"""The settings that a seed of the quorum log's world draws, the smallest legal ones included."""

from random import Random
from typing import Final

import msgspec

from penstock.kernel.ids import MILLISECOND, SECOND
from penstock.plumbing.wal import WalOptions
from penstock.quorum.core.config import NodeConfig, OperatorConfig
from penstock.quorum.core.limbo_queue import LimboLimits

__all__ = ["QuorumSettings"]

KEYS: Final = ("a", "b", "c")


class QuorumSettings(msgspec.Struct, frozen=True):
    """One cluster and its clients."""

    nodes: int = 3  # in the ensemble at first
    spares: int = 1
    operators: int = 2
    clients: int = 2
    writers: int = 3  # of a client
    node: NodeConfig = NodeConfig(confirm_delay_ns=5 * MILLISECOND)
    operator: OperatorConfig = OperatorConfig()
    wal: WalOptions = WalOptions(segment_bytes=1 << 20)
    window_bytes: int = 8 << 20  # of a client
    pause_s: float = 0.1
    records: int = 300  # that are written at most
    sizes: tuple[int, int] = (20, 200)
    timeouts_s: tuple[float, ...] = (5.0,)
    changes_s: float = 0.0  # between two hand-overs or changes of the ensemble; 0: none
    keys: tuple[str, ...] = KEYS
    run_s: float = 8.0
    calm_s: float = 6.0

    @classmethod
    def draw(cls, rng: Random) -> "QuorumSettings":
        limbo = LimboLimits(
            length_max=rng.choice((4, 64, 16_384)),
            volatile_length_max=rng.choice((2, 64, 16_384)),
            async_window_bytes=rng.choice((400, 4 << 20)),
        )
        node = NodeConfig(
            limbo=limbo,
            confirm_delay_ns=rng.choice((0, 5, 5)) * MILLISECOND,
            rollback_grace_ns=rng.choice((200 * MILLISECOND, 5 * SECOND)),
            tail_bytes_max=rng.choice((500, 8 << 20)),
            push_bytes_max=rng.choice((200, 1 << 20)),
            push_window_bytes=rng.choice((500, 8 << 20)),
            apply_bytes_max=rng.choice((300, 4 << 20)),
            snapshot_entries=rng.choice((15, 60, 100_000)),
            retain_entries=rng.choice((3, 20, 10_000)),
            snapshot_chunk_bytes=rng.choice((100, 1 << 20)),
        )
        return cls(
            nodes=rng.choice((3, 3, 3, 5, 1)),
            operators=rng.choice((1, 2, 2)),
            clients=rng.choice((1, 2, 3)),
            writers=rng.choice((2, 3, 5)),
            node=node,
            wal=WalOptions(segment_bytes=rng.choice((4 << 10, 64 << 10, 1 << 20))),
            window_bytes=rng.choice((600, 8 << 20)),
            pause_s=rng.choice((0.03, 0.1, 0.3)),
            records=rng.choice((100, 200, 300)),
            sizes=rng.choice(((20, 40), (20, 300), (100, 1_500))),
            timeouts_s=rng.choice(((5.0,), (0.05, 0.5, 3.0), (0.3, 2.0))),
            changes_s=rng.choice((0.0, 0.0, 1.0, 3.0)),
        )
