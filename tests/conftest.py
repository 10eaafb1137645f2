"""For every test: whatever one of them configures of the log ends with it."""

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    """A level set by one test, or at import, would hide from the next what it wants to see logged."""
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
