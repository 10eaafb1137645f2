"""Channels by address: one per address, shared by all parts of a process."""

import asyncio
from collections.abc import Callable

from penstock.plumbing.wire.client import Channel

__all__ = ["Channels"]


class Channels:
    """One channel per address, shared by all shards of this process."""

    def __init__(self, make: Callable[[str], Channel]) -> None:
        self._make = make
        self._channels: dict[str, Channel] = {}

    def get(self, address: str) -> Channel:
        if address not in self._channels:
            self._channels[address] = self._make(address)
        return self._channels[address]

    async def close(self) -> None:
        channels, self._channels = list(self._channels.values()), {}
        await asyncio.gather(*(channel.close() for channel in channels))
