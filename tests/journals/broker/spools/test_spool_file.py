import hashlib
import os
import random
import resource
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.journals.broker.spools import spool_file
from penstock.journals.broker.spools.spool_file import SpoolFile
from penstock.journals.records.fragment import EMPTY_SUM
from penstock.kernel.errors import DataDamaged, StorageError
from penstock.kernel.ids import Offset
from penstock.plumbing.files.sums import BLOCK_BYTES
from penstock.plumbing.ports.ports import system_ports

DISK = system_ports().disk


def sha1(content: bytes) -> bytes:
    return hashlib.sha1(content, usedforsecurity=False).digest() if content else EMPTY_SUM


@pytest.fixture
def file(tmp_path: Path) -> Iterator[SpoolFile]:
    file = SpoolFile(DISK, tmp_path / "folder" / "content", Offset(1_000))
    yield file
    file.release()


def test_without_content_there_is_no_file(file: SpoolFile) -> None:
    assert not file.path.exists()
    assert (file.sum, file.size, file.end, file.fd) == (EMPTY_SUM, 0, 1_000, None)
    file.unlink()


def test_what_is_written_is_read_and_summed(file: SpoolFile) -> None:
    file.write(b"hello ")
    file.write(memoryview(b"wide").cast("H"), bytearray(b" world"))
    assert file.read(0, 16) == b"hello wide world"
    assert file.read(6, 4) == b"wide"
    assert file.sum == sha1(b"hello wide world")
    assert file.end == 1_016


def test_more_buffers_than_one_call_takes(file: SpoolFile) -> None:
    file.write(*[bytes([number % 256]) for number in range(3_000)])
    assert file.read(0, 3_000) == bytes(number % 256 for number in range(3_000))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=40), st.booleans(), st.integers(0, 100)), max_size=30), st.booleans())
def test_cuts_restore_the_sum_whether_it_was_asked_for_or_not(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[bytes, bool, int]], frees: bool
) -> None:
    file = SpoolFile(DISK, tmp_path_factory.mktemp("spool") / "content", Offset(0))
    content = b""
    for chunk, is_asked, cut in history:
        file.write(chunk)
        content += chunk
        if is_asked:
            assert file.sum == sha1(content)
        if cut < len(content):
            content = content[:cut]
            file.cut(cut, sha1(content), frees=frees)
    assert file.sum == sha1(content)
    assert (file.read(0, len(content)) if content else b"") == content
    file.release()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=40), st.integers(0, 800)), max_size=60), st.integers(1, 100))
def test_a_cut_reads_no_more_than_is_behind_the_last_copy_of_the_sum(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[bytes, int]], step: int
) -> None:
    content = b""
    longest = 0
    reads: list[int] = []

    def counted(fd: int, size: int, at: int) -> bytes:
        reads.append(size)
        return pread(fd, size, at)

    pread = os.pread
    with (
        patch.object(spool_file, "SUM_STEP_BYTES", step),
        patch.object(spool_file, "SUMS_MAX", 8),
        patch.object(os, "pread", counted),
    ):
        file = SpoolFile(DISK, tmp_path_factory.mktemp("spool") / "content", Offset(0))
        for chunk, cut in history:
            file.add(memoryview(chunk))
            content += chunk
            longest = max(longest, len(content))
            assert file.sum == sha1(content)
            if cut < len(content):
                content = content[:cut]
                reads.clear()
                file.cut(cut, sha1(content))
                gap = max(step + 40, longest // 2)  # a copy is made by the chunk which completes a step
                assert sum(reads) < gap
                assert (file.size, file.sum) == (cut, sha1(content))


def test_a_cut_to_what_is_not_there_any_more_is_noticed(file: SpoolFile) -> None:
    file.write(b"content")
    os.pwrite(file.fd or -1, b"X", 0)
    with pytest.raises(StorageError, match="damaged"):
        file.cut(3, sha1(b"con"))


def test_what_is_cut_without_freeing_stays_on_the_disk(file: SpoolFile) -> None:
    file.write(b"acknowledged")
    file.cut(3, sha1(b"ack"), frees=False)
    assert file.path.read_bytes() == b"acknowledged"
    file.write(b"X")
    assert file.path.read_bytes() == b"ackXowledged"
    assert file.sum == sha1(b"ackX")


def test_recovery_takes_what_has_the_right_sum_and_nothing_else(file: SpoolFile) -> None:
    file.write(b"one two")
    assert SpoolFile.recover(DISK, file.path, Offset(0), 3, sha1(b"two")) is None
    assert SpoolFile.recover(DISK, file.path, Offset(0), 8, sha1(b"one two ")) is None
    assert SpoolFile.recover(DISK, file.path.with_name("other"), Offset(0), 3, sha1(b"one")) is None
    recovered = SpoolFile.recover(DISK, file.path, Offset(0), 3, sha1(b"one"))
    assert recovered is not None
    recovered.write(b"!")
    assert recovered.sum == sha1(b"one!")
    assert recovered.read(0, 4) == b"one!"
    recovered.release()


def test_holders_read_on_when_the_name_is_gone(file: SpoolFile) -> None:
    file.write(b"content")
    held = file.hold()
    held.unlink()
    file.release()
    assert held.read(0, 7) == b"content"
    assert not held.path.exists()
    held.hold()  # for the fixture


def test_a_file_that_was_cut_short_by_others_is_a_storage_error(file: SpoolFile) -> None:
    file.write(b"content")
    os.truncate(file.path, 3)
    with pytest.raises(StorageError, match="cut short"):
        file.read(0, 7)


def test_a_write_which_fails_half_way_adds_nothing(file: SpoolFile) -> None:
    file.write(b"12345")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8, hard))
        with pytest.raises(StorageError):
            file.write(b"abc", b"defgh")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (file.size, file.sum) == (5, sha1(b"12345"))
    file.write(b"67")
    assert file.read(0, 7) == b"1234567"
    assert file.sum == sha1(b"1234567")


def test_what_is_added_is_summed_at_once_and_written_out_together(file: SpoolFile) -> None:
    file.add(b"12")
    file.add(memoryview(b"345"))
    assert (file.size, file.sum, file.fd) == (5, sha1(b"12345"), None)
    file.write_out()
    assert file.read(0, 5) == b"12345"
    file.add(b"67")
    file.cut(3, sha1(b"123"))  # content that was only added goes like everything else
    assert (file.size, file.read(0, 3), file.path.stat().st_size) == (3, b"123", 3)


def test_syncing_says_whether_there_was_anything_to_do(file: SpoolFile) -> None:
    assert not file.sync()
    file.write(b"x")
    assert file.sync()
    assert not file.sync()


@pytest.mark.parametrize("is_recovered", [False, True])
def test_readers_get_no_block_that_changed_on_the_disk(tmp_path: Path, *, is_recovered: bool) -> None:
    content = random.Random(3).randbytes(3 * BLOCK_BYTES + 100)
    file = SpoolFile(DISK, tmp_path / "content", Offset(1_000))
    file.write(content[:70_000], content[70_000:-50])
    file.cut(len(content) - 60, sha1(content[:-60]))
    file.write(content[-60:])
    if is_recovered:
        found = SpoolFile.recover(DISK, file.path, file.begin, len(content), sha1(content))
        assert found is not None
        file = found
    for at, size in ((0, len(content)), (5, 10), (BLOCK_BYTES - 1, 2), (len(content) - 1, 1)):
        assert bytes(file.read_checked(at, size)) == content[at : at + size]
    for place in (2 * BLOCK_BYTES + 9, len(content) - 70):
        with file.path.open("r+b") as written:
            written.seek(place)
            written.write(bytes([content[place] ^ 1]))
        begin = place - place % BLOCK_BYTES
        with pytest.raises(DataDamaged) as caught:
            file.read_checked(begin + 1, 10)
        assert caught.value.details["begin"] == 1_000 + begin
    assert bytes(file.read_checked(0, 2 * BLOCK_BYTES)) == content[: 2 * BLOCK_BYTES]
