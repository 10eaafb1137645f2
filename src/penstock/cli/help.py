"""The layout of a help page: no boxes; a title, then names and descriptions in two columns, as wide as the terminal."""

import textwrap
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

__all__ = ["HelpFormatter", "examples"]

LABEL_COLUMNS_MIN: Final = 12
COLUMNS_MAX: Final = 100  # longer lines are hard to read, however wide the terminal is


def examples(*lines: str) -> str:
    """The end of a help page: commands to try as they are."""
    return "\n".join(["Examples", *(f"  {line}" for line in lines)])


class HelpFormatter:
    """Prints the parts of a help page, each after an empty line."""

    def render_usage(self, console: "Console", options: "ConsoleOptions", usage: Any) -> None:
        console.print(str(usage).strip(), style="bold", highlight=False, markup=False)

    def render_description(self, console: "Console", options: "ConsoleOptions", description: Any) -> None:
        paragraphs = _plain(description).strip().split("\n\n")
        width = min(console.width, COLUMNS_MAX)
        for paragraph in filter(None, paragraphs):
            console.print()
            for line in paragraph.splitlines():
                console.print(textwrap.fill(line, width), highlight=False, markup=False, soft_wrap=True)

    def __call__(self, console: "Console", options: "ConsoleOptions", panel: "HelpPanel") -> None:
        from rich.text import Text

        if not panel.entries:
            return
        labels = [_label(entry) for entry in panel.entries]
        indent = max(LABEL_COLUMNS_MIN, *map(len, labels)) + 4
        width = max(min(console.width, COLUMNS_MAX) - indent, 20)
        console.print()
        console.print(panel.title, style="bold", highlight=False)
        for label, entry in zip(labels, panel.entries, strict=True):
            first, *more = textwrap.wrap(_meaning(entry), width) or [""]
            line = Text.assemble("  ", (label, "cyan"), " " * (indent - len(label) - 2), first)
            for further in more:
                line.append(f"\n{' ' * indent}{further}")
            line.rstrip()
            console.print(line, highlight=False, soft_wrap=True)


def _label(entry: "HelpEntry") -> str:
    if entry.choices and entry.metavar and not entry.positional_label:
        return f"{', '.join(entry.display_labels)} {'|'.join(entry.choices)}"
    return ", ".join(entry.display_labels_with_metavar)


def _meaning(entry: "HelpEntry") -> str:
    parts = [_plain(entry.description)]
    if entry.default is not None:
        parts.append(f"Default: {entry.default}.")
    if entry.env_var:
        parts.append(f"Or set {', '.join(entry.env_var)}.")
    return " ".join(filter(None, parts))


def _plain(description: Any) -> str:
    """The text of a description, which cyclopts wraps for rich."""
    return str(getattr(description, "primary_renderable", description) or "")
