"""The table of options, as the reference page shows it: `python -m penstock.spark.shared.reference` prints it."""

from penstock.spark.options import OPTIONS

__all__ = ["options_table"]

_WHERE = {"read": "batch", "stream": "stream", "write": "write"}


def options_table() -> str:
    """Return a table of every option: where it applies, its default and its meaning."""
    lines = ["| option | where | default | meaning |", "|---|---|---|---|"]
    for option in OPTIONS:
        where = ", ".join(_WHERE[each] for each in option.of)
        lines.append(f"| `{option.name}` | {where} | {option.default or '-'} | {option.meaning} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(options_table())
