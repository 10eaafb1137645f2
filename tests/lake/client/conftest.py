"""One lake's server for all tests of its clients; each makes repositories of its own."""

from collections.abc import Iterator

import pytest
from tests.lake.rest.servers import LakeProcess


@pytest.fixture(scope="session")
def lake_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeProcess]:
    with LakeProcess(tmp_path_factory.mktemp("lake")) as process:
        yield process
