import contextlib
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.plumbing.config import Address, Bytes, Seconds, Secret
from penstock.plumbing.config.values import kind_of

KINDS: list[Any] = [bool, int, str, Path, Seconds, Bytes, Address, Secret, Literal["a", "b"]]


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("250ms", 0.25),
        ("15s", 15.0),
        ("1.5s", 1.5),
        ("2min", 120.0),
        ("1 h", 3600.0),
        ("0", 0.0),
        (0, 0.0),
        ("7us", 7e-6),
    ],
    ids=repr,
)
def test_a_time_has_a_unit(written: object, seconds: float) -> None:
    assert kind_of(Seconds).read(written) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "written", ["15", 15, 1.5, "s", "-1s", "1 fortnight", "1s2ms", "", None, True, [], "\uff11s"], ids=repr
)
def test_a_time_without_a_unit_or_sense_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="250ms"):
        kind_of(Seconds).read(written)


@pytest.mark.parametrize(
    ("written", "size"),
    [("64MiB", 64 << 20), ("1KB", 1000), (512, 512), ("512", 512), ("1.5KiB", 1536), ("0", 0), ("3 GiB", 3 << 30)],
    ids=repr,
)
def test_a_size_may_have_a_unit(written: object, size: int) -> None:
    assert kind_of(Bytes).read(written) == size


@pytest.mark.parametrize("written", ["64MeB", -1, "-1", "1.5", "0.0001KiB", True, 1.0, "", "mib"], ids=repr)
def test_what_is_no_whole_number_of_bytes_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="bytes"):
        kind_of(Bytes).read(written)


@settings(deadline=None)
@given(st.floats(min_value=1e-6, max_value=1e7, allow_nan=False))
def test_a_time_reads_back_as_it_was_written(seconds: float) -> None:
    kind = kind_of(Seconds)
    assert kind.read(kind.write(seconds)) == seconds


@settings(deadline=None)
@given(st.integers(min_value=0, max_value=1 << 60))
def test_a_size_reads_back_as_it_was_written(size: int) -> None:
    kind = kind_of(Bytes)
    assert kind.read(kind.write(size)) == size


@settings(deadline=None)
@given(
    st.ip_addresses(v=4) | st.ip_addresses(v=6) | st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True),
    st.integers(0, 65535),
)
def test_an_address_reads_back_as_it_was_written(host: object, port: int) -> None:
    address = Address(str(host), port)
    assert Address.read(str(address)) == address


@pytest.mark.parametrize(
    "written",
    [
        "",
        ":",
        "host",
        "host:",
        ":7070",
        "host:x",
        "host:70700",
        "::1:7070",
        "[::1]",
        "a b:1",
        "http://a:1",
        7070,
        "h:²",
    ],
    ids=repr,
)
def test_what_is_no_address_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="host:port"):
        kind_of(Address).read(written)


@pytest.mark.parametrize(
    ("written", "value"), [("true", True), ("Off", False), (True, True), ("1", True), ("no", False)], ids=repr
)
def test_booleans_as_people_write_them(written: object, value: bool) -> None:
    assert kind_of(bool).read(written) is value


@pytest.mark.parametrize(
    ("kind", "written"),
    [(bool, "maybe"), (bool, 1), (int, True), (int, "1.0"), (int, "9" * 30), (str, 3), (Path, 1)],
    ids=repr,
)
def test_other_types_are_not_bent_into_shape(kind: Any, written: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        kind_of(kind).read(written)


def test_one_of_several_words() -> None:
    kind = kind_of(Literal["auto", "json"])
    assert kind.read("JSON") == "json"
    assert kind.choices == ("auto", "json")
    with pytest.raises(ValueError, match="one of auto, json"):
        kind.read("yaml")


def test_an_optional_value_may_be_empty() -> None:
    kind = kind_of(Seconds | None)
    assert kind.optional
    assert kind.read("") is None
    assert kind.write(None) == ""
    assert kind.read("1s") == 1


def test_a_secret_can_come_from_a_file(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    secret = kind_of(Secret).read(f"file:{token}")
    assert secret.reveal() == "s3cret"
    assert kind_of(Secret).write(secret) == "***"


@pytest.mark.parametrize("content", [None, b"\xff\xfe\xfa"], ids=repr)
def test_a_secret_whose_file_cannot_be_read_says_why(tmp_path: Path, content: bytes | None) -> None:
    token = tmp_path / "token"
    if content is not None:
        token.write_bytes(content)
    with pytest.raises(ValueError, match=r"token cannot be read: \w+"):
        kind_of(Secret).read(f"file:{token}")


@settings(deadline=None)
@given(
    st.sampled_from(KINDS),
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers()),
)
def test_whatever_is_written_is_read_or_refused(kind: Any, written: object) -> None:
    with contextlib.suppress(ValueError):  # and nothing else
        kind_of(kind).read(written)
