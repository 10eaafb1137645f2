import asyncio

import pytest

from penstock.kernel.errors import NotFound, Unavailable
from penstock.quorum.client import finder as module
from penstock.quorum.client.finder import LeaderFinder
from penstock.quorum.records.api import LeaderFound


class Nodes:
    """Nodes by address: what each answers, or that it is silent."""

    def __init__(self, **answers: LeaderFound | Exception | None) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.finder = LeaderFinder(list(answers), self.ask)

    async def ask(self, address: str) -> LeaderFound:
        self.asked.append(address)
        answer = self.answers[address]
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, LeaderFound)
        return answer


def leads(epoch: int) -> LeaderFound:
    return LeaderFound(epoch, leads=True)


def follows(epoch: int, leader: str) -> LeaderFound:
    return LeaderFound(epoch, leads=False, leader=leader)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "APART_S", 0.01)
    monkeypatch.setattr(module, "RETRY_S", (0.001, 0.001))


async def test_a_silent_node_holds_up_nobody() -> None:
    nodes = Nodes(a=None, b=Unavailable("restarting"), c=leads(3))
    assert await nodes.finder.find() == "c"
    assert nodes.asked == ["a", "b", "c"]
    assert await nodes.finder.find() == "c"
    assert nodes.asked == ["a", "b", "c"], "it is known"


async def test_whom_a_node_names_is_asked_next_and_not_again() -> None:
    nodes = Nodes(a=follows(2, "c"), b=None, c=leads(2))
    assert await nodes.finder.find() == "c"
    assert nodes.asked == ["a", "c"]
    circle = Nodes(a=follows(2, "b"), b=follows(2, "a"))
    circle.finder.leader = "a"
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await circle.finder.find()
    assert circle.asked[:4] == ["a", "b", "a", "b"]


async def test_a_client_leaves_for_a_higher_epoch_only() -> None:
    """A deposed leader that thaws says that it leads still; so does one that was cut off."""
    nodes = Nodes(a=None, b=leads(6), c=follows(7, "a"))
    finder = nodes.finder
    finder.hint("a")
    finder.used(7)
    assert await finder.find_newer() is None
    assert (finder.leader, finder.is_known) == ("a", True), "it stays, and asks again later"
    assert sorted(nodes.asked) == ["b", "c"], "all others at once"
    nodes.answers["b"] = leads(8)
    assert await finder.find_newer() == "b"
    assert finder.leader == "b"


async def test_a_leader_that_failed_must_say_itself_that_it_leads() -> None:
    nodes = Nodes(a=follows(4, "c"), b=follows(4, "c"), c=Unavailable("refused"))
    finder = nodes.finder
    finder.hint("c")
    finder.used(4)
    finder.failed("c")
    nodes.asked.clear()
    search = asyncio.ensure_future(finder.find())
    while len(nodes.asked) < 6:  # noqa: ASYNC110  a count inside the part under test
        await asyncio.sleep(0)
    nodes.answers["a"] = leads(5)
    assert await search == "a"
    assert str(finder.last) == "refused"


async def test_a_shard_that_no_node_has_is_an_error_at_once() -> None:
    nodes = Nodes(a=NotFound("no replica"), b=NotFound("no replica"))
    with pytest.raises(NotFound):
        await nodes.finder.find()


async def test_a_shard_that_was_made_again_is_found_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FORGET_S", 0.02)
    nodes = Nodes(a=leads(1))
    nodes.finder.epoch = 900
    assert await nodes.finder.find() == "a"
