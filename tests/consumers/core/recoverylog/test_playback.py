"""Recovery logs end to end: the files come back as recorded, by however many authors."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.consumers.core.recoverylog.logs import Fenced, Log, Room, recorder_of

from penstock.consumers.core.recoverylog.hints import FnodeHints, Hints, LogPoint
from penstock.consumers.core.recoverylog.playback import Playback, PlayState
from penstock.consumers.core.recoverylog.pruning import Extent, plan
from penstock.consumers.core.recoverylog.recorder import Recorder
from penstock.kernel.ids import Offset

PATHS = ["a", "b", "c"]


class World:
    """A log, its present recorder, the files as they must be, and all hints ever made."""

    def __init__(self) -> None:
        self.log = Log()
        self.authors = 0
        self.zombies: list[Recorder] = []
        self.hints = [Hints("log")]
        self.files: dict[str, bytearray] = {}
        self.links: dict[str, bytearray] = self.files
        self.recorder = self.take_over(self.hints[0])

    def take_over(self, hints: Hints, chunk: int = 64) -> Recorder:
        self.authors += 1
        self.recorder, files = recorder_of(self.log, self.authors, hints, chunk)
        assert files == {path: bytes(content) for path, content in self.files.items()}
        return self.recorder

    def append(self, frames: bytes, *, is_doubled: bool = False) -> None:
        upto = self.recorder.recorded_upto
        end = self.log.append(frames, self.recorder.author)
        if is_doubled:
            end = self.log.append(frames, self.recorder.author)
        self.recorder.acknowledged(upto, end)
        self.recorder.check()

    def act(self, data: st.DataObject) -> None:
        path, other = data.draw(st.sampled_from(PATHS)), data.draw(st.sampled_from(PATHS))
        what = data.draw(st.sampled_from(["create", "write", "write", "write", "rename", "unlink", "link"]))
        frames = b""
        if what == "create" or path not in self.files:
            frames = self.recorder.create(path)
            self.files[path] = bytearray()
        elif what == "write":
            offset, content = data.draw(st.integers(0, 9)), data.draw(st.binary(max_size=9))
            frames = self.recorder.write(path, offset, content)
            file = self.files[path]
            file.extend(bytes(max(0, offset - len(file))))
            file[offset : offset + len(content)] = content
        elif what == "rename" and self.files.get(other) is not self.files[path]:
            frames = self.recorder.rename(path, other)
            self.files[other] = self.files.pop(path)
        elif what == "unlink":
            frames = self.recorder.unlink(path)
            del self.files[path]
        elif what == "link" and other not in self.files:
            frames = self.recorder.link(path, other)
            self.files[other] = self.files[path]
        self.append(frames, is_doubled=data.draw(st.booleans()))

    def zombie_acts(self, data: st.DataObject) -> None:
        """Refused by the register. (And where it is not, as if there were none, passed over by the FSM.)"""
        zombie = data.draw(st.sampled_from(self.zombies))
        frames = zombie.create(data.draw(st.sampled_from(PATHS)))
        with pytest.raises(Fenced):
            self.log.append(frames, zombie.author)
        end = self.log.append(frames, zombie.author, is_checked=False)
        zombie.acknowledged(zombie.recorded_upto, end)


@settings(max_examples=40)
@given(st.data())
def test_what_was_recorded_comes_back_from_any_hints_whoever_else_wrote(data: st.DataObject) -> None:
    world = World()
    for _ in range(data.draw(st.integers(0, 25))):
        what = data.draw(st.sampled_from(["act", "act", "act", "hint", "take over", "zombie", "prune"]))
        if what == "act":
            world.act(data)
        elif what == "hint":
            world.hints.append(Hints.decode(world.recorder.hints().encode()))
        elif what == "take over":
            world.zombies.append(world.recorder)
            world.take_over(data.draw(st.sampled_from(world.hints)), data.draw(st.integers(10, 300)))
        elif what == "zombie" and world.zombies:
            world.zombie_acts(data)
        elif what == "prune":
            # Some hints are given up; what the others need stays.
            world.hints = data.draw(st.lists(st.sampled_from(world.hints), min_size=1)) or world.hints
            cuts = sorted(
                data.draw(st.sets(st.integers(0, len(world.log.data)), max_size=6)) | {0, len(world.log.data)}
            )
            extents = [Extent(Offset(begin), Offset(end)) for begin, end in pairwise(cuts)]
            gone = plan("log", extents, world.hints).gone
            world.log.holes += [(extent.begin, extent.end) for extent in gone]
    for hints in world.hints:
        world.take_over(hints)


def recorded() -> tuple[Log, Recorder]:
    log = Log()
    recorder, _ = recorder_of(log, 1)
    frames = [recorder.create("a"), recorder.write("a", 0, b"one"), recorder.create("b"), recorder.unlink("b")]
    recorder.acknowledged(recorder.recorded_upto, log.append(b"".join(frames), 1))
    return log, recorder


def test_a_standby_tails_and_takes_over_by_its_handoff_alone() -> None:
    log, _ = recorded()
    standby = Room(log, Playback(Hints("log"))).run(None)
    assert standby.playback.state is PlayState.TAIL
    assert standby.files is None
    assert {bytes(content) for content in standby.fnodes.values()} == {b"one"}


def test_a_handoff_which_comes_too_late_is_tried_again() -> None:
    log, recorder = recorded()
    rivals = [recorder.write("a", 3, b" two"), recorder.write("a", 7, b" three")]
    room = Room(log, Playback(Hints("log"))).run(2, rivals=rivals)
    assert room.files == {"a": b"one two three"}
    assert log.author == 2
    with pytest.raises(Fenced):
        log.append(recorder.write("a", 0, b"x"), recorder.author)


def test_what_the_hints_name_and_the_log_lost_is_an_error() -> None:
    log, recorder = recorded()
    hints = recorder.hints()
    log.holes.append((0, 40))
    assert "possible data loss" in (Room(log, Playback(hints)).run(2).stopped or "")
    short = Log(log.data[:20])
    assert "possible data loss" in (Room(short, Playback(hints)).run(2).stopped or "")


def test_garbage_in_the_log_stops_the_playback() -> None:
    log, _ = recorded()
    log.data += b"garbage which is no operation"
    assert "no recorded operation begins" in (Room(log, Playback(Hints("log"))).run(2).stopped or "")


def test_hints_skip_what_is_dead() -> None:
    log, recorder = recorded()
    before = len(log.data)
    for number in range(50):
        upto = recorder.create("tmp") + recorder.write("tmp", 0, bytes(100)) + recorder.unlink("tmp")
        recorder.acknowledged(recorder.recorded_upto, log.append(upto, 1))
        assert number >= 0
    hints = recorder.hints()
    assert [segment.last_offset <= before for segment in hints.segments()] == [True]
    log.holes.append((before, len(log.data)))
    log.author = 1
    _, files = recorder_of(log, 2, hints)
    assert files == {"a": b"one"}


def test_a_file_which_was_never_made_cannot_be_hinted_alive() -> None:
    hints = Hints("log", (FnodeHints(7, ()),), LogPoint(1, 0, Offset(0)))
    room = Room(Log(), Playback(hints)).run(1)
    assert room.files == {}
