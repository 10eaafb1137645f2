"""Penstock: a replicated, transactional log that fills a versioned data lake, exactly once.

import penstock

with penstock.connect() as stock:
    with stock.journal("shop/orders").publisher() as publish:
        publish({"sku": "kettle", "quantity": 2})
    shop = stock.lake("shop")
    shop.branch("main")["prices.csv"] = b"kettle,39.90"
"""

from penstock.kernel.version import VERSION

TYPE_CHECKING = False  # as typing's, which costs more to load than the rest of this module
if TYPE_CHECKING:
    from penstock.consumers.library import Application, CommittedMessage, Publish
    from penstock.server.connect import connect, open

__all__ = ["Application", "CommittedMessage", "Publish", "__version__", "connect", "open"]

__version__ = VERSION
_PLACES = {
    "Application": "penstock.consumers.library",
    "CommittedMessage": "penstock.consumers.library",
    "Publish": "penstock.consumers.library",
    "connect": "penstock.server.connect",
    "open": "penstock.server.connect",
}


def __getattr__(name: str) -> object:
    """Load a name when it is first used."""
    if name in _PLACES:
        from importlib import import_module

        return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")
