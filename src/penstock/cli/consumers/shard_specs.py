"""Shards as people write them: YAML, JSON or TOML.

    group: bank
    shards:
      - id: transfers-0
        sources: [bank/transfers-0]        # or {bank/transfers-0: 1024}, to begin there
        standbys: 1
        recovery_log: recovery/transfers-0

Each may carry `revision`, as `penstock shards list --output json` shows it: the change is then made only to exactly
that version; 0 means that the shard must not exist yet. `delete: true` removes a shard.
"""

from pathlib import Path
from typing import Any

import msgspec

from penstock.cli.journals.journal_specs import decoded
from penstock.consumers.client.definition import ShardDefinition
from penstock.consumers.client.shards import ShardChange
from penstock.kernel.errors import InvalidArgument

__all__ = ["definition_text", "shard_changes_in"]


def shard_changes_in(path: Path, data: bytes) -> tuple[str, list[ShardChange]]:
    """The group (empty, if the file names none) and what the file asks for."""
    found = decoded(path, data)
    if not isinstance(found, dict):
        raise InvalidArgument(f"{path}: expected `group:` and `shards:` with a list of shards")
    group, entries = found.get("group", ""), found.get("shards", [])
    if not isinstance(group, str):
        raise InvalidArgument(f"{path}: group: expected a name")
    if not isinstance(entries, list) or not entries or not all(isinstance(each, dict) for each in entries):
        raise InvalidArgument(f"{path}: expected `shards:` with a list of shards")
    unknown = sorted(set(found) - {"group", "shards"})
    if unknown:
        raise InvalidArgument(f"{path}: unknown field {unknown[0]!r}")
    return group, [_change(path, index, dict(entry)) for index, entry in enumerate(entries)]


def _change(path: Path, index: int, entry: dict[str, Any]) -> ShardChange:
    where = f"{path}: shard {index + 1} ({entry.get('id', 'without an id')})"
    revision, deletes = entry.pop("revision", -1), entry.pop("delete", False)
    if not isinstance(revision, int) or revision < -1:
        raise InvalidArgument(f"{where}: revision: expected a number, or -1 for any")
    if deletes:
        return ShardChange(delete=str(entry.get("id", "")), expect_mod_revision=revision)
    if isinstance(entry.get("sources"), list):
        entry["sources"] = dict.fromkeys(entry["sources"], 0)
    try:
        definition = msgspec.convert(entry, ShardDefinition)
        definition.validate()
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"{where}: {error}") from None
    return ShardChange(definition, expect_mod_revision=revision)


def definition_text(definition: ShardDefinition, revision: int) -> dict[str, Any]:
    """A shard as it would be written, for output."""
    data: dict[str, Any] = msgspec.to_builtins(definition)
    return {**data, "revision": revision}
