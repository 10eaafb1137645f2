"""JournalSpec: good ones pass and cross the wire, bad ones are refused with the field named."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.journals.records.fragment import CompressionCodec
from penstock.journals.records.labels import Label, LabelSet
from penstock.journals.records.spec import Flags, FragmentSpec, JournalSpec
from penstock.journals.storage.fragment_store import object_store_url
from penstock.kernel.errors import InvalidArgument


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
        ({"least": 1}, "least 1: expected 2 to 3 at replication 3"),
        ({"least": 4}, "least 4: expected 2 to 3 at replication 3"),
        ({"least": -1}, "least -1"),
        ({"replication": 2, "least": 1}, "least 1: expected 2 at replication 2"),
        ({"replication": 1, "least": 2}, "least 2: expected 1 at replication 1"),
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
        ({"fragment": FragmentSpec(stores=("s3://[x/",))}, "is no URL"),
        ({"fragment": FragmentSpec(stores=("s3://a\x00b/",))}, "has characters which no URL has"),
        ({"fragment": FragmentSpec(stores=("azure://account/",))}, "names no container"),
        ({"fragment": FragmentSpec(stores=("azure-ad://tenant/",))}, "names no account"),
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


NUMBERS = st.integers(-2, 6) | st.integers(-(1 << 62), 1 << 62)
STORES = st.builds(
    "{}{}".format, st.sampled_from(["s3://", "file://", "azure://", "azure-ad://", "", "gs:"]), st.text()
)
FRAGMENTS = st.builds(
    FragmentSpec,
    length=NUMBERS | st.just(1 << 20),
    compression_codec=st.sampled_from(CompressionCodec),
    stores=st.lists(STORES, max_size=3).map(tuple),
    refresh_interval_ms=NUMBERS | st.just(60_000),
    retention_ms=NUMBERS,
    flush_interval_ms=NUMBERS,
    path_postfix_template=st.text("%YmdHMs/.a =", max_size=8),
)
LABELS = st.lists(st.builds(Label, st.text(max_size=4), st.text(max_size=4), st.booleans()), max_size=3)
SPECS = st.builds(
    JournalSpec,
    name=st.just("shop/orders") | st.text(max_size=8),
    replication=NUMBERS,
    least=st.integers(0, 5),
    labels=LABELS.map(lambda labels: LabelSet(tuple(labels))),
    fragment=FRAGMENTS,
    flags=st.sampled_from(Flags),
    max_append_rate=NUMBERS,
)


@given(SPECS)
def test_whatever_the_spec_it_is_good_or_refused(spec: JournalSpec) -> None:
    try:
        spec.validate()
    except InvalidArgument:
        return
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(spec), type=JournalSpec) == spec


@given(STORES)
def test_a_store_which_is_not_refused_can_be_named_to_the_object_stores(url: str) -> None:
    try:
        FragmentSpec(stores=(url,)).validate()
    except InvalidArgument:
        return
    assert object_store_url(url)
