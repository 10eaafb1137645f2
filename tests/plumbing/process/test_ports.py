"""Ports: nobody else is given them while they are held, and connections do not take them."""

import socket
import subprocess
import sys

import pytest

from penstock.kernel.errors import LimitExceeded
from penstock.plumbing.process import ports
from penstock.plumbing.process.ports import LOWEST, ReservedPorts


def test_they_differ_and_can_be_listened_on() -> None:
    with ReservedPorts(20) as found:
        assert len(set(found.numbers)) == 20
        assert all(LOWEST <= port < ports._highest() for port in found.numbers)
        for port in found.numbers:
            with socket.create_server(("127.0.0.1", port)):
                pass


def test_what_is_held_or_listened_on_is_not_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_highest", lambda: LOWEST + 3)
    monkeypatch.setattr(ports, "TRIES_MAX", 200)
    with ReservedPorts(1) as mine, ReservedPorts(1) as other, socket.socket() as listener:
        (last,) = {LOWEST, LOWEST + 1, LOWEST + 2} - {*mine.numbers, *other.numbers}
        listener.bind(("127.0.0.1", last))
        with pytest.raises(LimitExceeded, match="no 1 free ports"):
            ReservedPorts(1)
    with ReservedPorts(3) as again:
        assert sorted(again.numbers) == [LOWEST, LOWEST + 1, LOWEST + 2]


def test_another_process_is_not_given_them_either() -> None:
    script = (
        "import sys; from penstock.plumbing.process import ports;"
        "low, high = map(int, sys.argv[1:]); ports.LOWEST = low;"
        "ports._highest = lambda: high; print(ports.ReservedPorts(1).numbers)"
    )
    with ReservedPorts(1) as mine:
        (port,) = mine.numbers
        found = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", script, str(port), str(port + 2)],
            capture_output=True,
            text=True,
            check=True,
        )
    assert found.stdout.strip() == str([port + 1])
