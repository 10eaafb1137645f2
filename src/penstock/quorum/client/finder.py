"""Where the leader of a shard is: asked of all its nodes, and asked again as soon as the leader is silent.

Design: operating.md O15. A node that is frozen, or cut off, holds up neither the first search nor a later one: the
others are asked 100 ms apart, or all at once. What always holds:

- A client never moves to a leader of a lower epoch than the one that it used: such a node was replaced, and does not
  know it.
- A leader that failed is not named again by others until it says itself that it leads, or a higher epoch begins.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from penstock.kernel.errors import NotFound, PenstockError
from penstock.quorum.records.api import LeaderFound

__all__ = ["SILENT_S", "LeaderFinder"]

APART_S: Final = 0.1  # between the first questions to two nodes
SILENT_S: Final = 0.5  # a leader that says nothing for so long may be over: the other nodes are asked
RETRY_S: Final = (0.01, 0.1)  # between two rounds of questions
FORGET_S: Final = 5.0  # a search that long may have been for the leader of a shard that was made again

Ask = Callable[[str], Awaitable[LeaderFound]]


class LeaderFinder:
    """Finds the leader of one shard. All calls come from one event loop."""

    def __init__(self, addresses: Sequence[str], ask: Ask) -> None:
        self._addresses = list(addresses)
        self._ask = ask
        self.leader = addresses[0]  # the last one known, or whom to ask first
        self.is_known = False  # nothing has been said against it
        self.epoch = 0  # the highest of a leader that was used
        self.last: PenstockError | None = None  # what a node said the last time that one could not answer
        self._failed: dict[str, int] = {}  # leaders that could not be used, and the epoch they were known in

    @property
    def addresses(self) -> list[str]:
        return list(self._addresses)

    def used(self, epoch: int) -> None:
        """The leader has answered, in this epoch."""
        self.epoch = max(self.epoch, epoch)
        self.is_known = True
        self._failed.pop(self.leader, None)

    def failed(self, address: str) -> None:
        """This leader cannot be used now."""
        self._failed[address] = self.epoch
        if address == self.leader:
            self.is_known = False

    def hint(self, address: str) -> None:
        """A node has said who leads."""
        if address and address not in self._failed:
            self.leader, self.is_known = address, True

    async def find(self) -> str:
        """Return the address of the leader, as soon as a node knows it. Raises if no node has the shard."""
        loop = asyncio.get_running_loop()
        forgets_at = loop.time() + FORGET_S
        pause = RETRY_S[0]
        while not self.is_known:
            if await self._search(self._ordered(), APART_S, self.epoch) is None:
                await asyncio.sleep(pause)
                pause = min(2 * pause, RETRY_S[1])
            if loop.time() >= forgets_at:
                self.epoch = 0
        return self.leader

    async def find_newer(self) -> str | None:
        """Ask all other nodes at once for a leader of a higher epoch than the one in use."""
        others = [address for address in self._ordered() if address != self.leader]
        return await self._search(others, 0.0, self.epoch + 1)

    def _ordered(self) -> list[str]:
        return list(dict.fromkeys([self.leader, *self._addresses]))

    async def _search(self, addresses: list[str], apart_s: float, epoch_min: int) -> str | None:
        """Ask nodes, some time apart. The first that leads ends it; whom another one names is asked next."""
        asked: dict[asyncio.Future[LeaderFound], str] = {}
        waiting, seen = list(addresses), {self.leader} - {*addresses}
        strangers: list[NotFound] = []
        try:
            while waiting or asked:
                if waiting:
                    address = waiting.pop(0)
                    seen.add(address)
                    asked[asyncio.ensure_future(self._ask(address))] = address
                timeout_s = apart_s if waiting else None
                done, _ = await asyncio.wait(asked, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    found = self._answer_of(task, strangers)
                    if found is not None and found.epoch >= epoch_min:
                        if found.leads:
                            self._take(asked[task], found.epoch)
                            return self.leader
                        if self._is_worth_asking(found, seen):
                            waiting = [found.leader, *(each for each in waiting if each != found.leader)]
                    del asked[task]
        finally:
            for task in asked:
                task.cancel()
        if len(strangers) == len(addresses) > 0:
            raise strangers[0]
        return None

    def _answer_of(self, task: "asyncio.Future[LeaderFound]", strangers: list[NotFound]) -> LeaderFound | None:
        try:
            return task.result()
        except NotFound as error:
            strangers.append(error)
        except PenstockError as error:
            self.last = error
        return None

    def _is_worth_asking(self, found: LeaderFound, seen: set[str]) -> bool:
        """Is the leader that a node names one that was not asked, and has not failed in that epoch?"""
        named = found.leader
        return bool(named) and named not in seen and self._failed.get(named, -1) < found.epoch

    def _take(self, address: str, epoch: int) -> None:
        self.leader, self.is_known, self.epoch = address, True, max(self.epoch, epoch)
        self._failed.pop(address, None)
