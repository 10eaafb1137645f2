"""Where the configuration comes from: flags over environment over a TOML file over defaults.

`load` reads all four, checks everything, and remembers the origin of every value. All problems are reported at once,
each with its place, the allowed values, and the nearest known key: a file is fixed in one pass.
"""

import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from penstock.kernel.errors import ConfigError
from penstock.plumbing.config.declare import ENVIRONMENT_PREFIX, Declaration
from penstock.plumbing.config.sections import Config, known_keys

__all__ = ["ConfigSource", "Effective", "FlagValue", "ValueOrigin", "load"]

DEFAULT_FILE = Path("penstock.toml")
CONFIG_VARIABLE = "PENSTOCK_CONFIG"
DEBUG_VARIABLE = "PENSTOCK_DEBUG"
SPARK_VARIABLES = ("PENSTOCK_BROKERS", "PENSTOCK_TOKEN")  # options of Spark's formats, for processes which it starts
FILE_BYTES_MAX = 1 << 20

# Pairs of keys where the first must not be above the second, or nothing could ever use the whole of it.
_ORDERED = (("wire.frame_bytes_max", "wire.request_bytes_max"), ("wal.record_bytes_max", "wal.queue_bytes_max"))

# What Kubernetes sets in every container for a service whose name starts with "penstock": not meant for us.
_KUBERNETES = re.compile(r"(?:_|^)(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT|PORT_\d+_(?:TCP|UDP)(?:_\w+)?)$")


class ConfigSource(Enum):
    """The four places, the strongest first."""

    FLAG = "flag"
    ENVIRONMENT = "environment"
    FILE = "file"
    DEFAULT = "default"


class ValueOrigin(msgspec.Struct, frozen=True):
    """Which source a value came from, and where in it: a flag, a variable, a file and line."""

    source: ConfigSource
    where: str = ""

    def __str__(self) -> str:
        return self.where or self.source.value


class FlagValue(msgspec.Struct, frozen=True):
    """A key set on the command line, and how it was spelled there."""

    name: str
    value: str
    spelling: str


class Effective(msgspec.Struct, frozen=True):
    """The configuration in force, and the origin of each key."""

    config: Config
    origins: dict[str, ValueOrigin]
    file: Path | None = None

    def value(self, name: str) -> Any:
        """The value of a dotted key."""
        section, _, key = name.partition(".")
        return getattr(getattr(self.config, section), key)


def load(
    flags: Sequence[FlagValue] = (),
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Effective:
    """Read every source, or raise one ConfigError with all problems.

    `file` must exist; without it PENSTOCK_CONFIG names one, and without that `penstock.toml` counts if it exists.
    """
    environment = environment or {}
    file = _find_file(file, environment)
    reader = _Reader()
    # The weakest first: a stronger source replaces what a weaker one said, but what the weaker one said is checked too.
    if file is not None:
        reader.read_file(file)
    reader.read_environment(environment)
    reader.read_flags(flags)
    return reader.finish(file)


class _Reader:
    """Collects values, origins and problems while the sources are read."""

    def __init__(self) -> None:
        self.known = known_keys()
        self.values = {name: declared.default for name, declared in self.known.items()}
        self.origins = {name: ValueOrigin(ConfigSource.DEFAULT) for name in self.known}
        self.problems: list[str] = []

    def read_file(self, path: Path) -> None:
        text, document = _parse(path)
        for section, table in document.items():
            if not isinstance(table, dict):
                self.problems.append(
                    f"{_place(path, text, section)}: {section} is outside any section{_guess(section, self.known)}"
                )
                continue
            if section == "stores" and "urls" not in table:
                table = {"urls": table}  # its keys are names that a person chose
            if section == "pipeline" and "settings" not in table:
                table = {"settings": _flat(table)}
            for key, raw in table.items():
                self._take(f"{section}.{key}", raw, ValueOrigin(ConfigSource.FILE, _place(path, text, section, key)))

    def read_environment(self, environment: Mapping[str, str]) -> None:
        names = {declared.variable: name for name, declared in self.known.items()}
        reserved = {CONFIG_VARIABLE, DEBUG_VARIABLE, *SPARK_VARIABLES}
        for variable in sorted(environment):
            if variable in names:
                self._take(names[variable], environment[variable], ValueOrigin(ConfigSource.ENVIRONMENT, variable))
            elif (
                variable.startswith(ENVIRONMENT_PREFIX)
                and variable not in reserved
                and not _KUBERNETES.search(variable)
            ):
                self.problems.append(f"{variable}: no such key{_guess(variable, names)}")

    def read_flags(self, flags: Sequence[FlagValue]) -> None:
        for flag in flags:
            self._take(flag.name, flag.value, ValueOrigin(ConfigSource.FLAG, flag.spelling))

    def _take(self, name: str, raw: Any, origin: ValueOrigin) -> None:
        declared = self.known.get(name)
        if declared is None:
            self.problems.append(f"{origin.where}: no such key: {name}{_guess(name, self.known)}")
            return
        try:
            self.values[name] = declared.read(raw)
            self.origins[name] = origin
        except ValueError as error:
            self.problems.append(_bad_value(declared, raw, origin, error))

    def finish(self, file: Path | None) -> Effective:
        if not self.problems:
            self.problems.extend(_contradictions(self.values, self.origins))
        if self.problems:
            raise _config_error(self.problems)
        sections: dict[str, dict[str, Any]] = {}
        for name, value in self.values.items():
            section, _, key = name.partition(".")
            sections.setdefault(section, {})[key] = value
        fields = msgspec.structs.fields(Config)
        config = Config(**{field.name: field.type(**sections[field.name]) for field in fields})
        return Effective(config, self.origins, file)


def _flat(table: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Return the tables of pipelines as one: shop.interval, shop.conf.spark.x. A list is a text with commas."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        match value:
            case dict():
                found |= _flat(value, f"{before}{key}.")
            case list():
                found[before + key] = ",".join(map(str, value))
            case bool():
                found[before + key] = str(value).lower()
            case _:
                found[before + key] = str(value)
    return found


def _find_file(file: Path | None, environment: Mapping[str, str]) -> Path | None:
    if file is not None:
        return file
    if environment.get(CONFIG_VARIABLE):
        return Path(environment[CONFIG_VARIABLE])
    return DEFAULT_FILE if DEFAULT_FILE.is_file() else None


def _parse(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        with path.open("rb") as stream:
            data = stream.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise _config_error([f"{path}: larger than {FILE_BYTES_MAX} bytes, so hardly a configuration file"])
        text = data.decode("utf-8")
        return text, tomllib.loads(text)
    except OSError as error:
        raise _config_error([f"{path}: cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError as error:
        raise _config_error([f"{path}: not UTF-8 text (byte {error.start})"]) from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _config_error([f"{path}: not TOML: {error}"]) from None


def _place(path: Path, text: str, section: str, key: str | None = None) -> str:
    """`file:line` of a key. tomllib keeps no positions, so the line is searched for; not found, the file must do."""
    current = ""
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line)
        current = header[1].strip("\"'") if header else current
        assigned = re.match(r"\s*([A-Za-z0-9_.\"'-]+)\s*=", line)
        name = assigned[1].replace('"', "").replace("'", "") if assigned else ""
        full = f"{current}.{name}" if current and name else name
        if full == (section if key is None else f"{section}.{key}"):
            return f"{path}:{number}"
    return str(path)


def _guess(name: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if not near:
        # Perhaps the key is right and only its section is missing or wrong.
        key = name.rpartition(".")[2]
        near = [candidate for candidate in known if candidate.rpartition(".")[2] == key][:1]
    return f"; did you mean {near[0]}?" if near else ""


def _bad_value(declared: Declaration, raw: Any, origin: ValueOrigin, error: ValueError) -> str:
    given = "the given value" if declared.kind.secret else repr(raw)
    return f"{origin.where}: {declared.name} cannot be {given}: expected {error}"


def _contradictions(values: Mapping[str, Any], origins: Mapping[str, ValueOrigin]) -> list[str]:
    """Rules that no single key can check by itself."""
    problems = []
    if (values["tls.certificate"] is None) != (values["tls.key"] is None):
        given, other = ("certificate", "key") if values["tls.key"] is None else ("key", "certificate")
        problems.append(f"{origins[f'tls.{given}']}: tls.{given} needs tls.{other} too")
    # A user who names a certificate believes that the wire is encrypted: never disappoint them silently.
    problems.extend(
        f"{origins[name]}: {name} has no effect without tls.enabled = true"
        for name, value in values.items()
        if name.startswith("tls.") and name != "tls.enabled" and value is not None and not values["tls.enabled"]
    )
    if (values["objectstore.access_key_id"] is None) != (values["objectstore.secret_access_key"] is None):
        problems.append("objectstore.access_key_id and objectstore.secret_access_key come together, or not at all")
    for small, large in _ORDERED:
        if values[small] > values[large]:
            problems.append(f"{origins[small]}: {small} must not be above {large} ({origins[large]})")
    return problems


def _config_error(problems: list[str]) -> ConfigError:
    if len(problems) == 1:
        message = problems[0]
    else:
        message = f"{len(problems)} problems in the configuration:\n" + "\n".join(f"  - {one}" for one in problems)
    return ConfigError(message, next_step="penstock config keys", problems=problems)
