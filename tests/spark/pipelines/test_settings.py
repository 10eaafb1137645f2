"""Settings by flag, file and code, each with its origin; checkpoints as URLs. No Spark runs."""

from pathlib import Path
from typing import Any

import pytest

from penstock.cli.main import run
from penstock.kernel.errors import InvalidArgument
from penstock.plumbing.config import load
from penstock.spark import Pipeline, journal, lake
from penstock.spark.pipelines.running.settings import RunSettings, limited_flow, pairs_of, settle
from penstock.spark.shared.checkpoint import find_state, offset_of, plan_of
from penstock.spark.shared.checkpoint_files import checked_location

FILE = """
[pipeline.shop]
interval = "1min"
packages = ["a:b:1", "c:d:2"]
max_bytes = "4GiB"
conf = { "spark.sql.shuffle.partitions" = 4, "spark.x" = true }

[pipeline.other]
interval = "1h"
"""


def shop(**settings: Any) -> Pipeline:
    pipeline = Pipeline("shop", **settings)
    pipeline.flow(source=journal("shop/orders", schema="id long"), sink=lake("lake://shop@main/orders"), name="orders")(
        lambda raw: raw
    )
    pipeline.flow(source=journal("shop/orders"), sink=journal("shop/copy"), name="copy")(lambda raw: raw)
    return pipeline


def settled(pipeline: Pipeline, folder: Path, text: str = FILE, **flags: Any) -> RunSettings:
    (folder / "penstock.toml").write_text(text)
    effective = load(file=folder / "penstock.toml")
    return settle(pipeline, flags, effective.config.pipeline.settings, "penstock.toml")


def test_a_flag_beats_the_file_and_the_file_beats_the_code(tmp_path: Path) -> None:
    code = shop(interval="5s", checkpoints="s3a://b/c", conf={"spark.x": "no", "spark.y": "1"})
    found = settled(code, tmp_path, interval="30s", conf={"spark.sql.shuffle.partitions": "8"})
    assert {(each.name, each.value, each.origin) for each in found.shown} == {
        ("interval", "30s", "flag"),
        ("conf.spark.sql.shuffle.partitions", "8", "flag"),
        ("conf.spark.x", "true", "penstock.toml"),
        ("conf.spark.y", "1", "code"),
        ("packages", "a:b:1,c:d:2", "penstock.toml"),
        ("max_bytes", "4GiB", "penstock.toml"),
        ("checkpoints", "s3a://b/c", "code"),
    }
    assert (found.interval_s, found.max_bytes, found.checkpoints) == (30.0, 4 << 30, "s3a://b/c")
    assert found.conf["spark.jars.packages"] == "a:b:1,c:d:2"


def test_a_flow_that_writes_a_table_waits_ten_seconds_between_batches() -> None:
    orders, copy = shop().chosen()
    settings = settle(shop(), {})
    assert (settings.interval_of(orders), settings.interval_of(copy)) == (10.0, 0.0)


@pytest.mark.parametrize(
    ("flags", "file", "told"),
    [
        ({"interval": "soon"}, "", r"interval 'soon' \(flag\): expected a time like 500ms"),
        ({"interval": "50ms"}, "", r"interval 50ms \(flag\): shop.orders writes a table"),
        ({"max_bytes": "0"}, "", r"max_bytes \(flag\): '0': expected a size"),
        ({}, '[pipeline.shop]\nmax_bytes = "many"\n', r"max_bytes \(penstock.toml\): 'many'"),
        ({}, "[pipeline.shop]\nintervall = 1\n", r"\[pipeline.shop\]: no such setting: intervall; there are interval"),
        ({"master": "local", "remote": "sc://x"}, "", "master and remote are both set"),
    ],
)
def test_wrong_settings_are_named_with_their_origin(
    flags: dict[str, str], file: str, told: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgument, match=told):
        settled(shop(), tmp_path, file, **flags)


def test_wrong_flags_and_locations_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"--conf spark\.x: expected NAME=VALUE"):
        pairs_of(["spark.x"])
    assert pairs_of(["spark.x=a=b"]) == {"spark.x": "a=b"}
    assert checked_location("hdfs://host/folder") == "hdfs://host/folder"
    assert checked_location("here") == str(Path("here").absolute())
    for wrong, told in {"s3://b/c": "write s3a://", "s3:/x": "write s3a://", "s3a:/b/c": "two slashes"}.items():
        with pytest.raises(InvalidArgument, match=told):
            checked_location(wrong)


def test_max_bytes_is_an_option_of_each_stream() -> None:
    (orders, _) = shop().chosen()
    source = limited_flow(orders, 1000).sources[""]
    assert source.options == {"maxBytesPerTrigger": "1000"}
    assert limited_flow(orders, None) is orders


def test_a_checkpoint_elsewhere_is_not_read_without_a_session(tmp_path: Path) -> None:
    assert find_state("s3a://bucket/folder") is None
    assert plan_of("s3a://bucket/folder", 0).guard == ""
    assert offset_of("s3a://bucket/folder", 3) == {}
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets/0").write_text('v1\n{}\n{"new":{},"to":{"a":7}}')
    assert offset_of(str(tmp_path), 0) == {"new": {}, "to": {"a": 7}}
    assert offset_of(str(tmp_path), -1) == {}


def test_the_plan_shows_each_setting_with_its_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "penstock.toml").write_text(FILE)
    (tmp_path / "shop.py").write_text(
        "from penstock.spark import Pipeline, journal\npipeline = Pipeline('shop', checkpoints='s3a://b/c')\n"
        "pipeline.flow(source=journal('a'), sink=journal('b'), name='copy')(lambda raw: raw)\n"
    )
    assert run(["pipeline", "plan", "shop.py", "--interval", "2s", "--broker", "h:1"]) == 0
    said = capsys.readouterr().out
    assert "s3a://b/c/copy" in said
    for name, value, origin in (("interval", "2s", "flag"), ("max_bytes", "4GiB", "penstock.toml")):
        assert any(line.split() == [name, value, origin] for line in said.splitlines()), said
    assert run(["pipeline", "plan", "shop.py", "--conf", "x", "--broker", "h:1"]) == 2
