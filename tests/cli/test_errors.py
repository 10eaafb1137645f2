import msgspec
from tests.cli.terminal import Golden, Penstock, transcript

from penstock.server.error_guide import error_kinds


def test_explain_and_list(penstock: Penstock, golden: Golden) -> None:
    golden("errors", transcript(penstock, ["errors explain wal-corrupt", "errors explain deadline-exceeded"]))


def test_every_code_can_be_listed_and_explained(penstock: Penstock) -> None:
    codes = [kind.code for kind in error_kinds()]
    listed = msgspec.json.decode(penstock("errors", "list", "--output", "json").stdout)
    assert [one["code"] for one in listed] == codes
    for one in listed:
        outcome = penstock("errors", "explain", one["code"], "--output", "json")
        assert msgspec.json.decode(outcome.stdout) == one
        assert one["meaning"]


def test_the_list_for_people_has_a_line_per_code(penstock: Penstock) -> None:
    text = penstock("errors", "list").stdout
    assert all(f"\n{kind.code} " in text for kind in error_kinds())
