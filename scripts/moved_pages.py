"""Writes a page of one line to each old place of a page into site/: links to the old layout work for one release."""

import os
from pathlib import Path

SITE = Path(__file__).parents[1] / "site"
MOVED = {
    "guides/pipeline": "tutorials/pipeline",
    "guides/consumers": "tutorials/consumer",
    "guides/journals": "how-to/journals",
    "guides/lake": "how-to/lake",
    "guides/spark": "how-to/spark",
    "guides/quorum": "how-to/drills",
    "internals/testing": "contributing/testing",
    "internals/simulator": "contributing/simulator",
    "architecture": "explanation/architecture",
    "benchmarks": "explanation/benchmarks",
    "glossary": "explanation/glossary",
    **{
        f"design/{name}": f"explanation/design/{name}"
        for name in ("allocator", "committed", "journals", "lake", "messages", "quorum-log", "rules", "spark-scale")
    },
}


def line(old: str, new: str) -> str:
    """Return the page that sends a browser from the old place to the new one."""
    url = os.path.relpath(f"{new}.html", Path(old).parent)
    return f'<!doctype html><meta http-equiv="refresh" content="0; url={url}"><a href="{url}">This page moved.</a>\n'


def main() -> None:
    for old, new in MOVED.items():
        page = SITE / f"{old}.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(line(old, new), encoding="utf-8")


if __name__ == "__main__":
    main()
