"""Sessions are tested through commands."""

from tests.cli.conftest import penstock

__all__ = ["penstock"]
