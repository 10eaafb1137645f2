import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.errors import ConfigError
from penstock.plumbing.config import Config, ConfigSource, FlagValue, ValueOrigin, load
from penstock.plumbing.config.sources import FILE_BYTES_MAX


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "my.toml"


def problems(file: Path | None = None, environment: dict[str, str] | None = None, *flags: FlagValue) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(flags, environment, file)
    found = caught.value.details["problems"]
    assert isinstance(found, list)
    assert all(problem in caught.value.describe() for problem in found)
    return found


def test_without_any_source_everything_is_the_default(file: Path) -> None:
    effective = load()
    assert effective.config == Config()
    assert set(effective.origins.values()) == {ValueOrigin(ConfigSource.DEFAULT)}
    assert effective.file is None


def test_flags_over_environment_over_file_over_defaults(file: Path) -> None:
    file.write_text('[wire]\nlisten = "a:1"\nidle = "1s"\nstreams_max = 7\n')
    effective = load(
        [FlagValue("wire.listen", "c:3", "--set wire.listen")],
        {"PENSTOCK_WIRE_LISTEN": "b:2", "PENSTOCK_WIRE_IDLE": "2s", "HOME": "/root"},
        file,
    )
    names = ["wire.listen", "wire.idle", "wire.streams_max", "wire.linger"]
    assert [str(effective.value(name)) for name in names] == ["c:3", "2.0", "7", "1"]
    assert [str(effective.origins[name]) for name in names] == [
        "--set wire.listen",
        "PENSTOCK_WIRE_IDLE",
        f"{file}:4",
        "default",
    ]
    assert effective.file == file


def test_the_file_is_named_by_flag_then_environment_then_habit(file: Path) -> None:
    def level_in(path: Path, level: str) -> Path:
        path.write_text(f'[log]\nlevel = "{level}"\n')
        return path

    level_in(file.parent / "penstock.toml", "error")
    assert load().config.log.level == "error"
    named = {"PENSTOCK_CONFIG": str(level_in(file.parent / "other.toml", "warning"))}
    assert load(environment=named).config.log.level == "warning"
    assert load(environment=named, file=level_in(file, "debug")).config.log.level == "debug"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[wire]\n\nlistn = "a:1"', "my.toml:3: no such key: wire.listn; did you mean wire.listen?"),
        ('[wier]\nlisten = "a:1"', "my.toml:2: no such key: wier.listen; did you mean wire.listen?"),
        ('level = "info"', "my.toml:1: level is outside any section; did you mean log.level?"),
        ("[log.level]\nx = 1", "log.level cannot be {'x': 1}: expected one of debug, info, warning, error"),
        ("wire.token = 3", "my.toml:1: wire.token cannot be the given value: expected text"),
        (
            '[log]\n"level" = "loud"',
            "my.toml:2: log.level cannot be 'loud': expected one of debug, info, warning, error",
        ),
        ("[wire]\nkeepalive = 15", "my.toml:2: wire.keepalive cannot be 15: expected a length of time with its unit"),
        ('[wal]\nsegment_bytes = "1TiB"', "my.toml:2: wal.segment_bytes cannot be '1TiB': expected size, 4KiB to 4GiB"),
        ("[log\n", "my.toml: not TOML: Expected ']'"),
        ("[log]\nlevel = \n", "at line 2"),
        ('[tls]\nenabled = true\nkey = "a.pem"', "my.toml:3: tls.key needs tls.certificate too"),
        ('[tls]\nauthority = "a.pem"', "my.toml:2: tls.authority has no effect without tls.enabled = true"),
        ('[wal]\nrecord_bytes_max = "65MiB"', "wal.record_bytes_max must not be above wal.queue_bytes_max (default)"),
        ('[objectstore]\naccess_key_id = "x"', "come together"),
        ("[zzz]\nqqq = 1", "my.toml:2: no such key: zzz.qqq"),
    ],
)
def test_a_wrong_file_is_refused_with_place_and_remedy(file: Path, text: str, expected: str) -> None:
    file.write_text(text)
    (problem,) = problems(file)
    assert expected in problem


def test_everything_wrong_is_said_at_once(file: Path) -> None:
    file.write_text('[log]\nlevel = "loud"\n[wire]\nlistn = "a:1"\n')
    flag = FlagValue("wal.segment", "3", "--set wal.segment")
    assert len(problems(file, {"PENSTOCK_WIRE_TOKN": "x"}, flag)) == 4


def test_a_value_that_a_stronger_source_replaces_is_checked_as_well(file: Path) -> None:
    file.write_text('[log]\nlevel = "loud"\n')
    assert len(problems(file, {"PENSTOCK_LOG_LEVEL": "info"})) == 1


def test_an_unknown_variable_is_refused_but_what_kubernetes_sets_is_not_ours() -> None:
    assert problems(None, {"PENSTOCK_WIRE_LISTN": "a:1"}) == [
        "PENSTOCK_WIRE_LISTN: no such key; did you mean PENSTOCK_WIRE_LISTEN?"
    ]
    load(
        environment={
            "PENSTOCK_SERVICE_HOST": "10.0.0.1",
            "PENSTOCK_PORT": "tcp://10.0.0.1:7070",
            "PENSTOCK_WIRE_PORT_7070_TCP_ADDR": "10.0.0.1",
            "PENSTOCK_WIRE_SERVICE_PORT_MAIN": "7070",
            "PENSTOCK_DEBUG": "1",
        }
    )


@pytest.mark.parametrize("content", [b"\xff\xfe", b"#" * (FILE_BYTES_MAX + 1), None])
def test_what_is_no_configuration_file_is_refused(file: Path, content: bytes | None) -> None:
    if content is not None:
        file.write_bytes(content)
    (problem,) = problems(file)
    assert problem.startswith(str(file))


def test_a_secret_is_in_no_error(file: Path) -> None:
    file.write_text("[wire]\ntoken = 123456789\n")
    assert "123456789" not in str(problems(file))


@settings(deadline=None)
@given(st.text())
def test_any_text_is_a_configuration_or_a_config_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.mktemp("any") / "any.toml"
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
    with contextlib.suppress(ConfigError):  # and nothing else
        load(file=file)


def test_a_page_for_three_machines_is_read(tmp_path: Path) -> None:
    page = tmp_path / "penstock.toml"
    page.write_text(
        """
[cluster]
name    = "shop"
members = ["m1=10.0.0.1:7070", "m2=10.0.0.2:7070"]
zones   = { m1 = "a", m2 = "b" }
[stores]
default = "s3://penstock-shop/?region=eu-central-1"
"""
    )
    config = load(file=page).config
    assert config.cluster.members == ("m1=10.0.0.1:7070", "m2=10.0.0.2:7070")
    assert dict(config.cluster.zones) == {"m1": "a", "m2": "b"}
    assert dict(config.stores.urls) == {"default": "s3://penstock-shop/?region=eu-central-1"}
    flags = [FlagValue("cluster.zones", "m1=x", "--set"), FlagValue("cluster.members", "m1=a:1,m2=b:2", "--set")]
    config = load(flags, {"PENSTOCK_STORES_URLS": "old=file:///x"}, page).config
    assert (config.cluster.members, config.cluster.zones) == (("m1=a:1", "m2=b:2"), (("m1", "x"),))
    assert config.stores.urls == (("old", "file:///x"),)


@pytest.mark.parametrize("text", ['members = ["a", "a"]', "members = [1]", 'zones = "a"', "zones = { a = 1 }"])
def test_lists_and_tables_of_other_forms_are_refused(tmp_path: Path, text: str) -> None:
    page = tmp_path / "penstock.toml"
    page.write_text(f"[cluster]\n{text}\n")
    with pytest.raises(ConfigError, match="expected a"):
        load(file=page)
