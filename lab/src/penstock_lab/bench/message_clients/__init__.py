"""What a message costs its client: Penstock's, the tree before's, and Kafka's (librdkafka)."""

from typing import Final

from penstock_lab.bench.report import Options, RowRecorder

__all__ = ["QUESTION", "run"]

QUESTION: Final = "What does one message cost its client, next to the tree before and to Kafka's client?"


def run(recorder: RowRecorder, options: Options) -> None:
    """Every case on each side, in turns."""
    from penstock_lab.bench.message_clients import cases  # listing the questions must not load it

    cases.run(recorder, options)
