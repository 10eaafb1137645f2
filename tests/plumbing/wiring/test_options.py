import importlib
from pathlib import Path

import msgspec
import pytest

from penstock.plumbing.config import Config, Data, ObjectStoreSection, Seconds, Secret, TlsSection, Wire
from penstock.plumbing.wiring.options import key_of, object_store_url, store_options, wal_options, wire_limits, wire_tls

PARTS = [
    ("wire", "penstock.plumbing.wire.limits", "WireLimits"),
    ("tls", "penstock.plumbing.wire.tls", "Tls"),
    ("wal", "penstock.plumbing.wal.options", "WalOptions"),
    ("objectstore", "penstock.plumbing.objects.options", "StoreOptions"),
]


@pytest.mark.parametrize(("section", "module", "name"), PARTS)
def test_every_limit_of_a_part_is_a_key_with_the_same_default(section: str, module: str, name: str) -> None:
    options = getattr(importlib.import_module(module), name)
    ours = getattr(Config(), section)
    for field in msgspec.structs.fields(options):
        if field.name == "credentials":
            continue
        key, per_second = key_of(field.name)
        assert hasattr(ours, key), f"declare {section}.{key} in plumbing/config/sections.py: {name} has {field.name}"
        ours_default = getattr(ours, key)
        scaled = ours_default * per_second if per_second else ours_default
        assert scaled == field.default, f"the default of {section}.{key}"


def test_the_defaults_make_what_the_parts_start_with() -> None:
    assert wire_limits(Config().wire).keepalive_ms == 10_000
    assert wal_options(Config().wal).segment_bytes == 64 << 20
    assert store_options(Config().objectstore).credentials == {}


def test_times_become_whole_milliseconds_and_never_nothing() -> None:
    limits = wire_limits(Wire(keepalive=Seconds(0.0001), idle=Seconds(1.2345)))
    assert (limits.keepalive_ms, limits.idle_ms) == (1, 1234)


def test_tls_is_off_until_it_is_enabled() -> None:
    assert wire_tls(TlsSection()) is None
    enabled = wire_tls(TlsSection(enabled=True, authority=Path("ca.pem")))
    assert enabled is not None
    assert enabled.authority == Path("ca.pem")


def test_only_credentials_that_are_set_are_passed_on() -> None:
    options = store_options(ObjectStoreSection(access_key_id=Secret("me"), secret_access_key=Secret("hunter2")))
    assert options.credentials == {"access_key_id": "me", "secret_access_key": "hunter2"}
    assert "hunter2" not in repr(options)


def test_without_a_url_objects_are_kept_in_the_data_folder(tmp_path: Path) -> None:
    assert object_store_url(Config(data=Data(folder=tmp_path))) == f"file://{tmp_path}/objects"
    assert object_store_url(Config(objectstore=ObjectStoreSection(url="memory://"))) == "memory://"
