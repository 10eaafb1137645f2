"""Penstock for asyncio: the same names as `penstock` has, with `await`.

import penstock

async with penstock.aio.connect() as stock:
    async with stock.journal("shop/orders").publisher() as publish:
        await publish({"sku": "kettle", "quantity": 2})
    async for message in stock.journal("shop/orders").read():
        print(message.value)
"""

import penstock as _blocking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from penstock.consumers.client.definition import ShardDefinition
    from penstock.consumers.library import Application, Publish
    from penstock.journals.client.journal_outcomes import Appended
    from penstock.journals.client.messages import Message
    from penstock.journals.client.named_journal import AsyncJournal as Journal
    from penstock.journals.client.publishers import AsyncJournalPublisher as Publisher
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
    from penstock.lake.client.lake_repository import AsyncBranch as Branch
    from penstock.lake.client.lake_repository import AsyncLake as Lake
    from penstock.lake.client.lake_repository import AsyncRepository as Repository
    from penstock.lake.records.service import Commit
    from penstock.quorum.client.quorum import QuorumLog
    from penstock.server.connect import AsyncStock as Stock
    from penstock.server.connect import connect_async as connect
    from penstock.server.connect import open_async as open
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
    "connect",
    "open",
]

_PLACES = {  # the names that are not those of `penstock`
    "Branch": ("penstock.lake.client.lake_repository", "AsyncBranch"),
    "Journal": ("penstock.journals.client.named_journal", "AsyncJournal"),
    "Lake": ("penstock.lake.client.lake_repository", "AsyncLake"),
    "Publisher": ("penstock.journals.client.publishers", "AsyncJournalPublisher"),
    "QuorumLog": ("penstock.quorum.client.quorum", "QuorumLog"),
    "Repository": ("penstock.lake.client.lake_repository", "AsyncRepository"),
    "Stock": ("penstock.server.connect", "AsyncStock"),
    "connect": ("penstock.server.connect", "connect_async"),
    "open": ("penstock.server.connect", "open_async"),
}


def __getattr__(name: str) -> object:
    """Load a name when it is first used."""
    if name in _PLACES:
        from importlib import import_module

        module, attribute = _PLACES[name]
        return getattr(import_module(module), attribute)
    if name in __all__:
        return getattr(_blocking, name)
    raise AttributeError(f"module 'penstock.aio' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
