"""Recording: whatever is done to files, a playback of the log builds the same ones, at every barrier."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.consumers.core.recoverylog.logs import Log, Room, recorder_of

from penstock.consumers.core.recoverylog.hints import Hints
from penstock.consumers.core.recoverylog.playback import Playback
from penstock.consumers.stores.recoverylog import recording as module
from penstock.consumers.stores.recoverylog.recorded_folder import RecordedFolder
from penstock.consumers.stores.recoverylog.recording import COPY_SUFFIX, Recording
from penstock.kernel.ids import Offset

AUTHOR = 7
PATHS = ("a", "b", "c/d")
paths = st.sampled_from(PATHS)
steps = st.one_of(
    st.tuples(st.just("create"), paths, st.binary(max_size=20)),
    st.tuples(st.just("write"), paths, st.integers(0, 60), st.binary(min_size=1, max_size=30)),
    st.tuples(st.just("append"), paths, st.binary(min_size=1, max_size=30)),
    st.tuples(st.just("truncate"), paths, st.integers(0, 80)),
    st.tuples(st.just("link"), paths, paths),
    st.tuples(st.just("unlink"), paths),
    st.tuples(st.just("rename"), paths, paths),
    st.tuples(st.just("rewrite"), paths),
    st.tuples(st.just("barrier")),
)


class Recorded:
    """A folder, the log of its changes, and the newest hints."""

    def __init__(self, folder: Path) -> None:
        self.log = Log()
        recorder, files = recorder_of(self.log, AUTHOR)
        assert files == {}
        (folder / "c").mkdir(parents=True)
        self.recording = Recording(folder, recorder)
        self.folder = RecordedFolder(self.recording)
        self.hints = Hints("log")

    def barrier(self) -> None:
        barrier = self.recording.barrier()
        end = self.log.append(b"".join(barrier.frames), AUTHOR)
        hints = self.recording.acknowledged(barrier, end)
        assert hints is not None
        self.hints = hints

    def on_disk(self) -> dict[str, bytes]:
        folder = self.folder.folder
        return {path: (folder / path).read_bytes() for path in PATHS if (folder / path).exists()}

    def check(self) -> None:
        """Check the playback from the log's beginning, and from the hints alone, with everything cut out that they do
        not need.
        """
        for hints in (Hints("log"), self.hints):
            room = Room(self.log, Playback(hints), chunk=50).run(None)
            assert room.stopped is None, room.stopped
            built = {path: bytes(room.fnodes[fnode]) for path, fnode in room.playback.fsm.paths.items()}
            assert {path: data for path, data in built.items() if not path.endswith(COPY_SUFFIX)} == self.on_disk()


def perform(recorded: Recorded, step: tuple[object, ...]) -> None:
    """Do what can be done now; the rest is left out."""
    folder, disk = recorded.folder, recorded.on_disk()
    match step:
        case ("create", str(path), bytes(content)):
            folder.create(path, content)
        case ("write", str(path), int(offset), bytes(content)) if path in disk:
            folder.write(path, offset, content)
        case ("append", str(path), bytes(content)) if path in disk:
            folder.write(path, len(disk[path]), content)
        case ("truncate", str(path), int(size)) if path in disk and _links(folder, path) == 1:
            folder.truncate(path, size)
        case ("link", str(path), str(new_path)) if path in disk and new_path not in disk:
            folder.link(path, new_path)
        case ("unlink", str(path)) if path in disk:
            folder.unlink(path)
        case ("rename", str(path), str(new_path)) if path in disk and not _is_same(folder, path, new_path):
            folder.rename(path, new_path)
        case ("rewrite", str(path)) if path in disk and _links(folder, path) == 1:
            recorded.recording.rewrite(path)
        case ("barrier",):
            recorded.barrier()
            recorded.check()
        case _:
            pass


def _links(folder: RecordedFolder, path: str) -> int:
    return (folder.folder / path).stat().st_nlink


def _is_same(folder: RecordedFolder, path: str, other: str) -> bool:
    return (folder.folder / other).exists() and (folder.folder / path).samefile(folder.folder / other)


@settings(max_examples=150)
@given(st.lists(steps, max_size=40))
def test_what_is_recorded_is_played_back_to_the_same_files(taken: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "REWRITE_LOG_BYTES_MIN", 0)
        patch.setattr(module, "REWRITE_FACTOR", 1)
        patch.setattr(module, "REWRITE_STEP_BYTES", 16)
        patch.setattr(module, "RUN_BYTES_MAX", 24)
        recorded = Recorded(Path(folder))
        for step in [*taken, ("barrier",)]:
            if step[0] == "rewrite" and not _may_rewrite(recorded, str(step[1])):
                continue
            perform(recorded, step)


def _may_rewrite(recorded: Recorded, path: str) -> bool:
    """Only one file at a time may be rewritten."""
    under_way = recorded.recording._rewrite
    return under_way is None or under_way.path == path


def test_writes_which_follow_each_other_are_one_operation(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path)
    recorded.folder.create("a")
    before = recorded.recording.barrier().seq_no
    for at in range(0, 40, 10):
        recorded.folder.write("a", at, b"0123456789")
    recorded.folder.write("a", 5, b"x")
    assert recorded.recording.barrier().seq_no == before + 2


def fill(recorded: Recorded, path: str, commits: int, *, rewrites: bool) -> Callable[[], int]:
    """A file of some pages, changed in place by each commit; what a playback from the hints has to read."""
    recorded.folder.create(path, bytes(8_192))
    for number in range(commits):
        recorded.folder.write(path, number % 16 * 512, number.to_bytes(4, "big") * 128)
        if rewrites:
            recorded.recording.rewrite(path)
        recorded.barrier()
    return lambda: sum(segment.last_offset - segment.first_offset for segment in recorded.hints.segments())


def test_a_file_which_is_rewritten_keeps_only_so_much_of_the_log_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REWRITE_LOG_BYTES_MIN", 0)
    monkeypatch.setattr(module, "REWRITE_STEP_BYTES", 1_024)
    plain, rewritten = Recorded(tmp_path / "plain"), Recorded(tmp_path / "rewritten")
    assert fill(plain, "a", 400, rewrites=False)() > 200_000
    alive = fill(rewritten, "a", 400, rewrites=True)()
    assert alive < 8 * 8_192
    rewritten.check()
    rewritten.log.holes = [(0, min(segment.first_offset for segment in rewritten.hints.segments()))]
    room = Room(rewritten.log, Playback(rewritten.hints)).run(None)
    assert room.stopped is None
    assert bytes(room.fnodes[room.playback.fsm.paths["a"]]) == rewritten.on_disk()["a"]


def test_hints_are_not_given_while_more_is_recorded_than_the_log_has(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path)
    recorded.folder.create("a", b"x")
    barrier = recorded.recording.barrier()
    recorded.folder.write("a", 0, b"y")
    assert recorded.recording.acknowledged(barrier, Offset(100)) is None


in_place = st.one_of(
    st.tuples(st.just("write"), st.just("a"), st.integers(0, 60), st.binary(min_size=1, max_size=30)),
    st.tuples(st.just("rewrite"), st.just("a")),
    st.tuples(st.just("barrier")),
)


@settings(max_examples=60)
@given(st.lists(in_place, max_size=40))
def test_a_file_may_be_changed_while_it_is_rewritten(taken: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "REWRITE_LOG_BYTES_MIN", 0)
        patch.setattr(module, "REWRITE_FACTOR", 0)
        patch.setattr(module, "REWRITE_STEP_BYTES", 16)
        recorded = Recorded(Path(folder))
        for step in [("create", "a", bytes(80)), *taken, *[("rewrite", "a")] * 6, ("barrier",)]:
            perform(recorded, step)
