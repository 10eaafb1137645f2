"""The program's start. `penstock --version` loads nothing else, because scripts ask for it often."""

import sys

__all__ = ["main"]


def main() -> None:
    """Print the version, or run the command line."""
    if sys.argv[1:] == ["--version"]:
        from penstock.kernel.version import VERSION

        sys.stdout.write(f"{VERSION}\n")
        return
    from penstock.cli.main import main as run_command_line

    run_command_line()
