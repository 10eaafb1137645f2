"""Schedules of the quorum log, by their names in rooms.md §3 (X) and operating.md (B), and some rules of its own.

Clients write and read under each script. Besides the judge's rules a schedule may have a check of its own: how long
no append was answered, how many epochs began, what the nodes show.
"""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import msgspec

from penstock.kernel.errors import Compacted
from penstock.kernel.ids import MILLISECOND
from penstock.plumbing.wal import WalOptions
from penstock.quorum.client.quorum import LIMITS
from penstock.quorum.core.config import NodeConfig
from penstock.quorum.core.limbo_queue import LimboLimits
from penstock_lab.world.process import FOLDER, Life
from penstock_lab.world.quorum.clients import append_noted, subscribe_noted, written_at_once
from penstock_lab.world.quorum.ledger import SentAppend
from penstock_lab.world.quorum.play import QuorumSchedule, calls
from penstock_lab.world.quorum.settings import QuorumSettings
from penstock_lab.world.quorum.site import SHARD, QuorumSite

__all__ = ["SCHEDULES"]

SMALL: Final = NodeConfig(
    confirm_delay_ns=5 * MILLISECOND, snapshot_entries=15, retain_entries=3, tail_bytes_max=500, push_bytes_max=400
)
BUSY: Final = QuorumSettings(clients=1, writers=5, records=10_000, pause_s=0.06, run_s=4.0, calm_s=3.0, spares=0)
SEGMENTS: Final = WalOptions(segment_bytes=4 << 10)
Check = Callable[[], str | None]


def _with(**changes: Any) -> QuorumSettings:
    return msgspec.structs.replace(BUSY, **changes)


# Checks


def _pause_s(site: QuorumSite, began_s: float) -> float:
    """Return the longest time without an answer of success, from some time on until clients ended."""
    end = began_s + site.settings.run_s - 0.5
    fates = ("committed", "acknowledged")
    times = sorted(sent.at_ns / 1e9 for sent in site.ledger.sent if sent.fate in fates)
    inside = [began_s, *(at for at in times if began_s < at < end), end]
    return max(after - before for before, after in pairwise(inside))


def _no_pause_above(site: QuorumSite, seconds: float, epochs_max: int | None = None) -> Check:
    began_s, epoch = site.world.now_ns / 1e9, site.epoch()

    def check() -> str | None:
        pause = _pause_s(site, began_s)
        if pause > seconds:
            return f"B: no append was answered for {pause:.2f} s, more than {seconds} s"
        begun = site.epoch() - epoch
        if epochs_max is not None and begun > epochs_max:
            return f"B: {begun} epochs began, more than {epochs_max}"
        return None

    return check


def _all_committed(site: QuorumSite, since: int, what: str) -> str | None:
    bad = [sent for sent in site.ledger.sent[since:] if sent.fate not in ("committed", "acknowledged", "open")]
    if bad:
        return f"B13: {len(bad)} of {len(site.ledger.sent) - since} appends were not committed through {what}: {bad[0]}"
    return None


# Schedules of rooms.md


def _copies(site: QuorumSite) -> Check | None:
    """Let another client's time-out roll the first copy of a pair back, break the answer's way, and kill the leader."""
    do = calls(site)
    for start in (0.2, 1.7, 3.2):
        do.after(start, do.part, None, 0.35)
        for wait in (0.1, 0.2, 0.3):
            do.after(start + wait, lambda: _reset_clients(site))
        do.after(start + 0.6, do.kill, None)
    return None


def _reset_clients(site: QuorumSite) -> None:
    for name in site.scene.clients:
        life = site.scene.life(name)
        if life is not None:
            site.scene.links.reset_some(life, 1.0)


def _paused_subscriber(site: QuorumSite) -> Check | None:
    """Subscribers with small windows pause after each message, while the log is written and trimmed."""
    life = site.admin
    limits = msgspec.structs.replace(LIMITS, stream_window_bytes=4_096)

    async def subscribe(is_gapless: bool) -> None:
        first = 1
        async with site.client(life, limits=limits) as log:
            while not site.is_over:
                try:
                    await subscribe_noted(site, life, log, first, is_gapless=is_gapless, pause_s=0.3, chance=1.0)
                except Compacted as error:
                    first = int(error.details["first"])

    for is_gapless in (True, False):
        life.spawn(subscribe(is_gapless), "slow subscriber")
    return None


def _slow_disks(site: QuorumSite) -> Check | None:
    do = calls(site)
    do.slow(site.members, 2.5, 18.0)
    return _no_pause_above(site, 16.0, epochs_max=8)


def _cut_leader(site: QuorumSite) -> Check | None:
    do = calls(site)
    do.after(0.5, do.part, None, 60.0)
    return _no_pause_above(site, 3.5, epochs_max=3)


def _idle_cut(site: QuorumSite) -> Check | None:
    """No client writes, so no append tells that anything is wrong."""
    site.is_over = True
    do, before = calls(site), site.leader()
    do.after(0.2, do.part, before, 60.0)
    found: list[str | None] = []
    do.after(3.5, lambda: found.append(site.leader()))
    return lambda: None if found[0] not in (before, None) else f"B1: {before} leads after 3 s without its followers"


def _flapping(site: QuorumSite) -> Check | None:
    do = calls(site)
    for number in range(4):
        do.after(0.3 + 1.4 * number, do.part, None, 0.6)
    return _no_pause_above(site, 2.5, epochs_max=4)


# Schedules of operating.md


def _frozen_leader(site: QuorumSite) -> Check | None:
    do = calls(site)
    do.after(0.5, do.freeze, None, 20.0)
    return _no_pause_above(site, 2.0, epochs_max=2)


def _dark_leader(site: QuorumSite) -> Check | None:
    do = calls(site)
    do.after(0.5, do.power_off, None, 20.0)
    return _no_pause_above(site, 2.0, epochs_max=2)


def _killed_leader(site: QuorumSite) -> Check | None:
    do = calls(site)
    do.after(0.5, do.kill, None)
    return _no_pause_above(site, 1.5, epochs_max=2)


def _frozen_operator(site: QuorumSite) -> Check | None:
    do = calls(site)
    for start in (0.2, 1.7, 3.0):
        do.after(start, do.freeze, "o1", 1.0)
    return _no_pause_above(site, 0.5, epochs_max=0)


def _wiped_member(site: QuorumSite) -> Check | None:
    """Wipe a follower during an election: the other two continue, and a swap brings it back."""
    do, wiped = calls(site), site.follower()
    do.after(0.5, do.wipe, wiped)
    do.after(0.55, do.kill, None)
    do.after(3.0, do.ask, lambda operators: operators.swap(SHARD, wiped, wiped, timeout=20))
    return None


def _hand_overs(site: QuorumSite) -> Check | None:
    """Hand the shard round while fifty writers append: each append is committed, and each read answered."""
    for name in site.members:
        site.scene.computers[name].files.trouble.sync_ns = (2_000_000, 30_000_000)
    do, since, began_s = calls(site), len(site.ledger.sent), site.world.now_ns / 1e9
    for number in range(6):
        do.after(0.3 + 0.7 * number, do.elect, site.members[number % 3])
    life = site.scene.life("c1")
    assert life is not None
    life.spawn(_fifty(site, life), "fifty writers")

    def check() -> str | None:
        pause = _pause_s(site, began_s)
        if pause > 0.3:
            return f"B13: no append was answered for {pause:.2f} s"
        if site.unread:
            return f"B13: {site.unread} reads failed"
        return _all_committed(site, since, "hand-overs")

    return check


async def _fifty(site: QuorumSite, life: Life) -> None:
    async with site.client(life) as log:
        while not site.is_over:
            await written_at_once(site, life, log, 50)
            await asyncio.sleep(0.1)


def _target_dies(site: QuorumSite) -> Check | None:
    do = calls(site)
    target = site.follower()
    for start in (0.3, 2.3):
        do.after(start, do.elect, target)
        do.after(start + 0.004, do.kill, target)
    return _no_pause_above(site, 2.0)


def _made_again(site: QuorumSite) -> Check | None:
    """Ask for a shard of the same name, twice: it is refused."""
    done: list[str] = []

    async def create(operators: object) -> None:
        try:
            await operators.create(SHARD, site.members)  # type: ignore[attr-defined]
            done.append("made again")
        except Exception as error:
            done.append(type(error).__name__)

    do = calls(site)
    for start in (0.5, 1.5):
        do.after(start, do.ask, create)
    return lambda: None if done == ["PreconditionFailed"] * 2 else f"B: a living shard was {done}"


def _lost_suffix(site: QuorumSite) -> Check | None:
    """Acknowledge on a leader that is cut off: what its successor displaces is in the lost-and-found (P8)."""
    site.is_over = True  # what other clients have in the limbo would come before it
    do, old = calls(site), site.leader()
    mine: list[SentAppend] = []

    async def write() -> None:
        async with site.client(site.admin) as log:
            for _ in range(5):
                sent = site.ledger.record("a", 60, is_sync=False)
                mine.append(sent)
                await append_noted(site, site.admin, log, sent, timeout=1.0)

    do.after(0.6, do.part, old, 4.0)
    do.after(0.65, lambda: site.admin.spawn(write(), "writes on the old leader"))

    def check() -> str | None:
        if not any(sent.fate == "acknowledged" for sent in mine):
            return "B: nothing was acknowledged, so the schedule shows nothing"
        files = site.scene.computers[str(old)].files
        kept = b"".join(bytes(files.file(path).data) for path in files.walk(FOLDER) if path.suffix == ".jsonl")
        lost = [sent for sent in mine if sent.fate == "acknowledged" and sent.seq and not _is_kept(sent, kept)]
        values = site.values
        gone = [sent for sent in lost if sent.record not in values.get(sent.key, b"")]
        return f"P8: {len(gone)} acknowledged and lost transactions are not in the lost-and-found" if gone else None

    return check


def _is_kept(sent: SentAppend, kept: bytes) -> bool:
    return f'"client":"{sent.client}","seq":{sent.seq},'.encode() in kept


def _figures(site: QuorumSite) -> Check | None:
    """A leader without its followers: its figures show what waits, and how far the followers are behind."""
    do, leader = calls(site), site.leader()
    found: list[tuple[int, int, int]] = []
    waits: list[tuple[int, float]] = []

    def look() -> None:
        (host,) = site.nodes[str(leader)].hosts
        figures = host._figures
        found.append((figures.limbo_length, figures.lag, figures.head - figures.commit))
        waits.append((figures.limbo_bytes, figures.limbo_oldest_seconds))

    do.after(0.3, do.part, leader, 0.5)
    do.after(0.7, look)

    def check() -> str | None:
        limbo, lag, waiting = found[0]
        is_true = waiting > 3 and waiting - 3 <= limbo <= waiting and lag >= limbo
        if not (waits[0][0] >= 20 * limbo and 0.2 < waits[0][1] < 0.5):
            return f"the figures say {waits[0][0]} bytes in limbo, for {waits[0][1]} s"
        return None if is_true else f"the figures say {limbo} in limbo, lag {lag}, and {waiting} entries wait"

    return check


def _restarted_client(site: QuorumSite) -> Check | None:
    """Kill a client that keeps its `client_id`."""
    do = calls(site)
    for number in range(4):
        do.after(0.5 + 0.9 * number, do.kill, "c1")
    return None


def _full_limbo(site: QuorumSite) -> Check | None:
    """Fill a small limbo while the followers are away, and break the ways of the answers."""
    do = calls(site)
    for number in range(5):
        do.after(0.3 + 0.8 * number, do.part, None, 0.5)
        do.after(0.4 + 0.8 * number, lambda: _reset_clients(site))
    return None


def _window(site: QuorumSite) -> Check | None:
    life = site.scene.life("c1")
    assert life is not None
    life.spawn(_fifty(site, life), "fifty writers")
    return None


def _two_operators(site: QuorumSite) -> Check | None:
    """Freeze operators in turn while leaders die, so that one comes back with an older decision."""
    do = calls(site)
    for number in range(4):
        do.after(0.3 + number, do.kill, None)
        do.after(0.3 + number, do.elect, site.members[number % 3])
        do.after(0.31 + number, do.freeze, f"o{1 + number % 2}", 0.9)
    return None


def _pairs(site: QuorumSite) -> Check | None:
    """Repeats under resets: with the smallest window of pairs, a pair that is too old is refused as expired."""
    do = calls(site)
    for number in range(20):
        do.after(0.2 + 0.22 * number, lambda: _reset_clients(site))
    return None


TRIMMING: Final = _with(node=SMALL, wal=SEGMENTS, sizes=(300, 600), pause_s=0.03, run_s=2.5)
SCHEDULES: Final[dict[str, QuorumSchedule]] = {
    "x8": QuorumSchedule("the first copy of a pair is doomed, the second commits, the leader dies", _copies, BUSY),
    "x9": QuorumSchedule("answers come late, connections break, clients send again", _pairs, BUSY),
    "x10": QuorumSchedule("a trimmed log overtakes a paused subscriber", _paused_subscriber, TRIMMING),
    "x12": QuorumSchedule("a sync takes 2.5 s, for long", _slow_disks, _with(run_s=20.0, pause_s=0.2)),
    "x13": QuorumSchedule("the leader is cut from its followers, not from operators", _cut_leader, _with(run_s=7.0)),
    "b1-idle": QuorumSchedule("the same without a client", _idle_cut, _with(clients=1, writers=1)),
    "b1-flapping": QuorumSchedule("the cut comes and goes", _flapping, _with(run_s=7.0)),
    "b2-frozen": QuorumSchedule("the leader is frozen", _frozen_leader, BUSY),
    "b2-dark": QuorumSchedule("the leader's machine loses power, and resets nothing", _dark_leader, BUSY),
    "b2-killed": QuorumSchedule("the leader is killed", _killed_leader, BUSY),
    "b2-operator": QuorumSchedule("an operator is frozen for 2 s", _frozen_operator, _with(operators=1)),
    "b4": QuorumSchedule("a member is wiped during an election", _wiped_member, _with(run_s=7.0)),
    "b13": QuorumSchedule("hand-overs under fifty writers", _hand_overs, _with(writers=1)),
    "b13-dies": QuorumSchedule("the target of a hand-over dies in the drain", _target_dies, BUSY),
    "made-again": QuorumSchedule("a shard is made over a living one", _made_again, _with(run_s=3.0)),
    "lost-suffix": QuorumSchedule("acknowledged transactions are displaced", _lost_suffix, _with(run_s=6.0)),
    "client-restarts": QuorumSchedule("a client that keeps its client_id restarts", _restarted_client, BUSY),
    "full": QuorumSchedule(
        "the limbo is full, and answers are lost",
        _full_limbo,
        _with(node=NodeConfig(limbo=LimboLimits(length_max=4, volatile_length_max=2)), timeouts_s=(0.3, 2.0)),
    ),
    "rolled-back": QuorumSchedule("transactions are rolled back under a subscriber", _flapping, _with(run_s=6.0)),
    "window": QuorumSchedule("fifty writers share a small window", _window, _with(run_s=1.0, window_bytes=1_000)),
    "two-operators": QuorumSchedule("operators are frozen while they elect", _two_operators, BUSY),
    "figures": QuorumSchedule("the figures of a leader without followers", _figures, _with(run_s=2.0)),
}
