"""Penstock for asyncio: the same names as `penstock` has, with `await`."""

from penstock.client.connect import AsyncStock
from penstock.client.connect import connect_async as connect

__all__ = ["AsyncStock", "connect"]
