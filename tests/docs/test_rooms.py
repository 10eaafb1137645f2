"""Each room has a README, its contract: its files exist, and its events and effects are those of the core."""

import re
from importlib import import_module
from inspect import getmembers, isclass
from pathlib import Path

import pytest

from penstock.kernel.effects import Effect, Event

HOUSE = Path(__file__).parents[2] / "src/penstock"
ROOMS = sorted(path.name for path in HOUSE.iterdir() if (path / "__init__.py").exists())
CORES = {  # the module of each room in which its events and effects are declared
    "journals": "penstock.journals.core.effects",
    "quorum": "penstock.quorum.records.effects",
    "consumers": "penstock.consumers.core.effects",
    "lake": "penstock.lake.core.staging.proposing.port",
}
QUESTIONS = {  # what newcomers ask, and the file that answers: a README leads to it in two steps
    "Where is an append fenced?": "journals/core/replicate.py",
    "What deletes a fragment?": "journals/broker/fragments.py",
    "Who retries a commit of the lake?": "lake/core/staging/proposing/proposals.py",
    "Where does Spark ask what to read?": "spark/journals/ranges.py",
    "What happens when a broker's disk is full?": "journals/broker/spools/room.py",
    "Who decides that a leader is dead?": "quorum/core/watch.py",
    "Where is a message recognised as a duplicate?": "messages/outcome.py",
    "What is durable before an answer leaves?": "kernel/effects.py",
    "Where is a signature checked?": "lake/s3/protocol/signature.py",
    "How does a consumer's transaction survive a crash?": "consumers/core/transaction.py",
    "What may be removed from a data folder?": "kernel/formats.py",
    "Where would a new object store be added?": "plumbing/objects/opening.py",
}


def readme(room: str) -> str:
    return (HOUSE / room / "README.md").read_text(encoding="utf-8")


def declared(module: str, kind: type) -> set[str]:
    found = getmembers(import_module(module), lambda member: isclass(member) and issubclass(member, kind))
    return {name for name, member in found if member.__module__ == module}


def listed(room: str, word: str) -> set[str]:
    (paragraph,) = re.findall(rf"^\*\*{word}[^`]*(?:`\.\./[^`]*`)?(.*?)\n\n", readme(room), re.MULTILINE | re.DOTALL)
    return set(re.findall(r"`([A-Z]\w+)`", paragraph))


@pytest.mark.parametrize("room", ROOMS)
def test_every_file_that_a_readme_names_exists(room: str) -> None:
    named = re.findall(r"`([\w./]+(?:\.py|/))`", readme(room))
    assert named
    top = HOUSE.parents[1]
    roots = {"docs": top, "specs": top, "tests": top}
    missing = [each for each in named if not (roots.get(each.partition("/")[0], HOUSE / room) / each).exists()]
    assert [each for each in missing if not _is_data(each)] == []


def _is_data(name: str) -> bool:
    """Return whether it names a file of a data folder or a store, not one of the tree."""
    return name.startswith(("quarantine/", "set-aside/", "scratch/", "spools/", "shards/", "_penstock/", "NAMESPACE/"))


@pytest.mark.parametrize("room", CORES)
def test_a_readme_lists_the_events_and_effects_of_its_core(room: str) -> None:
    assert listed(room, "Events") == declared(CORES[room], Event)
    assert listed(room, "Effects") == declared(CORES[room], Effect)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_readme_leads_to_the_answer(question: str) -> None:
    room, _, file = QUESTIONS[question].partition("/")
    (row,) = re.findall(rf"^\| {re.escape(question)} \| (.*) \|$", readme(room), re.MULTILINE)
    assert f"`{file}`" in row
