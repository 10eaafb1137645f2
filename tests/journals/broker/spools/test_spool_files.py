"""Files follow the core's effects; after a crash a kept Spool has everything in its last state, or is empty."""

import hashlib
import shutil
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.journals.broker.spools.spool_files import Keeps, SpoolFiles, kept_journals
from penstock.journals.core.spool import SpoolState
from penstock.journals.records.epoch import NO_EPOCH
from penstock.journals.records.fragment import EMPTY_SUM, CompressionCodec, Fragment
from penstock.journals.records.point import Point
from penstock.kernel.errors import InternalError
from penstock.kernel.ids import Incarnation, Offset, Revision
from penstock.plumbing.ports.ports import Ports, SystemClocks, system_ports

JOURNAL = "shop/orders"


def sha1(content: bytes) -> bytes:
    return hashlib.sha1(content, usedforsecurity=False).digest() if content else EMPTY_SUM


def point_of(begin: int, content: bytes) -> Point:
    return Point(Offset(begin), Offset(begin + len(content)), sha1(content))


def fragment_of(begin: int, content: bytes, postfix: str = "") -> Fragment:
    return Fragment(
        JOURNAL,
        Offset(begin),
        Offset(begin + len(content)),
        sha1(content),
        CompressionCodec.ZSTANDARD,
        path_postfix=postfix,
    )


def state_of(*points: Point) -> SpoolState:
    return SpoolState(Incarnation("i"), Revision(1), NO_EPOCH, NO_EPOCH, Offset(0), points)


def opened(root: Path, keeps: Keeps = Keeps.NOTHING) -> SpoolFiles:
    files, recovered = SpoolFiles.open(system_ports(), root, JOURNAL, keeps)
    assert recovered is None
    return files


def save(files: SpoolFiles, *points: Point) -> None:
    work = files.prepare_save(state_of(*points))
    work.run()
    work.end()


def content_at(files: SpoolFiles, offset: int) -> bytes:
    file = files.at(Offset(offset))
    assert file is not None
    return file.read(offset - file.begin, file.end - offset)


def test_content_is_written_rolled_and_cut(tmp_path: Path) -> None:
    files = opened(tmp_path)
    files.write(b"first")
    assert (files.sum, files.end) == (sha1(b"first"), 5)
    files.roll(point_of(5, b""))
    files.write(b"second")
    assert files.sum == sha1(b"second")
    assert (content_at(files, 2), content_at(files, 5)) == (b"rst", b"second")
    files.cut(point_of(5, b"sec"))
    assert files.end == 8
    files.cut(point_of(0, b"fir"))
    assert (files.end, files.sum) == (3, sha1(b"fir"))
    assert files.at(Offset(3)) is None
    files.close()


def test_an_idle_spool_has_no_files(tmp_path: Path) -> None:
    files = opened(tmp_path)
    files.roll(point_of(7, b""))
    files.roll(point_of(9, b""))
    files.close()
    assert list(tmp_path.rglob("*")) == []


def test_a_final_fragment_stays_until_it_is_stored_and_for_who_holds_it(tmp_path: Path) -> None:
    files = opened(tmp_path)
    files.write(b"first")
    files.roll(point_of(5, b""))
    files.write(b"second")
    fragment = fragment_of(0, b"first")
    file = files.finish(fragment)
    assert files.fragments() == [fragment]
    assert content_at(files, 0) == b"first"
    files.forget(msgspec.structs.replace(fragment, backing_store="file:///x/", mod_time=7))
    assert files.fragments() == []
    assert files.at(Offset(0)) is None
    assert file.read(0, 5) == b"first"
    file.release()
    assert content_at(files, 5) == b"second"
    files.close()


def test_the_current_fragment_may_become_final_and_what_is_older_and_unwanted_goes(tmp_path: Path) -> None:
    files = opened(tmp_path)
    files.write(b"dropped")
    files.roll(point_of(20, b""))
    files.write(b"kept")
    files.finish(fragment_of(20, b"kept")).release()
    assert files.end == 24
    assert files.at(Offset(0)) is None
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1
    files.close()


def test_what_is_not_here_is_an_internal_error(tmp_path: Path) -> None:
    files = opened(tmp_path)
    files.write(b"abc")
    with pytest.raises(InternalError):
        files.cut(point_of(0, b"abcd"))
    with pytest.raises(InternalError):
        files.cut(point_of(1, b"bc"))
    with pytest.raises(InternalError):
        files.finish(fragment_of(0, b"abcd"))
    with pytest.raises(InternalError):
        files.set_aside(fragment_of(0, b"abcd"), Offset(2))
    files.close()


def test_what_is_set_aside_outlives_everything(tmp_path: Path) -> None:
    files = opened(tmp_path)
    files.write(b"marked, not marked")
    path = files.set_aside(fragment_of(0, b"marked, not marked"), Offset(6))
    files.drop()
    files.close()
    assert path.read_bytes() == b", not marked"


def test_dropped_is_dropped(tmp_path: Path) -> None:
    files = opened(tmp_path, Keeps.ALWAYS)
    files.write(b"one")
    files.roll(point_of(3, b""))
    files.finish(fragment_of(0, b"one")).release()
    files.write(b"two")
    save(files, point_of(3, b"two"))
    files.drop()
    assert (files.end, files.fragments()) == (0, [])
    files.write(b"new life")
    assert content_at(files, 0) == b"new life"
    files.drop()
    files.close()
    assert kept_journals(system_ports().disk, tmp_path) == []
    assert opened(tmp_path, Keeps.ALWAYS).end == 0


# After a crash: the files are opened again without having been closed


@pytest.mark.parametrize("keeps", [Keeps.UNTIL_REBOOT, Keeps.ALWAYS])
def test_a_kept_spool_comes_back_with_what_was_saved(tmp_path: Path, keeps: Keeps) -> None:
    files = opened(tmp_path, keeps)
    files.write(b"first")
    files.roll(point_of(5, b""))
    files.write(b"second")
    save(files, point_of(0, b"first"), point_of(5, b""), point_of(5, b"second"))
    files.write(b", not saved")
    assert kept_journals(system_ports().disk, tmp_path) == [JOURNAL]
    again, recovered = SpoolFiles.open(system_ports(), tmp_path, JOURNAL, keeps)
    assert recovered is not None
    assert recovered.state == state_of(point_of(0, b"first"), point_of(5, b""), point_of(5, b"second"))
    assert (content_at(again, 0), content_at(again, 5)) == (b"first", b"second")
    again.write(b" life")
    assert again.sum == sha1(b"second life")
    again.cut(point_of(0, b"first"))
    assert again.end == 5


class BootedClocks(SystemClocks):
    def __init__(self, id_: bytes) -> None:
        self._id = id_

    def boot(self) -> bytes:
        return self._id


def booted(id_: bytes) -> Ports:
    return msgspec.structs.replace(system_ports(), clock=BootedClocks(id_))


def test_a_reboot_ends_what_was_not_synced(tmp_path: Path) -> None:
    files, _ = SpoolFiles.open(booted(b"monday"), tmp_path, JOURNAL, Keeps.UNTIL_REBOOT)
    files.write(b"content")
    save(files, point_of(0, b"content"))
    again, recovered = SpoolFiles.open(booted(b"tuesday"), tmp_path, JOURNAL, Keeps.UNTIL_REBOOT)
    assert recovered is None
    assert again.end == 0
    assert kept_journals(system_ports().disk, tmp_path) == []


def test_a_spool_that_is_not_kept_starts_anew(tmp_path: Path) -> None:
    files = opened(tmp_path)
    files.write(b"content")
    assert opened(tmp_path).end == 0
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_content_that_cannot_be_read_back_is_another_incarnation(tmp_path: Path) -> None:
    files = opened(tmp_path, Keeps.ALWAYS)
    files.write(b"content")
    save(files, point_of(0, b"content"))
    (path,) = tmp_path.rglob("open-*")
    path.write_bytes(b"contend")
    again, recovered = SpoolFiles.open(system_ports(), tmp_path, JOURNAL, Keeps.ALWAYS)
    assert recovered is None
    assert again.end == 0


def test_final_fragments_come_back_and_have_their_postfix(tmp_path: Path) -> None:
    files = opened(tmp_path, Keeps.ALWAYS)
    files.write(b"first")
    files.roll(point_of(5, b""))
    fragment = fragment_of(0, b"first", "date=2026-11-15/hour=12")
    files.finish(fragment)
    save(files, point_of(5, b""))
    again, recovered = SpoolFiles.open(system_ports(), tmp_path, JOURNAL, Keeps.ALWAYS)
    assert recovered is not None
    assert recovered.final == (fragment,)
    file = again.hold(fragment)
    assert file is not None
    assert file.read(0, 5) == b"first"


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_state_older_than_the_last_roll_still_finds_its_content(tmp_path: Path, is_stored: bool) -> None:
    files = opened(tmp_path, Keeps.ALWAYS)
    files.write(b"first")
    save(files, point_of(0, b"first"))
    files.roll(point_of(5, b""))
    files.finish(fragment_of(0, b"first"))
    if is_stored:
        files.forget(fragment_of(0, b"first"))
    again, recovered = SpoolFiles.open(system_ports(), tmp_path, JOURNAL, Keeps.ALWAYS)
    assert recovered is not None
    assert recovered.state.points == (point_of(0, b"first"),)
    assert content_at(again, 0) == b"first"


def test_a_trim_that_was_not_saved_has_not_happened(tmp_path: Path) -> None:
    files = opened(tmp_path, Keeps.ALWAYS)
    files.write(b"one")
    files.roll(point_of(3, b""))
    files.write(b"two")
    save(files, point_of(0, b"one"), point_of(3, b"two"))
    files.cut(point_of(0, b"o"))
    _, recovered = SpoolFiles.open(system_ports(), tmp_path, JOURNAL, Keeps.ALWAYS)
    assert recovered is not None
    assert recovered.state.points == (point_of(0, b"one"), point_of(3, b"two"))


def test_what_the_state_no_longer_speaks_of_is_removed(tmp_path: Path) -> None:
    files = opened(tmp_path, Keeps.ALWAYS)
    files.write(b"one")
    files.roll(point_of(3, b""))
    files.write(b"two")
    save(files, point_of(0, b"one"), point_of(3, b"two"))
    files.finish(fragment_of(0, b"one")).release()
    files.forget(fragment_of(0, b"one"))
    assert len(list(tmp_path.rglob("*-*-*"))) == 2
    save(files, point_of(3, b"two"))
    assert len([path for path in tmp_path.rglob("*-*-*") if path.is_file()]) == 1
    files.close()


def test_without_a_state_what_is_stored_goes_at_once(tmp_path: Path) -> None:
    files = opened(tmp_path, Keeps.ALWAYS)  # it may be saved when the process ends, and is not until then
    for number in range(5):
        begin = 3 * number
        files.write(b"abc")
        files.roll(point_of(begin + 3, b""))
        files.finish(fragment_of(begin, b"abc")).release()
        files.forget(fragment_of(begin, b"abc"))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    files.write(b"last")
    save(files, point_of(15, b"last"))
    files.close()
    again, recovered = SpoolFiles.open(system_ports(), tmp_path, JOURNAL, Keeps.ALWAYS)
    assert recovered is not None
    again.cut(point_of(15, b"la"))
    again.forget_state()
    again.write(b"!")
    assert content_at(again, 15) == b"la!"
    assert opened(tmp_path, Keeps.ALWAYS).end == 0, "a crash finds nothing"


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_whenever_it_crashes_the_last_saved_state_is_there(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    random = Random(seed)
    root = tmp_path_factory.mktemp("spool")
    journal = bytearray()  # all content, by offset
    points = [point_of(0, b"")]
    saved: list[Point] | None = None
    files = opened(root, Keeps.UNTIL_REBOOT)
    for _ in range(random.randint(1, 40)):
        match random.randrange(7):
            case 0 | 1:
                chunk = random.randbytes(random.randint(1, 20))
                files.write(chunk)
                journal += chunk
                points.append(point_of(points[-1].begin, bytes(journal[points[-1].begin :])))
                assert files.sum == points[-1].sum
            case 2:
                files.roll(points[-1].rolled())
                points.append(points[-1].rolled())
            case 3:
                save(files, *points)
                saved = list(points)
            case 4:
                points = points[: random.randint(1, len(points))]
                del journal[points[-1].end :]
                files.cut(points[-1])
                save(files, *points)  # the core writes nothing over cut content before it has saved that
                saved = list(points)
            case 5 if points[0].begin != points[-1].begin:
                save(files, *points)  # final content was acknowledged, and so was saved
                saved = list(points)
                _finish_first(files, points, journal, random)
            case _:
                files, recovered = SpoolFiles.open(system_ports(), root, JOURNAL, Keeps.UNTIL_REBOOT)
                assert (recovered is None) == (saved is None)
                points = list(saved) if saved is not None else [point_of(0, b"")]
                del journal[points[-1].end :]
                for point in points:
                    if not point.is_empty:
                        file = files.at(point.begin)
                        assert file is not None
                        assert file.read(0, point.end - point.begin) == journal[point.begin : point.end]
    files.close()
    shutil.rmtree(root)


def _finish_first(files: SpoolFiles, points: list[Point], journal: bytearray, random: Random) -> None:
    begin = points[0].begin
    last = [point for point in points if point.begin == begin][-1]
    while points[0].begin == begin and len(points) > 1:
        points.pop(0)
    if not last.is_empty:
        fragment = fragment_of(begin, bytes(journal[begin : last.end]))
        files.finish(fragment).release()
        if random.random() < 0.5:
            files.forget(fragment)
