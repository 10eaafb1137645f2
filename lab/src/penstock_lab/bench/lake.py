"""Everything there is to measure about the lake, in one run: all of its bars side by side.

The parts are benchmarks of their own, and can be asked for by name: `lake_rest` (puts and linearizable gets, by real
processes), `lake_staging` (the state machine), `lake_committed` (commits, diffs, merges and lists of up to 10 M
objects). They run one after the other, since all of them want the same cores: some minutes on two quiet ones.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import Final

from penstock_lab.bench import lake_committed, lake_rest, lake_staging
from penstock_lab.bench.report import Options, RowRecorder

__all__ = ["PARTS", "QUESTION", "run"]

QUESTION: Final = "What do puts, gets, commits, diffs, merges and lists of the lake cost, and how does that grow?"

PARTS: Final = (lake_rest, lake_staging, lake_committed)


def run(recorder: RowRecorder, options: Options, parts: Sequence[ModuleType] = PARTS) -> None:
    """Every part's figures and bars, in one report."""
    for number, part in enumerate(parts, start=1):
        recorder.progress(f"part {number} of {len(parts)}: {part.QUESTION}")
        part.run(recorder, options)
