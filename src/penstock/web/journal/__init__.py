"""The journal gateway: append and read over plain HTTP, for programs without a client of ours."""

from penstock.web.journal.gateway import JournalGateway
from penstock.web.journal.port import JournalAccess
from penstock.web.journal.serving import serving_journals

__all__ = ["JournalAccess", "JournalGateway", "serving_journals"]
