"""Penstock: a replicated, transactional log that fills a versioned data lake, exactly once.

import penstock

with penstock.connect() as stock:
    with stock.journal("shop/orders").publisher() as publish:
        publish({"sku": "kettle", "quantity": 2})
    shop = stock.lake("shop")
    shop.branch("main")["prices.csv"] = b"kettle,39.90"

`penstock.aio` has the same names for asyncio, `penstock.errors` every error, `penstock.spi` the interfaces that you can
implement, `penstock.spark` sources, sinks and pipelines. All other modules are internal, and change without notice.
"""

from penstock.kernel.version import VERSION

TYPE_CHECKING = False  # as typing's, which costs more to load than the rest of this module
if TYPE_CHECKING:
    from penstock import aio as aio
    from penstock import errors as errors
    from penstock import spark as spark
    from penstock import spi as spi
    from penstock.consumers.client.definition import ShardDefinition
    from penstock.consumers.library import Application, Publish
    from penstock.journals.client.journal_outcomes import Appended
    from penstock.journals.client.messages import Message
    from penstock.journals.client.named_blocking import Journal
    from penstock.journals.client.publishers import JournalPublisher as Publisher
    from penstock.journals.records.spec import FragmentSpec, JournalSpec
    from penstock.kernel.errors import (
        Indeterminate,
        InvalidArgument,
        NotFound,
        PenstockError,
        PreconditionFailed,
        Refused,
        Unavailable,
    )
    from penstock.lake.client.lake_blocking import Branch, Lake, Repository
    from penstock.lake.records.service import Commit
    from penstock.quorum.client.blocking import BlockingQuorumLog as QuorumLog
    from penstock.server.connect import Stock, connect, open
    from penstock.spark import Pipeline

__all__ = [
    "Appended",
    "Application",
    "Branch",
    "Commit",
    "FragmentSpec",
    "Indeterminate",
    "InvalidArgument",
    "Journal",
    "JournalSpec",
    "Lake",
    "Message",
    "NotFound",
    "PenstockError",
    "Pipeline",
    "PreconditionFailed",
    "Publish",
    "Publisher",
    "QuorumLog",
    "Refused",
    "Repository",
    "ShardDefinition",
    "Stock",
    "Unavailable",
    "aio",
    "connect",
    "open",
]

__version__ = VERSION
_MODULES = ("aio", "errors", "spark", "spi")
_ERRORS = "penstock.kernel.errors"
_PLACES = {
    "Application": ("penstock.consumers.library", "Application"),
    "Appended": ("penstock.journals.client.journal_outcomes", "Appended"),
    "Branch": ("penstock.lake.client.lake_blocking", "Branch"),
    "Commit": ("penstock.lake.records.service", "Commit"),
    "FragmentSpec": ("penstock.journals.records.spec", "FragmentSpec"),
    "Indeterminate": (_ERRORS, "Indeterminate"),
    "InvalidArgument": (_ERRORS, "InvalidArgument"),
    "Journal": ("penstock.journals.client.named_blocking", "Journal"),
    "JournalSpec": ("penstock.journals.records.spec", "JournalSpec"),
    "Lake": ("penstock.lake.client.lake_blocking", "Lake"),
    "Message": ("penstock.journals.client.messages", "Message"),
    "NotFound": (_ERRORS, "NotFound"),
    "PenstockError": (_ERRORS, "PenstockError"),
    "Pipeline": ("penstock.spark", "Pipeline"),
    "PreconditionFailed": (_ERRORS, "PreconditionFailed"),
    "Publish": ("penstock.consumers.library", "Publish"),
    "Publisher": ("penstock.journals.client.publishers", "JournalPublisher"),
    "QuorumLog": ("penstock.quorum.client.blocking", "BlockingQuorumLog"),
    "Refused": (_ERRORS, "Refused"),
    "Repository": ("penstock.lake.client.lake_blocking", "Repository"),
    "ShardDefinition": ("penstock.consumers.client.definition", "ShardDefinition"),
    "Stock": ("penstock.server.connect", "Stock"),
    "Unavailable": (_ERRORS, "Unavailable"),
    "connect": ("penstock.server.connect", "connect"),
    "open": ("penstock.server.connect", "open"),
}


def __getattr__(name: str) -> object:
    """Load a name when it is first used."""
    from importlib import import_module

    if name in _PLACES:
        module, attribute = _PLACES[name]
        return getattr(import_module(module), attribute)
    if name in _MODULES:
        return import_module(f"penstock.{name}")
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
