"""Penstock: a replicated, transactional log that fills a versioned data lake, exactly once.

import penstock

with penstock.connect() as stock:
    with stock.journal("shop/orders").publisher() as publish:
        publish({"sku": "kettle", "quantity": 2})
    shop = stock.lake("shop")
    shop.branch("main")["prices.csv"] = b"kettle,39.90"
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.client.connect import connect, open
    from penstock.client.consumer import Application, CommittedMessage, Publish

__all__ = ["Application", "CommittedMessage", "Publish", "__version__", "connect", "open"]

__version__ = "0.1.0.dev0"


_PLACES = {
    "Application": "penstock.client.consumer",
    "CommittedMessage": "penstock.client.consumer",
    "Publish": "penstock.client.consumer",
    "connect": "penstock.client.connect",
    "open": "penstock.client.connect",
}


def __getattr__(name: str) -> Any:
    """What only some programs need is loaded when it is asked for."""
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")
