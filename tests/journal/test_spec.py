"""JournalSpec: good ones pass and cross the wire, bad ones are refused with the field named."""

import msgspec
import pytest

from penstock.base.errors import InvalidArgument
from penstock.journal.fragment import CompressionCodec
from penstock.journal.labels import Label, LabelSet
from penstock.journal.spec import Flags, FragmentSpec, JournalSpec


def test_a_spec_is_valid_by_default_and_crosses_the_wire() -> None:
    spec = JournalSpec(name="orders/part-000", labels=LabelSet.of(topic="orders"))
    spec.validate()
    for codec in (msgspec.msgpack, msgspec.json):
        assert codec.decode(codec.encode(spec), type=JournalSpec) == spec


def test_flags() -> None:
    assert [(flags.may_read, flags.may_write) for flags in Flags] == [(True, True), (True, False), (False, True)]


@pytest.mark.parametrize(
    "fragment",
    [
        FragmentSpec(stores=("s3://bucket/prefix/", "gs://other/", "file:///data/", "azure://account/container/")),
        FragmentSpec(path_postfix_template="date=%Y-%m-%d/hour=%H", flush_interval_ms=3_600_000),
        FragmentSpec(length=1 << 34, compression_codec=CompressionCodec.ZSTANDARD),
    ],
)
def test_good_fragment_specs(fragment: FragmentSpec) -> None:
    fragment.validate()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "x"}, "journal name"),
        ({"replication": 0}, "replication 0: expected 1 to 5"),
        ({"replication": 6}, "replication 6"),
        ({"max_append_rate": -1}, "max_append_rate"),
        ({"labels": LabelSet((Label("name", "x"),))}, "reserved"),
        ({"labels": LabelSet((Label("prefix", "x"),))}, "reserved"),
        ({"labels": LabelSet((Label("aa", "x", True),))}, "belong to selectors"),
        ({"labels": LabelSet((Label("content-type", "a/b"), Label("content-type", "c/d")))}, "has 2 values"),
        ({"fragment": FragmentSpec(length=1)}, "fragment.length 1"),
        ({"fragment": FragmentSpec(refresh_interval_ms=1)}, "fragment.refresh_interval_ms"),
        ({"fragment": FragmentSpec(flush_interval_ms=59_999)}, "fragment.flush_interval_ms"),
        ({"fragment": FragmentSpec(retention_ms=-1)}, "fragment.retention_ms"),
        ({"fragment": FragmentSpec(stores=("http://x/",))}, "no known scheme"),
        ({"fragment": FragmentSpec(stores=("s3://bucket",))}, "must end in '/'"),
        ({"fragment": FragmentSpec(stores=("s3:///x/",))}, "names no bucket"),
        ({"fragment": FragmentSpec(stores=("file://host/x/",))}, "names a host"),
        ({"fragment": FragmentSpec(stores=("memory:///",) * 9)}, "at most 8"),
        ({"fragment": FragmentSpec(path_postfix_template="%s")}, "%s is not known"),
        ({"fragment": FragmentSpec(path_postfix_template="/%Y")}, "relative path"),
        ({"fragment": FragmentSpec(path_postfix_template="../%Y")}, "relative path"),
        (
            {
                "fragment": FragmentSpec(
                    compression_codec=CompressionCodec.GZIP_OFFLOAD_DECOMPRESSION, stores=("file:///x/",)
                )
            },
            "cannot take off",
        ),
    ],
)
def test_bad_specs_name_the_field(changes: dict[str, object], says: str) -> None:
    spec = msgspec.structs.replace(JournalSpec(name="orders/part-000"), **changes)
    with pytest.raises(InvalidArgument) as refused:
        spec.validate()
    assert says in str(refused.value)
