"""The journal gateway: append and read over plain HTTP, for programs without a client of ours."""

from penstock.web.journal.gateway import JournalGateway
from penstock.web.journal.port import JournalAccess

__all__ = ["JournalAccess", "JournalGateway"]
