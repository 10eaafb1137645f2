"""Appends to a recovery log: one author at a time, with late and repeated ones."""

from pathlib import Path
from typing import Any

import pytest
from tests.consumers.stores.recoverylog.site import LOG, running_site
from tests.journals.broker.cluster import read_all

from penstock.consumers.core.recoverylog.recorder import AUTHOR_REGISTER
from penstock.consumers.stores.recoverylog.log_writer import LogWriter
from penstock.journals.client.journal import Appended, Journals
from penstock.kernel.errors import Fenced, Indeterminate, PreconditionFailed, Written


class Remembering(Journals):
    """A client that remembers its appends, so that they can come again; or loses answers."""

    def __init__(self, addresses: list[str]) -> None:
        super().__init__(addresses)
        self.calls: list[tuple[Any, dict[str, Any]]] = []
        self.answers_lost = 0

    async def __aenter__(self) -> "Remembering":
        return self

    async def append(self, journal: str, content: Any, **settings: Any) -> Appended:
        done = await super().append(journal, content, **settings)
        if content:
            self.calls.append((content, settings))
            if self.answers_lost:
                self.answers_lost -= 1
                raise Indeterminate("the answer was lost")
        return done


async def author_of(journals: Journals) -> str | None:
    return (await journals.append(LOG, b"")).registers.labels.value_of(AUTHOR_REGISTER)


async def test_a_handoff_which_comes_late_and_twice_does_not_take_the_log_back(tmp_path: Path) -> None:
    async with running_site(tmp_path) as site, Remembering(site.cluster.addresses) as journals:
        old, new = LogWriter(journals, LOG, 1), LogWriter(site.journals, LOG, 2)
        await old.hand_off(b"[old]")
        await old.append([b"(by old)"])
        await new.hand_off(b"[new]")
        for content, settings in journals.calls:
            with pytest.raises(PreconditionFailed):
                await site.journals.append(LOG, content, **settings)
        assert await author_of(site.journals) == "00000002"
        with pytest.raises(Fenced) as fenced:
            await old.append([b"(by a zombie)"])
        assert fenced.value.written is Written.NO
        await new.append([b"(by new)"])
        assert await read_all(site.journals, LOG) == b"[old](by old)[new](by new)"


async def test_answers_which_are_lost_are_asked_for_again(tmp_path: Path) -> None:
    async with running_site(tmp_path) as site, Remembering(site.cluster.addresses) as journals:
        writer = LogWriter(journals, LOG, 1)
        journals.answers_lost = 1
        await writer.hand_off(b"[handoff]")
        assert await read_all(site.journals, LOG) == b"[handoff]"
        journals.answers_lost = 1
        end = await writer.append([b"(one)", b"(two)"])
        assert await read_all(site.journals, LOG) == b"[handoff](one)(two)(one)(two)"
        assert end == (await site.journals.stat(LOG)).write_head


async def test_an_append_whose_answer_was_lost_before_it_was_fenced_may_have_been_written(tmp_path: Path) -> None:
    async with running_site(tmp_path) as site, Remembering(site.cluster.addresses) as journals:
        old, new = LogWriter(journals, LOG, 1), LogWriter(site.journals, LOG, 2)
        await old.hand_off(b"[old]")

        class Replaced(Remembering):
            async def append(self, journal: str, content: Any, **settings: Any) -> Appended:
                done = await Journals.append(self, journal, content, **settings)
                if content == b"(by old)":
                    await new.hand_off(b"[new]")
                    raise Indeterminate("the answer was lost")
                return done

        async with Replaced(site.cluster.addresses) as unlucky:
            old._journals = unlucky
            with pytest.raises(Fenced) as fenced:
                await old.append([b"(by old)"])
            assert fenced.value.written is Written.UNKNOWN


async def test_large_appends_are_one_piece(tmp_path: Path) -> None:
    async with running_site(tmp_path) as site:
        writer = LogWriter(site.journals, LOG, 1)
        await writer.hand_off(b"[handoff]")
        pieces = [bytes([number]) * 100_000 for number in range(20)]
        await writer.append(pieces)
        assert await read_all(site.journals, LOG) == b"[handoff]" + b"".join(pieces)
