import msgspec
import pytest

from penstock.plumbing.config import Config, known_keys


@pytest.mark.parametrize("name", known_keys())
def test_every_key_is_documented_and_its_default_allowed(name: str) -> None:
    declared = known_keys()[name]
    assert declared.doc.endswith("."), "a key's documentation is a sentence"
    assert declared.default is None or declared.read(declared.write(declared.default)) == declared.default


@pytest.mark.parametrize("field", msgspec.structs.fields(Config), ids=lambda field: str(field.name))
def test_every_section_is_documented(field: msgspec.structs.FieldInfo) -> None:
    assert (field.type.__doc__ or "").strip().endswith(".")


def test_variables_are_distinct() -> None:
    variables = [declared.variable for declared in known_keys().values()]
    assert len(set(variables)) == len(variables)


def test_what_holds_a_secret_is_declared_as_one() -> None:
    telling = ("token", "secret", "password", "access_key", "account_key", "service_account_key")
    for name, declared in known_keys().items():
        assert declared.kind.secret == any(word in name for word in telling), name
