"""Workloads by name."""

import pytest

from penstock.kernel.errors import NotFound
from penstock_lab.sim.workloads import WORKLOADS, find, workload_class


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_says_what_it_is(name: str) -> None:
    workload = workload_class(name)
    assert workload.name == name
    assert workload.about
    assert find(name)().name == name


def test_unknown_names_are_refused_with_what_there_is() -> None:
    with pytest.raises(NotFound, match="there are: limbo-queue"):
        find("limbo")
    with pytest.raises(NotFound, match="it has: acks-counted-twice"):
        find("limbo-queue", mutant="typo")
