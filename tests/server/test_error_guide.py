import re

import pytest

from penstock.cli.main import NOUNS
from penstock.kernel import errors
from penstock.kernel.errors import PenstockError
from penstock.plumbing.config import known_keys
from penstock.server.error_guide import _GUIDE, error_kinds, guide


def test_every_error_has_a_cause_and_a_next_step_and_nothing_else_has() -> None:
    codes = {kind.code for kind in error_kinds()}
    assert codes == set(_GUIDE), "add or remove the code in server/error_guide.py, then: make docs"


def test_every_public_error_is_among_the_kinds() -> None:
    public = [getattr(errors, name) for name in errors.__all__]
    kinds = [one for one in public if isinstance(one, type) and issubclass(one, PenstockError)]
    assert set(kinds) <= set(error_kinds())


@pytest.mark.parametrize("code", _GUIDE)
def test_what_a_next_step_names_is_there(code: str) -> None:
    explained = guide(code)
    assert explained.cause.endswith(".")
    for noun in re.findall(r"penstock ([a-z]+)", explained.next_step):
        assert noun in NOUNS
    for key in re.findall(r"\b((?:wire|wal|tls|data|log|metrics|objectstore)\.[a-z_]+)", explained.next_step):
        assert key in known_keys()
    for variable in re.findall(r"PENSTOCK_[A-Z_]+", explained.next_step):
        assert variable in [declared.variable for declared in known_keys().values()]
