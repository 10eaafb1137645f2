import pytest
from tests.specs.tlc import Tlc


@pytest.fixture(scope="session")
def tlc() -> Tlc:
    return Tlc.find()
