"""The journal gateway: append and read over plain HTTP, for programs without a Penstock client."""

from penstock.journals.gateway.gateway import JournalGateway
from penstock.journals.gateway.port import JournalAccess
from penstock.journals.gateway.serving import serving_journals

__all__ = ["JournalAccess", "JournalGateway", "serving_journals"]
