"""Run tests of real parts inside a world: their tasks then live on the loop of one process of it."""

import inspect
import time
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import pytest

from penstock_lab.world.ports.links import Links
from penstock_lab.world.process import Computer, Life
from penstock_lab.world.world import World

__all__ = ["all_inside", "inside", "new_process", "process"]

_now: list[Life] = []


def new_process(seed: int | str = 1) -> Life:
    """A process on a machine of its own, of which only the loop runs."""
    world = World(seed, epoch_ns=time.time_ns())
    machine = Computer(world, Links(world), "m1")
    machine.process = Life(machine, lambda _: None)
    return machine.process


@pytest.fixture(autouse=True)
def process() -> Iterator[Life]:
    """The process that tests run in."""
    made = new_process()
    _now.append(made)
    yield made
    _now.pop()
    made.world.end()


def inside(test: Callable[..., Any]) -> Callable[..., None]:
    """Make a test that is a coroutine one that runs in the process of the fixture."""

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        _now[-1].loop.run_until_complete(test(*args, **kwargs))

    return run


def all_inside(namespace: dict[str, Any]) -> None:
    """Do so for every test of a module or a class."""
    for name, found in list(namespace.items()):
        if name.startswith("test_") and inspect.iscoroutinefunction(found):
            namespace[name] = inside(found)
