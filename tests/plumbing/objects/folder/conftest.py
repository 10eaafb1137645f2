"""System calls which fail, kill, or are watched: the real ones underneath."""

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest

from penstock.plumbing.objects.folder.syscalls import Syscalls

NAMES = [name for name in vars(Syscalls) if not name.startswith("_")]


class Interrupted(Syscalls):
    """Calls `before(number, name)` ahead of every call; what that raises is what the call raises."""

    def __init__(self, before: Callable[[int, str], None]) -> None:
        self.calls: list[str] = []
        self._before = before

    def __getattribute__(self, name: str) -> Any:
        call = super().__getattribute__(name)
        if name not in NAMES:
            return call

        def interrupted(*arguments: Any) -> Any:
            self.calls.append(name)
            self._before(len(self.calls), name)
            return call(*arguments)

        return interrupted


def failing_at(number: int, code: int) -> Interrupted:
    def before(at: int, name: str) -> None:
        if at == number:
            raise OSError(code, os.strerror(code), name)

    return Interrupted(before)


@pytest.fixture
def failing() -> Callable[[int, int], Interrupted]:
    return failing_at


@pytest.fixture
def watched() -> Interrupted:
    return failing_at(0, errno.EIO)
