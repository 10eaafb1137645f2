"""What a seed of the quorum workload aims at: a random walk misses some schedules for long, a mode makes some likely.

A mode is drawn per seed, then every number of the seed is drawn from what the mode allows: `Mode` is the range,
`Settings` one seed's choice.
"""

from dataclasses import dataclass
from random import Random

from penstock.kernel.ids import MILLISECOND
from penstock.quorum.core.config import NodeConfig, OperatorConfig
from penstock.quorum.core.limbo_queue import LimboLimits
from penstock.quorum.core.machines.pairs import PairLimits

__all__ = ["MODES", "NEVER", "Mode", "Settings"]

NEVER = 1 << 40


@dataclass(frozen=True)
class Mode:
    """The ranges of one kind of seed. Intervals are means, in milliseconds; 0 is never."""

    name: str
    sizes: tuple[int, ...] = (3, 3, 5)
    spares: int = 1
    operators: tuple[int, ...] = (1, 2)
    clients: int = 2
    think_ms: tuple[int, ...] = (8, 16)
    election_ms: tuple[int, ...] = (0, 60)
    change_ms: tuple[int, ...] = (0, 60)
    async_share: tuple[float, ...] = (0.0, 0.3)
    read_share: tuple[float, ...] = (0.2,)
    rollback_share: tuple[float, ...] = (0.0, 0.5)
    timeout_ms: tuple[int, ...] = (5, 20, 100)
    snapshot_entries: tuple[int, ...] = (8, 30, NEVER)
    kill_operator: tuple[float, ...] = (0.0, 0.1)  # the chance to die with each write of the metadata
    crash_node: tuple[float, ...] = (0.0,)  # the chance to die with each step of a node
    crash_cutting: tuple[float, ...] = (0.1,)  # the chance to die with a truncation or a snapshot
    cut_ms: tuple[int, ...] = (0,)  # how often some nodes are cut off from the others for a while
    split: tuple[float, ...] = (0.0,)  # the chance that a write of the metadata parts a leader from the operators
    struck: tuple[int, ...] = (1, 2, NEVER)  # how many nodes the nemesis strikes
    lose_metadata: tuple[float, ...] = (0.0, 0.1)
    wipes: tuple[int, ...] = (0, 1)
    retain: tuple[int, ...] = (0, 3, 20)
    damage_ms: tuple[int, ...] = (0,)  # until one state machine goes wrong, at most; 0 is never
    safety_ms: int = 150


MODES = (
    Mode("mixed"),
    Mode(
        "figure-8",
        sizes=(3, 5),
        spares=0,
        operators=(1,),
        clients=1,
        think_ms=(6, 12),
        election_ms=(8, 15),
        safety_ms=200,
        change_ms=(0,),
        read_share=(0.1, 0.4),
        snapshot_entries=(NEVER,),
        crash_node=(0.0, 0.01),
        crash_cutting=(0.0, 0.5),
        cut_ms=(6, 12),
        struck=(1, 1, NEVER),
        wipes=(0,),
    ),
    Mode(
        "reconfigurations",
        sizes=(3, 3, 4),
        spares=2,
        operators=(1, 2),
        clients=1,
        think_ms=(4, 10),
        election_ms=(0, 40),
        change_ms=(8, 15),
        safety_ms=200,
        kill_operator=(0.0, 0.05, 0.3),
        crash_node=(0.0, 0.003),
        cut_ms=(0, 20),
        split=(0.0, 0.3),
        struck=(1, 1, NEVER),
        snapshot_entries=(8, NEVER),
    ),
    Mode(
        "rollbacks",
        election_ms=(0, 40),
        change_ms=(0, 80),
        think_ms=(5, 12),
        async_share=(0.2, 0.5),
        rollback_share=(0.8,),
        timeout_ms=(1, 3, 8),
        cut_ms=(8, 15),
        wipes=(0,),
    ),
    Mode(
        "operators",
        sizes=(3, 5),
        operators=(2, 3),
        think_ms=(8,),
        election_ms=(10, 20),
        change_ms=(20, 60),
        kill_operator=(0.1, 0.4),
        read_share=(0.2, 0.5),
        split=(0.0, 0.2),
        lose_metadata=(0.1, 0.3),
        wipes=(0,),
    ),
    Mode(
        "restarts",
        sizes=(3,),
        think_ms=(5,),
        election_ms=(0, 30),
        change_ms=(0, 60),
        crash_node=(0.003, 0.01, 0.03),
        crash_cutting=(0.5,),
        read_share=(0.2, 0.5),
        struck=(1, 1, NEVER),
        snapshot_entries=(5, 20),
    ),
    Mode(
        "snapshots",
        sizes=(3,),
        spares=2,
        think_ms=(6, 10),
        async_share=(0.3,),
        timeout_ms=(3, 10, 50),
        election_ms=(30, 60),
        change_ms=(20, 40),
        snapshot_entries=(3, 6, 12),
        cut_ms=(15, 30),
        struck=(1, 1, NEVER),
    ),
    Mode(
        "damage",
        sizes=(3, 3, 5),
        spares=0,
        think_ms=(4, 8),
        election_ms=(0, 30),
        change_ms=(0,),
        async_share=(0.0,),
        read_share=(0.3,),
        crash_node=(0.0, 0.003, 0.01),
        snapshot_entries=(5, 20, NEVER),
        wipes=(0,),
        retain=(NEVER,),  # a member that begins with the snapshot of another one has no vote of its own
        damage_ms=(60,),
    ),
)


@dataclass(frozen=True)
class Settings:
    """The numbers of one seed."""

    mode: str
    size: int
    spares: int
    operators: int
    clients: int
    think_ns: int
    election_ns: int
    change_ns: int
    async_share: float
    read_share: float
    rollback_share: float
    timeout_ns: int
    kill_operator: float
    crash_node: float
    crash_cutting: float
    cut_ns: int
    split: float
    struck: int
    lose_metadata: float
    wipes: int
    damage_ns: int
    calm_ns: int  # how long clients continue when the faults are over
    has_idle_election: bool
    check_every: int
    safety_ns: int
    pairs: PairLimits
    node: NodeConfig
    operator: OperatorConfig

    @classmethod
    def draw(cls, rng: Random, mode: Mode) -> "Settings":
        one = rng.choice
        return cls(
            mode=mode.name,
            size=one(mode.sizes),
            spares=mode.spares,
            operators=one(mode.operators),
            clients=mode.clients,
            think_ns=one(mode.think_ms) * MILLISECOND,
            election_ns=one(mode.election_ms) * MILLISECOND,
            change_ns=one(mode.change_ms) * MILLISECOND,
            async_share=one(mode.async_share),
            read_share=one(mode.read_share),
            rollback_share=one(mode.rollback_share),
            timeout_ns=one(mode.timeout_ms) * MILLISECOND,
            kill_operator=one(mode.kill_operator),
            crash_node=one(mode.crash_node),
            crash_cutting=one(mode.crash_cutting),
            split=one(mode.split),
            struck=one(mode.struck),
            cut_ns=one(mode.cut_ms) * MILLISECOND,
            lose_metadata=one(mode.lose_metadata),
            wipes=one(mode.wipes),
            damage_ns=one(mode.damage_ms) * MILLISECOND,
            calm_ns=one((1, 20)) * MILLISECOND,
            has_idle_election=rng.random() < 0.3,
            check_every=1 if rng.random() < 0.1 else 32,
            safety_ns=mode.safety_ms * MILLISECOND,
            pairs=PairLimits(of_client_max=one((3, 8, 1_000, 1_000))),
            node=_draw_node(rng, mode),
            operator=_draw_operator(rng),
        )


def _draw_node(rng: Random, mode: Mode) -> NodeConfig:
    """Small limits, so that every one of them is met."""
    one = rng.choice
    limbo = LimboLimits(
        length_max=one((2, 5, 64)),
        bytes_max=one((200, 10_000)),
        volatile_length_max=one((2, 64)),
        volatile_bytes_max=one((200, 10_000)),
        async_window_bytes=one((160, 5_000)),
    )
    return NodeConfig(
        limbo=limbo,
        append_timeout_ns=50 * MILLISECOND,
        timeout_grain_ns=one((100_000, MILLISECOND)),
        rollback_grace_ns=one((5, 30)) * MILLISECOND,
        confirm_delay_ns=one((0, 0, MILLISECOND)),
        tail_bytes_max=one((200, 1 << 20)),
        push_bytes_max=one((150, 1 << 20)),
        push_window_bytes=one((300, 1 << 20)),
        apply_bytes_max=one((150, 1 << 20)),
        heartbeat_ns=one((2, 4, 10)) * MILLISECOND,
        snapshot_entries=one(mode.snapshot_entries),
        retain_entries=one(mode.retain),
        snapshot_chunk_bytes=one((40, 1 << 20)),
        resolve_window=one((5, 40, 1 << 20)),
        reads_max=one((2, 64)),
        read_timeout_ns=one((5, 30)) * MILLISECOND,
        local_read_ns=one((20, 100)) * MILLISECOND,
        drain_ns=one((5, 20)) * MILLISECOND,
        drained_ns=one((10, 40)) * MILLISECOND,
    )


def _draw_operator(rng: Random) -> OperatorConfig:
    one = rng.choice
    return OperatorConfig(
        heartbeat_ns=one((6, 12)) * MILLISECOND,
        failure_ns=one((30, 60)) * MILLISECOND,
        lost_ns=6 * MILLISECOND,
        stall_ns=one((30, 100)) * MILLISECOND,
        stall_ns_max=one((100, 400)) * MILLISECOND,
        election_ns=one((20, 80)) * MILLISECOND,
        election_ns_max=one((80, 320)) * MILLISECOND,
        drain_ns=one((10, 30)) * MILLISECOND,
        successor_ns=one((5, 20)) * MILLISECOND,
        grace_ns=one((0, 0, 2)) * MILLISECOND,
        reconfiguration_ns=one((40, 150)) * MILLISECOND,
    )
