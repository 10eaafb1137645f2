"""The lab's commands are tested as all others: with the fixtures of tests/cli."""

from tests.cli.conftest import golden, penstock, pond

__all__ = ["golden", "penstock", "pond"]
