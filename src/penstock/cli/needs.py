"""Which commands need an extra. It is looked up before a command starts, so that none fails half-way."""

from collections.abc import Sequence
from typing import Final

from penstock.kernel.extras import require

__all__ = ["NEEDS", "check_extra"]

NEEDS: Final = {
    "up": "server",
    "fsck": "server",
    "server": "server",
    "broker": "server",
    "node": "server",
    "operator": "server",
    "cluster up": "server",
    "cluster start": "server",
    "consumer run": "server",
    "lake serve": "server",
    "lake recover": "server",
    "pipeline run": "spark",
    "pipeline plan": "spark",
    "pipeline status": "spark",
    "pipeline backfill": "spark",
    "pipeline compact": "spark",
    "pipeline import": "spark",
    "pipeline garbage": "spark",
}


def check_extra(chain: Sequence[str]) -> None:
    """Raise `ConfigError` if the command needs an extra that is not installed."""
    words = " ".join(chain)
    if words in NEEDS:
        require(NEEDS[words], f"penstock {words}")
