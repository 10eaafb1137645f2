"""For every test: whatever one of them configures of the log ends with it, and no property has to be fast."""

from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings

# A busy machine is no failure: examples have no deadline, and may be slow to draw.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    """A level set by one test, or at import, would hide from the next what it wants to see logged."""
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
