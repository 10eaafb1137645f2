"""Blocking classes, made from the classes for asyncio: the same methods, without `await`.

    @blocking(AsyncJournal)
    class Journal(Blocking[AsyncJournal]): ...      # every public method of AsyncJournal

A coroutine becomes a call that waits, an asynchronous iterator an iterator, an asynchronous context manager a context
manager. An object of an asynchronous class that a method returns becomes an object of its blocking class. Methods that
the class body defines stay as they are. Type checkers read the module's stub, which
`python -m penstock_lab.papers` writes.
"""

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import Any, Final, Generic, TypeVar, cast

from penstock.plumbing.process.loop_thread import LoopThread

__all__ = ["Blocking", "blocking", "blocking_names", "made_methods"]

A = TypeVar("A")
B = TypeVar("B")
_ENTER: Final = {"__aenter__": "__enter__", "__aexit__": "__exit__"}
_CALLED: Final = {*_ENTER, "__call__", "__repr__"}  # methods with such names are made, too
_classes: Final[dict[type[Any], type[Any]]] = {}  # asynchronous → blocking
_methods: Final[dict[type[Any], dict[str, Any]]] = {}


class Blocking(Generic[A]):
    """The base of blocking classes: one object for asyncio, which does the work."""

    _async: A

    def __init__(self, made: A) -> None:
        self._async = made


def blocking(source: type[Any], *, without: Iterable[str] = ()) -> Callable[[type[B]], type[B]]:
    """Give a class the public methods of an asynchronous one. `without`: methods that make no sense here."""

    def give(target: type[B]) -> type[B]:
        members = _members(source, target, without)
        for name, member in members.items():
            setattr(target, _ENTER.get(name, name), _made(name, member))
        _classes[source] = target
        _methods[target] = members
        return target

    return give


def made_methods() -> dict[type[Any], dict[str, Any]]:
    """Return the blocking classes that are loaded, each with the asynchronous members that its methods were made of."""
    return dict(_methods)


def blocking_names() -> dict[str, str]:
    """Return the name of the blocking class for the name of each asynchronous one."""
    return {source.__name__: target.__name__ for source, target in _classes.items()}


def _members(source: type[Any], target: type[Any], without: Iterable[str]) -> dict[str, Any]:
    """Return public members of `source` that neither the target's body nor its blocking base defines."""
    known = set(without)
    found: dict[str, Any] = {}
    for kind in source.__mro__:
        if kind is object or (kind is not source and kind in _classes):
            break
        for name, member in vars(kind).items():
            is_public = not name.startswith("_") or name in _CALLED
            is_code = callable(member) or isinstance(member, property)
            if is_public and is_code and name not in known and _ENTER.get(name, name) not in vars(target):
                found.setdefault(name, member)
    return found


def _made(name: str, member: Any) -> Any:
    if isinstance(member, property):
        return property(lambda self: _over(getattr(self._async, name)), doc=member.__doc__)
    if name in _ENTER:
        return _enter if name == "__aenter__" else _exit

    @functools.wraps(member)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        source = self._async
        value = _ended(getattr(source, name)(*args, **options))
        return self if value is source else _over(value)

    call.__qualname__ = call.__qualname__.removeprefix("Async")
    del call.__wrapped__  # it is a coroutine function, and this one is not
    call.__signature__ = inspect.signature(member)  # type: ignore[attr-defined]
    return call


def _enter(self: Any) -> Any:
    """Begin a block."""
    LoopThread.shared().run(self._async.__aenter__())
    return self


def _exit(
    self: Any, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
) -> None:
    """End a block."""
    LoopThread.shared().run(self._async.__aexit__(kind, error, trace))


def _ended(value: Any) -> Any:
    """Wait for a coroutine, and turn asynchronous iterators and blocks into blocking ones."""
    if inspect.iscoroutine(value):
        return LoopThread.shared().run(value)
    if isinstance(value, AbstractAsyncContextManager) and type(value) not in _classes:
        return _Block(value)
    if isinstance(value, AsyncIterator):
        return LoopThread.shared().iterate(value)
    return value


def _over(value: Any) -> Any:
    """Return the blocking object of an asynchronous one; other values as they are."""
    target = _classes.get(type(value))
    if target is None:
        return value
    made: Any = object.__new__(target)
    made._async = value
    return made


class _Block(AbstractContextManager[Any]):
    """An asynchronous block, from a thread."""

    def __init__(self, block: AbstractAsyncContextManager[Any]) -> None:
        self._block = block

    def __enter__(self) -> Any:
        return _over(LoopThread.shared().run(_entered(self._block)))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return LoopThread.shared().run(_exited(self._block, error))


async def _entered(block: AbstractAsyncContextManager[Any]) -> Any:
    return await block.__aenter__()


async def _exited(block: AbstractAsyncContextManager[Any], error: BaseException | None) -> bool:
    trace = error.__traceback__ if error is not None else None
    try:
        return bool(await cast("Any", block).__aexit__(type(error) if error else None, error, trace))
    except BaseException as raised:
        if raised is error:
            return False  # raised again where it came from
        raise
