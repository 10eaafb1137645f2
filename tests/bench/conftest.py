from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.bench.pond import benchmarks_in


@pytest.fixture
def pond(tmp_path: Path) -> Iterator[Path]:
    with benchmarks_in(tmp_path / "benches") as folder:
        yield folder
