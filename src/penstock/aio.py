"""Penstock for asyncio: the same names as `penstock` has, with `await`."""

from penstock.server.connect import AsyncStock
from penstock.server.connect import connect_async as connect

__all__ = ["AsyncStock", "connect"]
