import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cli.terminal import Golden, Penstock, transcript

from penstock.cli.config import example_file
from penstock.plumbing.config import Config, known_keys, load


def shown(penstock: Penstock, *arguments: str) -> dict[str, dict[str, Any]]:
    outcome = penstock("config", "show", "--output", "json", *arguments)
    assert outcome.status == 0
    return {one["key"]: one for one in msgspec.json.decode(outcome.stdout)}


def test_show_says_where_each_value_comes_from(
    penstock: Penstock, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("penstock.toml").write_text('[wire]\nlisten = "0.0.0.0:7070"\ntoken = "tok-123456"\n')
    monkeypatch.setenv("PENSTOCK_WIRE_KEEPALIVE", "250ms")
    golden(
        "config-show-changed",
        transcript(penstock, ["config show --changed --log-level debug --set wal.segment_bytes=1MiB"]),
    )


def test_json_has_numbers_in_seconds_and_bytes(penstock: Penstock) -> None:
    values = shown(penstock, "--set", "wire.idle=2min")
    assert values["wire.idle"] == {"key": "wire.idle", "value": 120.0, "source": "flag", "where": "--set wire.idle"}
    assert values["wal.segment_bytes"]["value"] == 64 << 20
    assert values["wire.listen"]["value"] == "127.0.0.1:7070"
    assert values["metrics.listen"]["value"] is None
    assert list(values) == list(known_keys())


@pytest.mark.parametrize(
    "arguments", [["show"], ["show", "--output", "json"], ["check"], ["show", "--changed"]], ids=" ".join
)
def test_a_secret_is_never_shown(penstock: Penstock, arguments: list[str]) -> None:
    Path("secret").write_text("tok-123456\n")
    for setting in ("wire.token=tok-123456", "wire.token=file:secret"):
        outcome = penstock("config", *arguments, "--set", setting)
        assert outcome.status == 0
        assert "tok-123456" not in outcome.stdout + outcome.stderr


def test_keys_explains_every_key(penstock: Penstock, golden: Golden) -> None:
    golden("config-keys-tls", penstock("config", "keys", "tls").stdout)
    everything = penstock("config", "keys").stdout
    assert all(f"{name} = " in everything for name in known_keys())
    described = msgspec.json.decode(penstock("config", "keys", "log", "--output", "json").stdout)
    assert described[0] == {
        "key": "log.level",
        "variable": "PENSTOCK_LOG_LEVEL",
        "doc": "The least severe event that is logged.",
        "allowed": "debug | info | warning | error",
        "choices": ["debug", "info", "warning", "error"],
        "default": "info",
        "secret": False,
    }


def test_check_lists_all_that_is_wrong(penstock: Penstock, golden: Golden) -> None:
    Path("bad.toml").write_text('lvel = "info"\n[wire]\nlistn = "a:1"\nkeepalive = 15\n[wal]\nsegment_bytes = "1TiB"\n')
    Path("good.toml").write_text('[log]\nlevel = "debug"\n')
    golden(
        "config-check",
        transcript(
            penstock,
            [
                "config check",
                "config check --config good.toml",
                "config check --config bad.toml",
                "config check --config no.toml",
            ],
        ),
    )


def test_the_example_is_the_default_configuration(penstock: Penstock) -> None:
    outcome = penstock("config", "example")
    assert outcome.stdout == example_file()
    Path("as-printed.toml").write_text(outcome.stdout)
    assert load(file=Path("as-printed.toml")).config == Config()
    lines = [
        line.removeprefix("#") if "=" in line and not line.startswith("# ") else line
        for line in outcome.stdout.splitlines()
    ]
    Path("all-set.toml").write_text("\n".join(lines))
    assert len(tomllib.loads(Path("all-set.toml").read_text())["wire"]) > 5
    assert load(file=Path("all-set.toml")).config == Config()
