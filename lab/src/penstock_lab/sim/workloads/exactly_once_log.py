"""An embedded store of the exactly-once workload: one file, rewritten by every commit and recorded into a recovery log.

The real Recorder, Playback and pruning, over a log with a register. A process which restores plays the log back from
the hints, takes it over by its handoff, and must find exactly what is committed. A commit is one append of recorded
operations, which checks the register `author`; a handoff checks that the register still has the value that it read.
Both may come twice, a handoff also much later.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import msgspec

from penstock.consumers.core.checkpoint import Checkpoint
from penstock.consumers.core.recoverylog.hints import Hints
from penstock.consumers.core.recoverylog.playback import (
    AppendHandoff,
    AtHead,
    CreateFile,
    LinkFiles,
    LogChunk,
    Playback,
    Promote,
    ReadRecoveryLog,
    RemoveFile,
    WriteFile,
)
from penstock.consumers.core.recoverylog.pruning import Extent, PruningPlan, plan
from penstock.consumers.core.recoverylog.recorder import Recorder
from penstock.kernel.effects import Effect, Stop
from penstock.kernel.ids import MILLISECOND, Instant, Offset
from penstock.kernel.probes import reached
from penstock_lab.sim.workloads.exactly_once_store import Staged, Truth
from penstock_lab.sim.world import World

__all__ = ["LogSession", "SimRecoveryLog"]

NOW = Instant(0)  # a playback does not look at the clock
FILE, NEXT = "state", "state.next"
LATE_NS_MAX = 100 * MILLISECOND  # for a handoff which comes twice: long enough that others have taken over


class Image(msgspec.Struct):
    """What the file holds."""

    checkpoint: bytes = Checkpoint().encode()
    applied: list[str] = msgspec.field(default_factory=list)
    sums: dict[str, int] = msgspec.field(default_factory=dict)


class SimRecoveryLog:
    """A shard's log, its register, and the hints which were stored: the newest, and a backup."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.truth = Truth()
        self.author = 0
        self.hints = [Hints(name).encode()]
        self._data = bytearray()
        self._holes: list[Extent] = []

    def append(self, data: bytes) -> Offset:
        self._data += data
        return Offset(len(self._data))

    def read(self, offset: int, size: int) -> tuple[Offset, bytes]:
        """Return bytes from an offset on, or from the end of the hole in which it lies, up to the next one."""
        for hole in sorted(self._holes):
            if hole.begin <= offset < hole.end:
                offset = hole.end
        stop = min([hole.begin for hole in self._holes if hole.begin >= offset], default=len(self._data))
        return Offset(offset), bytes(self._data[offset : min(offset + size, stop)])

    def keep(self, hints: Hints, planned: Callable[..., PruningPlan]) -> None:
        """Store hints; what neither they nor the backup need is pruned."""
        self.hints = [hints.encode(), self.hints[0]]
        rng, size = self.world.rng, len(self._data)
        cuts = sorted({0, size, *(rng.randrange(size) for _ in range(5))})
        fragments = [Extent(Offset(begin), Offset(end)) for begin, end in pairwise(cuts)]
        pruned = planned(self.name, fragments, [Hints.decode(each) for each in self.hints]).gone
        if pruned:
            reached("exactly_once.log_pruned")
        self._holes += pruned


class LogSession:
    """One process's files, and its way to the log."""

    def __init__(
        self,
        world: World,
        log: SimRecoveryLog,
        delay: Callable[[], int],
        is_alive: Callable[[], bool],
        failed: Callable[[str], None],
        *,
        is_fenced: bool,
        is_handoff_checked: bool = True,
        playback: type[Playback],
        planned: Callable[..., PruningPlan] = plan,
    ) -> None:
        self.open = Staged()
        self._world = world
        self._log = log
        self._delay = delay
        self._is_alive = is_alive
        self._failed = failed
        self._is_fenced = is_fenced
        self._is_handoff_checked = is_handoff_checked
        self._planned = planned
        self._hints = world.rng.choice(log.hints)
        self._playback = playback(Hints.decode(self._hints))
        self._author = world.rng.getrandbits(32)
        self._files: dict[int, bytearray] = {}
        self._recorder: Recorder | None = None
        self._image = Image()
        self._sealed: tuple[Staged, bytes] | None = None

    # Restoring

    def restore(self, then: Callable[[Checkpoint], None]) -> None:
        effects = self._playback.start() + self._playback.step(Promote(self._author), NOW)
        self._run(effects, then)

    def _run(self, effects: Sequence[Effect], then: Callable[[Checkpoint], None]) -> None:
        for effect in effects:
            self._perform(effect, then)
        self._playback.check()

    def _perform(self, effect: Effect, then: Callable[[Checkpoint], None]) -> None:
        match effect:
            case ReadRecoveryLog(offset):
                self._world.after(self._delay(), lambda: self._read(offset, then))
            case CreateFile(fnode):
                self._files[fnode] = bytearray()
            case WriteFile(fnode, at, content):
                self._files[fnode][at : at + len(content)] = content
            case RemoveFile(fnode):
                del self._files[fnode]
            case AppendHandoff(author, frame):
                self._world.after(self._delay(), lambda: self._begin_handoff(author, frame))
            case LinkFiles(paths):
                self._open_file(paths)
                then(Checkpoint.decode(self._image.checkpoint))
            case Stop(reason):
                reached("exactly_once.hints_too_old")  # others have stored newer ones, and pruned, while it played back
                assert self._hints not in self._log.hints, f"hints which are kept cannot be played back: {reason}"
                self._failed(reason)
            case _:
                raise AssertionError(f"unknown effect {effect}")

    def _read(self, offset: Offset, then: Callable[[Checkpoint], None]) -> None:
        if not self._is_alive():
            return
        at, data = self._log.read(offset, self._world.rng.choice((100, 1_000, 10_000)))
        self._run(self._playback.step(LogChunk(at, data) if data else AtHead(at), NOW), then)

    def _begin_handoff(self, author: int, frame: bytes) -> None:
        """Read the log's author: the handoff takes the log over from that author only. It may come twice."""
        if not self._is_alive() or self._recorder is not None:
            return
        seen, world = self._log.author, self._world
        world.after(self._delay(), lambda: self._hand_off(author, frame, seen))
        if world.rng.random() < 0.5:
            late = self._delay() + world.rng.randrange(LATE_NS_MAX)
            world.after(late, lambda: self._hand_off(author, frame, seen))

    def _hand_off(self, author: int, frame: bytes, seen: int) -> None:
        """At the broker, whether or not the sender is still alive."""
        if self._log.author == seen or not self._is_handoff_checked:
            self._log.author = author
            self._log.append(frame)
        elif self._log.author != author:
            reached("exactly_once.handoff_refused")
            self._begin_handoff(author, frame)

    def _open_file(self, paths: dict[str, int]) -> None:
        self._recorder = self._playback.recorder
        if FILE in paths:
            self._image = msgspec.msgpack.decode(bytes(self._files[paths[FILE]]), type=Image)
        truth = self._log.truth
        if self._log.author == self._author:
            assert self._image.checkpoint == truth.checkpoint, "the playback gave another checkpoint than the last"
            assert set(self._image.applied) == set(truth.applied), "the playback gave other contents"
            assert self._image.sums == truth.sums, "the playback gave other sums"

    # Committing

    def seal(self, checkpoint: Checkpoint) -> None:
        assert self._sealed is None, "the transaction before is not committed"
        self._sealed = (self.open, checkpoint.encode())
        self.open = Staged()

    def commit(self, then: Callable[[bool], None]) -> None:
        assert self._sealed is not None, "nothing is sealed"
        assert self._recorder is not None, "not restored"
        staged, checkpoint = self._sealed
        image = self._image
        image.checkpoint = checkpoint
        image.applied += staged.applied
        for key, amount in staged.sums.items():
            image.sums[key] = image.sums.get(key, 0) + amount
        content = msgspec.msgpack.encode(image)
        recorder = self._recorder
        frames = recorder.create(NEXT) + recorder.write(NEXT, 0, content) + recorder.rename(NEXT, FILE)
        self._world.after(self._delay(), lambda: self._arrive(frames, then))

    def _arrive(self, frames: bytes, then: Callable[[bool], None]) -> None:
        """At the broker. Each append checks the register."""
        assert self._recorder is not None
        assert self._sealed is not None
        if self._is_fenced and self._log.author != self._author:
            self._world.after(self._delay(), lambda: then(False))
            return
        end = self._log.append(frames)
        if self._world.rng.random() < 0.2:
            end = self._log.append(frames)  # twice: an answer was lost
        self._log.truth.commit(*self._sealed)
        self._sealed = None
        if self._is_alive():
            self._world.after(self._delay(), lambda: self._acknowledged(end, then))

    def _acknowledged(self, end: Offset, then: Callable[[bool], None]) -> None:
        if not self._is_alive():
            return
        assert self._recorder is not None
        self._recorder.acknowledged(self._recorder.recorded_upto, end)
        self._recorder.check()
        if self._world.rng.random() < 0.3 and self._log.author == self._author:
            self._log.keep(self._recorder.hints(), self._planned)
        then(True)
