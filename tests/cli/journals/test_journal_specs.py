"""Specs as people write them: three formats, clear refusals."""

from pathlib import Path

import msgspec
import pytest

from penstock.cli.journals.journal_specs import changes_in, spec_text
from penstock.journals.records.fragment import CompressionCodec
from penstock.journals.records.labels import Label, LabelSet
from penstock.journals.records.protocol import Change
from penstock.journals.records.spec import FragmentSpec, JournalSpec
from penstock.kernel.errors import InvalidArgument

YAML = b"""
journals:
  - name: shop/orders
    replication: 2
    labels: {region: eu, tag: [a, b]}
    fragment: {length: 2048, compression_codec: zstandard}
  - {name: shop/old, delete: true, revision: 7}
"""
ORDERS = JournalSpec(
    name="shop/orders",
    replication=2,
    labels=LabelSet.of([Label("region", "eu"), Label("tag", "a"), Label("tag", "b")]),
    fragment=FragmentSpec(length=2048, compression_codec=CompressionCodec.ZSTANDARD),
)


def test_a_file_of_changes_is_read() -> None:
    assert changes_in(Path("x.yaml"), YAML) == [
        Change(upsert=ORDERS),
        Change(delete="shop/old", expect_mod_revision=7),
    ]


def test_json_and_toml_say_the_same() -> None:
    one = Change(upsert=JournalSpec(name="shop/orders", fsync=True), expect_mod_revision=0)
    assert changes_in(Path("x.json"), b'{"name": "shop/orders", "fsync": true, "revision": 0}') == [one]
    assert changes_in(Path("x.toml"), b'name = "shop/orders"\nfsync = true\nrevision = 0\n') == [one]


def test_what_is_shown_can_be_applied_again() -> None:
    shown = spec_text(ORDERS, 12)
    [change] = changes_in(Path("x.json"), msgspec.json.encode(shown))
    assert change == Change(upsert=ORDERS, expect_mod_revision=12)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"journals: 3", "expected `journals:`"),
        (b"journals: []", "expected `journals:`"),
        (b"name: shop/orders\nreplicas: 3", "unknown field 'replicas'"),
        (b"name: shop/orders\nreplication: many", "Expected `int`"),
        (b"name: shop/orders\nreplication: 9", "expected 1 to 5"),
        (b"name: shop/orders\nlabels: [a]", "expected a mapping"),
        (b"name: shop/orders\nrevision: -5", "revision"),
        (b"replication: 3", "without a name"),
        (b"{", "x.yaml"),
    ],
)
def test_a_bad_file_is_refused_with_the_place(text: bytes, reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        changes_in(Path("x.yaml"), text)
