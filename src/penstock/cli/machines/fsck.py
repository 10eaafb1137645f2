"""`penstock fsck`: look at every file of a data folder, or at a lake in a store. It needs no server, and only reads."""

import asyncio
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from penstock.cli.noun import InSession, noun
from penstock.kernel.errors import InvalidArgument, NotFound

if TYPE_CHECKING:
    from penstock.server.fsck.report import FsckReport
    from penstock.server.session import Session

__all__ = ["app", "quarantine_entries"]

app = noun(
    "fsck",
    "Look for damaged files in a data folder, or for lost objects of a lake. It only reads.",
    try_this=(
        "penstock fsck                             the data folder of this machine",
        "penstock fsck /srv/penstock --deep        another one, every byte of it",
        "penstock fsck --store s3://shop/objects   the objects of a lake",
        "penstock fsck --forget 20261119T2105…     remove an entry of the quarantine",
    ),
)
CLEAN: Final = 0
DAMAGED: Final = 1
COULD_NOT_LOOK: Final = 3
SHOWN_MAX: Final = 100  # of each list in text


@app.default
async def run(
    folder: Annotated[Path | None, Parameter(help="The data folder. Default: that of the configuration.")] = None,
    *,
    store: Annotated[str, Parameter(help="Look at the lake in this store.", metavar="URL")] = "",
    deep: Annotated[bool, Parameter(help="Read and compare every byte.", negative="")] = False,
    forget: Annotated[str, Parameter(help="Remove this entry of the quarantine.", metavar="ID")] = "",
    session: InSession,
) -> int:
    """Look for damaged files in a data folder, or for lost objects of a lake.

    It needs no server and changes nothing. Exit status: 0 clean, 1 damage, 3 if it could not look. Files in the
    quarantine count as damage until `--forget` removes their entry, with the files.
    """
    session.start_logs(quiet=True)
    place = (folder or session.effective.config.data.folder).absolute()
    if forget:
        _forget(place, forget, session)
        return CLEAN
    from penstock.server.fsck.report import FsckReport

    report = FsckReport()
    try:
        if store:
            await _look_at_store(store, report, session, deep=deep)
        else:
            await _look_at_folder(place, report, session, deep=deep)
    except (NotFound, OSError) as error:
        session.say(f"could not look: {error}")
        return COULD_NOT_LOOK
    entries = [] if store else quarantine_entries(place)
    session.emit(_as_data(report, entries), *_as_text(report, entries, store or str(place)))
    return DAMAGED if report.damages or entries else CLEAN


async def _look_at_folder(place: Path, report: "FsckReport", session: "Session", *, deep: bool) -> None:
    from penstock.server.fsck.folder import look_into_folder

    if not (place / "penstock.json").exists() and not (place / "keyspace").exists():
        raise NotFound(f"{place} is no data folder of Penstock")
    await asyncio.to_thread(look_into_folder, place, report, deep=deep)
    objects = place / "objects"
    if objects.is_dir():
        await _look_at_store(objects.as_uri(), report, session, deep=deep)


async def _look_at_store(url: str, report: "FsckReport", session: "Session", *, deep: bool) -> None:
    from penstock.plumbing.objects import open_store
    from penstock.plumbing.wiring.options import store_options
    from penstock.server.fsck.lake import look_into_lake

    async with open_store(url, store_options(session.effective.config.objectstore)) as opened:
        await look_into_lake(opened, url, report, deep=deep)


def quarantine_entries(place: Path) -> list[str]:
    """Return the entries of the quarantines in a data folder."""
    folders = [place / "quarantine", *sorted(place.glob("*/quarantine"))]
    return [
        str(entry.relative_to(place))
        for folder in folders
        if folder.is_dir()
        for entry in sorted(folder.iterdir())
        if entry.is_dir()
    ]


def _forget(place: Path, id_: str, session: "Session") -> None:
    """Remove an entry of the quarantine. Nothing else in Penstock removes one."""
    found = [entry for entry in quarantine_entries(place) if Path(entry).name == id_]
    if len(found) != 1:
        known = ", ".join(Path(entry).name for entry in quarantine_entries(place)) or "none"
        raise InvalidArgument(f"the quarantine has no entry {id_!r}; its entries: {known}", next_step="penstock fsck")
    shutil.rmtree(place / found[0])
    session.say(f"removed {found[0]}")


def _as_data(report: "FsckReport", entries: list[str]) -> Any:
    import msgspec

    return {
        "files": dict(report.seen),
        "damages": msgspec.to_builtins(report.damages),
        "quarantine": entries,
        "unknown": report.unknown,
    }


def _as_text(report: "FsckReport", entries: list[str], place: str) -> list[Any]:
    from penstock.server.output import counted

    lines: list[Any] = [f"{each.kind}: {each.where}: {each.why}" for each in report.damages[:SHOWN_MAX]]
    lines += [f"in quarantine: {entry}/why.json" for entry in entries[:SHOWN_MAX]]
    lines += [f"unknown, and left alone: {name}" for name in report.unknown[:SHOWN_MAX]]
    total = counted(sum(report.seen.values()), "file")
    steps = list(dict.fromkeys(each.next_step for each in report.damages if each.next_step))
    verdict = f"{len(report.damages)} damaged, {len(entries)} in quarantine" if report.damages or entries else "clean"
    return [*lines, f"{place}: {total}, {verdict}", *([f"Next: {steps[0]}"] if steps else [])]
