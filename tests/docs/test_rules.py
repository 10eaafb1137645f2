"""The rules that the sources cite are stated on one page, once each."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
RULES = {"J": 16, "P": 14, "L": 17}


def test_each_rule_is_stated_once() -> None:
    page = (ROOT / "docs/explanation/design/rules.md").read_text(encoding="utf-8")
    stated = re.findall(r"^\| ([JPL]\d+) ", page, re.MULTILINE)
    assert stated == [f"{letter}{number}" for letter, last in RULES.items() for number in range(1, last + 1)]


def test_no_source_cites_a_rule_beyond_the_last() -> None:
    beyond = set()
    for path in [*ROOT.glob("src/**/*.py"), *ROOT.glob("lab/src/**/*.py")]:
        for letter, number in re.findall(r"Design: [^\n]*?\b([JPL])(\d+)\b", path.read_text(encoding="utf-8")):
            if int(number) > RULES[letter]:
                beyond.add((path.name, f"{letter}{number}"))
    assert beyond == set()
