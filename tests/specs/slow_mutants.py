"""The specification bites: with any one rule broken, or taken as literally as it was first written, TLC finds the harm.

Each file of specs/mutants and specs/literal names the rule and the one invariant which must fall.
"""

import re
from pathlib import Path

import pytest
from tests.specs.tlc import SPECS, Tlc

BROKEN = sorted([*SPECS.glob("mutants/*.cfg"), *SPECS.glob("literal/*.cfg")])
MUTANT = re.compile(r'Mutant (?:=|#) "([^"]*)"')
SMALL = (SPECS / "Elections.cfg").read_text()
ALL_INVARIANTS = SMALL[SMALL.index("INVARIANTS") :]


def setting(config: Path, name: str) -> str:
    """What a configuration says of this."""
    found = re.search(rf"^\s*{name}(?: =)? (.*)$", config.read_text(), re.MULTILINE)
    assert found is not None, f"{config} has no {name}"
    return found[1].strip('"')


def starts() -> dict[str, Path]:
    """Initial states in the middle of a story, each with a configuration which uses it."""
    inits = {setting(config, "INIT"): config for config in BROKEN}
    return {init: config for init, config in inits.items() if init != "Steady"}


@pytest.mark.parametrize("config", BROKEN, ids=lambda path: path.stem)
def test_the_harm_is_found(tlc: Tlc, config: Path) -> None:
    outcome = tlc.check("MCQuorumLog", config)
    assert outcome.violated == setting(config, "(?:INVARIANT|PROPERTY)")
    assert len(outcome.behaviour) > 1, "a wrong start proves nothing"


@pytest.mark.parametrize("start", starts())
def test_the_start_of_a_story_is_innocent(tlc: Tlc, tmp_path: Path, start: str) -> None:
    text = starts()[start].read_text()
    unbroken = re.sub(r'Mutant = ".*"', 'Mutant = "none"', text[: text.index("INVARIANT")])
    config = tmp_path / "unbroken.cfg"
    config.write_text(unbroken + ALL_INVARIANTS)
    assert tlc.check("MCQuorumLog", config).violated is None


def test_every_mutant_has_its_world() -> None:
    known = {name for path in SPECS.glob("QuorumLog*.tla") for name in MUTANT.findall(path.read_text())}
    tried = {setting(config, "Mutant") for config in BROKEN}
    assert known | {"none"} == tried | {"none"}
