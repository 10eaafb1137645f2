"""The row of a soak run on the page docs/explanation/reliability.md."""

from pathlib import Path

import msgspec

from penstock_lab.papers.reliability import Attack


def keep(report: Path, name: str, amount: str, found: str) -> None:
    """Write the new amount and result into the attack's file near docs/reports, and keep the rest of the row.

    `make golden` takes the table of the page from there.
    """
    path = report.parent.parent / "data" / "reliability" / f"{name}.json"
    if not path.parent.is_dir():
        return  # the report is for somewhere else
    known = msgspec.json.decode(path.read_bytes(), type=Attack)
    row = msgspec.structs.replace(known, amount=amount, found=found)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(row), indent=2) + b"\n")
