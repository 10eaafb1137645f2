"""SQLite through the recording VFS: whatever is done in SQL, the log leads to the same files at every barrier."""

import tempfile
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.consumers.core.recoverylog.logs import Log, Room, recorder_of

from penstock.consumers.core.recoverylog.hints import Hints
from penstock.consumers.core.recoverylog.playback import Playback
from penstock.consumers.stores.recoverylog import recording as module
from penstock.consumers.stores.recoverylog.recording import COPY_SUFFIX, Recording
from penstock.consumers.stores.recoverylog.recording_vfs import RecordingVfs
from penstock.consumers.stores.sqlite_store import _PRAGMAS
from penstock.kernel.errors import InvalidArgument

AUTHOR = 7
DATABASE = "state.db"
statements = st.one_of(
    st.builds("INSERT INTO t VALUES ({}, hex(zeroblob({})))".format, st.integers(0, 50), st.integers(0, 6_000)),
    st.builds("DELETE FROM t WHERE a > {}".format, st.integers(0, 60)),
    st.builds("UPDATE t SET b = a || b WHERE a < {}".format, st.integers(0, 60)),
    st.just("DELETE FROM t"),
)
transactions = st.one_of(
    st.tuples(st.just("COMMIT"), st.lists(statements, max_size=6)),
    st.tuples(st.just("ROLLBACK"), st.lists(statements, max_size=6)),
    st.tuples(st.just("VACUUM"), st.just(list[str]())),
)


class Database:
    """A database in a folder, and the log of its files."""

    def __init__(self, folder: Path, name: str, pragmas: tuple[str, ...]) -> None:
        self.log = Log()
        recorder, _ = recorder_of(self.log, AUTHOR)
        self.recording = Recording(folder, recorder)
        self.hints = Hints("log")
        self.vfs = RecordingVfs(name, self.recording)
        self.connection = apsw.Connection(str(folder.resolve() / DATABASE), vfs=name)
        for statement in (*pragmas, "CREATE TABLE t (a INTEGER, b TEXT)", "CREATE INDEX i ON t (b)"):
            self.connection.execute(statement).fetchall()

    def run(self, end: str, work: list[str]) -> None:
        if end == "VACUUM":
            self.connection.execute("VACUUM")
            return
        self.connection.execute("BEGIN")
        for statement in work:
            self.connection.execute(statement)
        self.connection.execute(end)

    def barrier(self) -> None:
        self.recording.rewrite(DATABASE)
        barrier = self.recording.barrier()
        hints = self.recording.acknowledged(barrier, self.log.append(b"".join(barrier.frames), AUTHOR))
        assert hints is not None
        self.hints = hints

    def check(self) -> None:
        on_disk = {path.name: path.read_bytes() for path in self.recording.folder.iterdir()}
        for hints in (Hints("log"), self.hints):
            room = Room(self.log, Playback(hints), chunk=10_000).run(None)
            assert room.stopped is None, room.stopped
            paths = room.playback.fsm.paths
            built = {path: bytes(room.fnodes[fnode]) for path, fnode in paths.items() if not path.endswith(COPY_SUFFIX)}
            assert built == on_disk

    def close(self) -> None:
        self.connection.close(force=True)
        self.vfs.unregister()


@pytest.mark.parametrize("pragmas", [_PRAGMAS, ("PRAGMA journal_mode = DELETE", "PRAGMA cache_size = 3")])
@settings(max_examples=25)
@given(work=st.lists(transactions, max_size=8))
def test_the_log_leads_to_the_same_files_at_every_barrier(
    pragmas: tuple[str, ...], work: list[tuple[str, list[str]]]
) -> None:
    """With SQLite as the store sets it up; and with a journal in a file, and pages written before the end."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "REWRITE_LOG_BYTES_MIN", 0)
        patch.setattr(module, "REWRITE_STEP_BYTES", 10_000)
        database = Database(Path(folder), f"test-{id(work)}", pragmas)
        try:
            for end, done in work:
                database.run(end, done)
                database.barrier()
                database.check()
        finally:
            database.close()


def test_temporary_files_are_not_recorded(tmp_path: Path) -> None:
    database = Database(tmp_path, "test-temporary", ("PRAGMA temp_store = FILE",))
    try:
        database.barrier()
        database.connection.execute("CREATE TEMP TABLE other AS SELECT hex(zeroblob(100000)) AS b")
        assert database.recording.barrier().frames == ()
    finally:
        database.close()


def test_a_file_elsewhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    database = Database(tmp_path / "in", "test-elsewhere", _PRAGMAS)
    try:
        with pytest.raises(InvalidArgument, match="would not be recorded"):
            database.connection.execute("ATTACH ? AS other", (str(tmp_path / "elsewhere.db"),)).fetchall()
    finally:
        database.close()
