"""Mutants of the Spool's disk: each breaks a rule, so that acknowledged bytes are lost again, and a drill sees it."""

import asyncio
import shutil
from pathlib import Path

import pytest
from tests.journals.broker import test_damaged_spool, test_full_disk

from penstock.journals.broker import feed
from penstock.journals.broker.spools.room import Room
from penstock.journals.broker.spools.spool_files import Save, SpoolFiles
from penstock.journals.core.spool import SpoolState
from penstock.kernel.errors import PenstockError

SEEN = (AssertionError, PenstockError, TimeoutError, pytest.fail.Exception)


async def test_answers_that_the_clean_up_sends_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "_unacknowledged", lambda response, _: response)
    with pytest.raises(SEEN):
        await test_full_disk.test_an_answer_leaves_after_the_write(tmp_path, monkeypatch)


async def test_a_state_saved_after_a_failed_write_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = SpoolFiles.prepare_save

    def save_anyway(files: SpoolFiles, state: SpoolState) -> Save:
        files.failure = None
        return prepare(files, state)

    monkeypatch.setattr(SpoolFiles, "prepare_save", save_anyway)
    monkeypatch.setattr(test_full_disk, "WAIT_S", 3.0)
    with pytest.raises(SEEN):
        await test_full_disk.test_a_write_which_fails_is_never_acknowledged(tmp_path, monkeypatch)


async def test_content_taken_before_room_is_reserved_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Room, "reserve", lambda *_: None)
    with pytest.raises(SEEN):
        await test_full_disk.test_a_full_disk_refuses_appends_and_loses_nothing(tmp_path, 1, True)


async def test_a_failed_recovery_that_removes_files_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def remove(files: SpoolFiles, _: str) -> None:
        shutil.rmtree(files.folder)

    monkeypatch.setattr(SpoolFiles, "_set_apart", remove)
    monkeypatch.setattr(test_damaged_spool, "WAIT_S", 3.0)
    with pytest.raises(SEEN):
        async with asyncio.timeout(6):  # it waits for fragments that are gone
            await test_damaged_spool.test_a_flipped_bit_leaves_the_finished_fragments(tmp_path, "content")
