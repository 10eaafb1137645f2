"""The page of health lists the checks that exist."""

import re
from pathlib import Path

from penstock.journals.broker.status.health import BROKER_CHECKS
from penstock.lake.member.services.health import LAKE_CHECKS
from penstock.quorum.node.health import NODE_CHECKS

PAGE = Path(__file__).parents[2] / "docs/reference/health.md"


def test_the_page_lists_every_check() -> None:
    rows = re.findall(r"^\| `([a-z.]+)` \| (\w+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    expected = [("role", "each")]
    expected += [(name, "broker") for name in BROKER_CHECKS]
    expected += [(name, "node") for name in NODE_CHECKS]
    expected += [(name, "lake") for name in LAKE_CHECKS]
    assert rows == expected
