"""For every test: whatever one of them configures of the log ends with it, and no property has to be fast.

And for all of them together: tests that need Spark are run by one worker, since a JVM is dear.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

# A busy machine is no failure: examples have no deadline, and may be slow to draw. `make test` draws the same ones each
# time, so that what fails was changed; `make fuzz` draws others, many of them.
_patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("steady", _patient, derandomize=True)
settings.register_profile("curious", _patient, max_examples=int(os.environ.get("EXAMPLES", "500")))
settings.load_profile(os.environ.get("HYPOTHESIS", "steady"))


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    """A level set by one test, or at import, would hide the logs of the next."""
    structlog.reset_defaults()
    structlog.configure()  # as it is, but ours: else the first logged line would choose the level
    yield
    structlog.reset_defaults()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadgroup` would do, but xdist 3.8 writes its groups where pytest 9.2 no longer looks for them."""
    from xdist.scheduler import LoadScopeScheduling

    class OneSpark(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return "spark" if nodeid.startswith("tests/spark/") else nodeid

    return OneSpark(config, log)
