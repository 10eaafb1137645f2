"""Settings of a run: by flag, by file (`[pipeline.NAME]` in penstock.toml), or in the pipeline's code. spark-2.md P1.

A flag counts more than the file, and the file more than the code. Each setting knows its origin, for
`penstock pipeline plan`. Settings of Spark (`conf`) are chosen one by one.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.kernel.errors import InvalidArgument
from penstock.spark.pipelines.ends import JournalEnd, LakeChanges, LakeSink
from penstock.spark.pipelines.pipeline import Flow, Pipeline

__all__ = ["FLAG", "RunSettings", "Setting", "apply_conf", "limited_flow", "pairs_of", "settle", "size_of"]

KEYS: Final = ("interval", "conf", "master", "remote", "packages", "max_bytes", "checkpoints")
FLAG, FILE, CODE, DEFAULT = "flag", "penstock.toml", "code", "default"
TABLE_INTERVAL_S: Final = 10.0  # each batch is a commit and a file or more, so a table has few of them
INTERVAL_S_MIN: Final = 0.1  # of a flow that writes tables
PACKAGES: Final = "spark.jars.packages"
_TIME: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|min|h)\s*")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
_SIZE: Final = re.compile(r"\s*([0-9]+)\s*([KMGT]i?B|B|)\s*")
_BYTES: Final = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BYTES_2: Final = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


class Setting(msgspec.Struct, frozen=True):
    """One setting as it is in force, and its origin."""

    name: str
    value: str
    origin: str


class RunSettings(msgspec.Struct, frozen=True):
    """What a run is started with."""

    interval_s: float | None = None  # None: by the sinks of each flow
    conf: dict[str, str] = {}
    master: str = ""
    remote: str = ""
    max_bytes: int | None = None
    checkpoints: str = ""
    shown: tuple[Setting, ...] = ()

    def interval_of(self, flow: Flow) -> float:
        """Return the seconds between two batches of a flow."""
        writes_tables = any(isinstance(each, LakeSink) for each in flow.sinks.values())
        if self.interval_s is None:
            return TABLE_INTERVAL_S if writes_tables else 0.0
        return self.interval_s


def settle(
    pipeline: Pipeline, flags: Mapping[str, Any], file: Iterable[tuple[str, str]] = (), where: str = FILE
) -> RunSettings:
    """Return the settings in force; `InvalidArgument` names a wrong one and its origin."""
    layers = [
        (FLAG, {name: value for name, value in flags.items() if value not in (None, "", (), {})}),
        (where, _of_file(pipeline.name, file, where)),
        (CODE, {name: value for name, value in pipeline.settings.items() if value not in (None, "", {})}),
    ]
    found: dict[str, Setting] = {}
    for origin, layer in layers:
        for name, value in layer.items():
            for key, text in _spread(name, value):
                found.setdefault(key, Setting(key, text, origin))
    settings = RunSettings(
        _interval(found.get("interval")),
        _conf(found),
        _text(found, "master"),
        _text(found, "remote"),
        _max_bytes(found.get("max_bytes")),
        _text(found, "checkpoints"),
        tuple(found[key] for key in sorted(found)),
    )
    if settings.master and settings.remote:
        raise InvalidArgument("master and remote are both set: a Spark Connect server has its own master")
    for flow in pipeline.flows.values():
        _check_interval(flow, settings, found.get("interval"))
    return settings


def _of_file(name: str, file: Iterable[tuple[str, str]], where: str) -> dict[str, Any]:
    """Return the settings that a file has for one pipeline."""
    found: dict[str, Any] = {}
    for key, value in file:
        pipeline, _, rest = key.partition(".")
        setting, _, more = rest.partition(".")
        if pipeline != name:
            continue
        if setting not in KEYS or bool(more) != (setting == "conf"):
            raise InvalidArgument(f"{where}, [pipeline.{name}]: no such setting: {rest}; there are {', '.join(KEYS)}")
        if more:
            found.setdefault("conf", {})[more] = value
        else:
            found[setting] = tuple(value.split(",")) if setting == "packages" else value
    return found


def _spread(name: str, value: Any) -> list[tuple[str, str]]:
    if name == "conf":
        return [(f"conf.{key}", str(text)) for key, text in value.items()]
    return [(name, ",".join(value) if isinstance(value, tuple | list) else str(value))]


def _interval(setting: Setting | None) -> float | None:
    if setting is None:
        return None
    match = _TIME.fullmatch(setting.value)
    if match is None and setting.value.strip() != "0":
        raise InvalidArgument(f"interval {setting.value!r} ({setting.origin}): expected a time like 500ms, 30s or 2min")
    return float(match[1]) * _SECONDS[match[2]] if match is not None else 0.0


def _check_interval(flow: Flow, settings: RunSettings, setting: Setting | None) -> None:
    is_short = settings.interval_s is not None and settings.interval_s < INTERVAL_S_MIN
    if is_short and any(isinstance(each, LakeSink) for each in flow.sinks.values()):
        assert setting is not None
        raise InvalidArgument(
            f"interval {setting.value} ({setting.origin}): {flow.sink} writes a table, and each batch is a commit; "
            "expected at least 100ms"
        )


def _max_bytes(setting: Setting | None) -> int | None:
    return None if setting is None else size_of(setting.value, f"max_bytes ({setting.origin})")


def size_of(text: str, name: str) -> int:
    """Return a size in bytes; `InvalidArgument` names the setting."""
    match = _SIZE.fullmatch(text)
    if match is None or not int(match[1]):
        raise InvalidArgument(f"{name}: {text!r}: expected a size like 64MiB or 4GiB")
    return int(match[1]) * (_BYTES | _BYTES_2)[match[2]]


def _text(found: Mapping[str, Setting], name: str) -> str:
    return found[name].value if name in found else ""


def _conf(found: Mapping[str, Setting]) -> dict[str, str]:
    conf = {key.removeprefix("conf."): each.value for key, each in found.items() if key.startswith("conf.")}
    packages = [each for each in (conf.get(PACKAGES, ""), _text(found, "packages")) if each]
    return {**conf, **({PACKAGES: ",".join(packages)} if packages else {})}


def pairs_of(conf: Iterable[str]) -> dict[str, str]:
    """Return `--conf NAME=VALUE` as a table."""
    found = {}
    for text in conf:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InvalidArgument(f"--conf {text}: expected NAME=VALUE, like spark.sql.shuffle.partitions=8")
        found[name.strip()] = value
    return found


def apply_conf(spark: SparkSession, conf: Mapping[str, str]) -> None:
    """Set settings in a session that is running; refuse one that only a new session takes."""
    for name, value in conf.items():
        try:
            if spark.conf.get(name, None) == value:
                continue
            can_change = spark.conf.isModifiable(name) or not name.startswith("spark.")
        except PySparkException:
            can_change = False
        if not can_change:
            raise InvalidArgument(
                f"{name}: a session that is running cannot take it; give it to the session when it starts"
            )
        spark.conf.set(name, value)


def limited_flow(flow: Flow, max_bytes: int | None) -> Flow:
    """Return a flow whose streams read at most this many bytes in each batch."""
    if max_bytes is None:
        return flow

    def limited(source: Any) -> Any:
        if not isinstance(source, JournalEnd | LakeChanges):
            return source
        others = {name: text for name, text in source.options.items() if name.lower() != "maxbytespertrigger"}
        return msgspec.structs.replace(source, options={**others, "maxBytesPerTrigger": str(max_bytes)})

    return msgspec.structs.replace(flow, sources={name: limited(each) for name, each in flow.sources.items()})
