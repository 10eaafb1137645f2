"""Every world of a test ends with it: tasks that are let go later would disturb another test."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock_lab.world.world import World


@pytest.fixture(autouse=True)
def ended_worlds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    made: list[World] = []
    begin = World.__init__

    def note(self: World, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        made.append(self)

    monkeypatch.setattr(World, "__init__", note)
    yield
    for world in made:
        world.end()
