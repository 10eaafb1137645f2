"""Writes the reference pages from what the code declares: `python -m penstock.cli.reference`.

Pages that repeat the code by hand grow old. These are generated, committed, and compared by a test, so that a page and
the program it describes cannot disagree.
"""

import importlib
import io
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from cyclopts import App
from rich.console import Console

from penstock.cli.errors import as_data
from penstock.cli.main import command_tree, nouns
from penstock.plumbing.config import Config, Declaration, known_keys
from penstock.plumbing.process.metrics import declared
from penstock.server.error_guide import error_kinds

__all__ = ["pages", "write"]

REGENERATE: Final = "python -m penstock.cli.reference"
SOURCE: Final = Path(__file__).parents[1]  # of the package
FOLDER: Final = Path(__file__).parents[3] / "docs" / "reference"
COLUMNS: Final = 80
GENERATED: Final = f"<!-- Written by `{REGENERATE}` from what the code declares. Do not edit. -->"

_CLI_INTRO: Final = """\
Commands have the form `penstock NOUN VERB`. Data goes to stdout, messages to stderr. The exit status is 0 for success,
1 for a refusal or a failure, 2 for a wrong command line or configuration, and 130 after Ctrl-C. Global flags can be
anywhere on the line. With `--output json` an error is JSON too, on stderr.
"""

_CONFIG_INTRO: Final = """\
A value comes from a flag (`--set wire.listen=0.0.0.0:7070`), else from the environment (`PENSTOCK_WIRE_LISTEN`), else
from a TOML file (`--config`, `PENSTOCK_CONFIG`, or `penstock.toml` in the working directory), else it is the default.
`penstock config show` prints each effective value and its source, `penstock config check` lists every problem, and
`penstock config example` prints a commented file.

Times have a unit (`250ms`, `15s`, `2min`), sizes may have one (`64KiB`, `64MiB`). No command prints a secret. Penstock
reads a secret from a file if its value is `file:/run/secrets/token`.
"""

_ERRORS_INTRO: Final = """\
The first word of an error names who answered. `error`: this program, the other side's protocol, a disk or a defect.
`refused`: a server's rules forbid the request. `unavailable`: not now; try again. `unknown`: the request was sent, and
its outcome is not known.

Every error states the failure, whether anything was written, and the next step. Programs find the same in its record
(with `--output json`, and on the wire). *At fault* names the party that has to change something. *Written: unknown*
means that the request may have taken effect, or may still do so: ask before you repeat a request
that must take effect once.
"""

_METRICS_INTRO: Final = """\
With `metrics.listen` set, a process serves its metrics in Prometheus' own text format at `/metrics`, and says at
`/healthz` whether it is well. It also has the metrics `penstock_process_*` (CPU, memory, open files).
"""


def pages() -> dict[str, str]:
    """Every page's file name and text."""
    return {
        "cli.md": _page("The command line", _cli()),
        "config.md": _page("Configuration", _config()),
        "errors.md": _page("Errors", _errors()),
        "metrics.md": _page("Metrics", _metrics()),
    }


def write(folder: Path = FOLDER) -> None:
    """Write the pages into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


def help_page(arguments: list[str]) -> str:
    """Return the output of `penstock ARGUMENTS --help` on 80 columns."""
    console = Console(file=io.StringIO(), width=COLUMNS, color_system=None, legacy_windows=False)
    command_tree().help_print(arguments, console=console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().rstrip() + "\n"


def commands() -> list[list[str]]:
    """The arguments of every command, noun by noun."""
    tree = command_tree()
    found: list[list[str]] = []
    for noun in nouns():
        found.append([noun])
        found.extend([noun, verb] for verb in _verbs(tree[noun]))
    return found


def _verbs(app: App) -> list[str]:
    flags = {*app.help_flags, *app.version_flags}
    return sorted(name for name in app if name not in flags)


def _page(title: str, lines: Iterator[str]) -> str:
    return "\n".join([f"# {title}", "", GENERATED, "", *lines]).rstrip() + "\n"


def _cli() -> Iterator[str]:
    yield from [_CLI_INTRO, "```text", help_page([]).rstrip(), "```", ""]
    for arguments in commands():
        heading = "##" if len(arguments) == 1 else "###"
        yield from [f"{heading} penstock {' '.join(arguments)}", ""]
        yield from ["```text", _without_global_flags(help_page(arguments)).rstrip(), "```", ""]


def _without_global_flags(page: str) -> str:
    parts = page.split("\n\n")
    return "\n\n".join(part for part in parts if not part.startswith("Global flags"))


def _config() -> Iterator[str]:
    yield _CONFIG_INTRO.rstrip()
    by_section: dict[str, list[Declaration]] = {}
    for one in known_keys().values():
        by_section.setdefault(one.section, []).append(one)
    for section, keys in by_section.items():
        yield from ["", f"## [{section}]", "", (getattr(Config(), section).__doc__ or "").strip(), ""]
        rows = [(f"`{one.name}`", _default(one), one.allowed, one.doc) for one in keys]
        yield from _table(("key", "default", "allowed", "meaning"), rows)


def _default(one: Declaration) -> str:
    return "none" if one.default in (None, "") else f"`{one.write(one.default)}`"


def _errors() -> Iterator[str]:
    yield _ERRORS_INTRO
    kinds = [as_data(kind) for kind in error_kinds()]
    rows = [
        (f"[`{one['code']}`](#{one['code']})", one["fault"], one["written"], "yes" if one["retryable"] else "no")
        for one in kinds
    ]
    yield from _table(("code", "at fault", "written", "retry may help"), rows)
    for one in kinds:
        yield from ["", f"## {one['code']}", "", f"`{one['name']}`. {one['meaning']}", ""]
        yield from [f"**Cause.** {one['cause']}", "", f"**Next.** {one['next_step']}"]


def _metrics() -> Iterator[str]:
    yield _METRICS_INTRO
    for module in _modules_with_metrics():
        importlib.import_module(module)
    rows = [(f"`{one.name}`", one.kind, ", ".join(one.labels) or "none", one.doc) for one in declared()]
    yield from _table(("metric", "kind", "labels", "meaning"), rows)


def _modules_with_metrics() -> Iterator[str]:
    """Metrics are declared where they are measured: the modules that use `penstock.plumbing.process.metrics`."""
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if re.search(r"from penstock\.plumbing\.process(\.metrics import| import metrics)", text):
            yield ".".join(["penstock", *path.relative_to(SOURCE).with_suffix("").parts])


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |"


def outdated(folder: Path = FOLDER) -> Mapping[str, str]:
    """Return the pages whose files differ, with their right text."""
    texts = pages()
    return {
        name: text
        for name, text in texts.items()
        if not (folder / name).is_file() or (folder / name).read_text(encoding="utf-8") != text
    }


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
