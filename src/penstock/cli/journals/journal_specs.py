"""Journal specs as people write them: YAML, JSON or TOML.

    journals:
      - name: shop/orders
        replication: 3
        labels: {region: eu}
        fragment: {length: 67108864, compression_codec: zstandard, stores: ["file:///data/objects/"]}

Each may carry `revision`, as `penstock journals list --output json` shows it: the change is then made only to exactly
that version; 0 means that the journal must not exist yet. `delete: true` removes a journal.
"""

import tomllib
from pathlib import Path
from typing import Any, Final

import msgspec

from penstock.journals.records.labels import Label, LabelSet
from penstock.journals.records.protocol import Change
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import ConfigError, InvalidArgument

__all__ = ["changes_in", "decoded", "spec_text"]

FILE_BYTES_MAX: Final = 16 << 20


def changes_in(path: Path, data: bytes) -> list[Change]:
    """Return the changes that a file asks for."""
    found = decoded(path, data)
    entries = found.get("journals", [found]) if isinstance(found, dict) else found
    if not isinstance(entries, list) or not entries or not all(isinstance(each, dict) for each in entries):
        raise InvalidArgument(f"{path}: expected `journals:` with a list of specs, or one spec")
    return [_change(path, index, dict(entry)) for index, entry in enumerate(entries)]


def decoded(path: Path, data: bytes) -> Any:
    """Decode a file by its suffix."""
    if len(data) > FILE_BYTES_MAX:
        raise InvalidArgument(f"{path}: a file of specs has at most {FILE_BYTES_MAX} bytes")
    try:
        match path.suffix:
            case ".json":
                return msgspec.json.decode(data)
            case ".toml":
                return tomllib.loads(data.decode())
            case _:
                return msgspec.yaml.decode(data)
    except ImportError:
        raise ConfigError(
            "YAML needs the package PyYAML, which is not installed",
            next_step="pip install pyyaml, or write the specs as .json or .toml",
        ) from None
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidArgument(f"{path}: {str(error)[:500]}") from None


def _change(path: Path, index: int, entry: dict[str, Any]) -> Change:
    where = f"{path}: journal {index + 1} ({entry.get('name', 'without a name')})"
    revision, deletes = entry.pop("revision", -1), entry.pop("delete", False)
    if not isinstance(revision, int) or revision < -1:
        raise InvalidArgument(f"{where}: revision: expected a number, or -1 for any")
    if deletes:
        return Change(delete=str(entry.get("name", "")), expect_mod_revision=revision)
    labels = entry.pop("labels", {})
    if not isinstance(labels, dict):
        raise InvalidArgument(f"{where}: labels: expected a mapping of names to values")
    unknown = sorted(set(entry) - set(JournalSpec.__struct_fields__))
    if unknown:
        raise InvalidArgument(f"{where}: unknown field {unknown[0]!r}")
    try:
        spec = msgspec.convert(entry, JournalSpec)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"{where}: {error}") from None
    spec = msgspec.structs.replace(spec, labels=LabelSet.of(_labels(labels)))
    spec.validate()
    return Change(upsert=spec, expect_mod_revision=revision)


def _labels(labels: dict[Any, Any]) -> list[Label]:
    every = {name: values if isinstance(values, list) else [values] for name, values in labels.items()}
    return [Label(str(name), str(value)) for name, values in every.items() for value in values]


def spec_text(spec: JournalSpec, revision: int) -> dict[str, Any]:
    """A spec as it would be written, for output and for editing."""
    labels: dict[str, Any] = {}
    for label in spec.labels.labels:
        labels.setdefault(label.name, []).append(label.value)
    data: dict[str, Any] = msgspec.to_builtins(spec)
    data["labels"] = {name: values[0] if len(values) == 1 else values for name, values in labels.items()}
    return {**data, "revision": revision}
