"""What one request to the lake costs its server: cases, sides and load."""

from typing import Final

from penstock_lab.bench.report import Options, RowRecorder

__all__ = ["QUESTION", "run"]

QUESTION: Final = "What does one request to the lake cost its server, next to the tree before?"


def run(recorder: RowRecorder, options: Options) -> None:
    """Every case on each side, in turns."""
    from penstock_lab.bench.lake_requests import cases  # listing the questions must not load it

    cases.run(recorder, options)
