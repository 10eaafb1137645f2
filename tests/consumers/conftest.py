"""What tests of consumers share: a real PostgreSQL server."""

from tests.postgres import postgres

__all__ = ["postgres"]
