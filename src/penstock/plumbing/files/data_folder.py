"""`penstock.json`: which releases have written a data folder, and at which level. Design: integrity.md D23.

A role enters its folder before it opens any file of it. A folder that a newer release has written, or one of a level
that this release does not speak, is refused with `FormatTooNew`, and no byte of it has changed.
"""

from pathlib import Path

import msgspec

from penstock.kernel.errors import DataDamaged, FormatTooNew
from penstock.kernel.formats import DATA_FOLDER, KINDS, FileKind, VersionPlace, check_version
from penstock.kernel.version import Release
from penstock.plumbing.files.sealed import read_sealed, write_sealed
from penstock.plumbing.files.versions import check_versions

__all__ = ["FolderRecord", "check_folder", "enter_folder", "read_record"]

_BY_NAME = {kind.name: kind for kind in KINDS}


class FolderRecord(msgspec.Struct, frozen=True):
    """The fields of `penstock.json`."""

    first_release: str
    last_release: str
    level: int  # the highest that a cluster of this folder had
    formats: dict[str, int]  # the newest version of each kind that may be here


def enter_folder(folder: Path, *, level: int | None = None, release: Release = Release()) -> FolderRecord:  # noqa: B008 (frozen)
    """Check that this release may use a data folder, and record that it does. Blocks.

    `level` is that of the cluster, if it is known; the recorded one never falls. A new folder is made.
    """
    found = check_folder(folder, release)
    wanted = _next(found, level, release)
    if wanted != found:
        write_sealed(DATA_FOLDER, folder / DATA_FOLDER.where, msgspec.to_builtins(wanted))
    return wanted


def check_folder(folder: Path, release: Release = Release()) -> FolderRecord | None:  # noqa: B008 (frozen)
    """Raise `FormatTooNew` unless this release may use a data folder; return its record. Only reads."""
    found = read_record(folder, release)
    check_versions(folder)
    return found


def read_record(folder: Path, release: Release = Release()) -> FolderRecord | None:  # noqa: B008 (frozen)
    """Return the record of a folder, None if it has none. Only reads.

    `FormatTooNew`: another release wrote the folder. `DataDamaged`: the record is not the one that was written.
    """
    path = folder / DATA_FOLDER.where
    fields = read_sealed(DATA_FOLDER, path)
    if fields is None:
        return None
    try:
        record = msgspec.convert(fields, FolderRecord)
    except msgspec.ValidationError as error:
        raise DataDamaged(f"{path}: {error}", next_step="restore it from a backup", file=str(path)) from None
    _check(record, path, release)
    return record


def _check(record: FolderRecord, path: Path, release: Release) -> None:
    if not release.speaks(record.level):
        raise FormatTooNew(
            f"{path.parent} is of level {record.level}, last written by Penstock {record.last_release}; "
            f"this is {release.version}, which speaks levels {release.level_min} to {release.level_max}",
            next_step=f"start Penstock {record.last_release}; no byte was changed",
            file=str(path),
            level=record.level,
        )
    for name, version in sorted(record.formats.items()):
        unknown = FileKind(name, "", VersionPlace.RECORD, b"", 0, 0)
        check_version(_BY_NAME.get(name, unknown), version, str(path.parent))


def _next(found: FolderRecord | None, level: int | None, release: Release) -> FolderRecord:
    formats = {kind.name: kind.version for kind in KINDS}
    if found is None:
        return FolderRecord(release.version, release.version, level or release.level_min, formats)
    level = max(found.level, level or 0)
    return msgspec.structs.replace(found, last_release=release.version, level=level, formats=formats)
