"""Find the line of the user's code in an error, and the error's own words. Design: spark-2.md S14.

    shop.py, line 12, in orders: ValueError: cannot work with 13.37

An error is the user's if their file, or a module next to it, is in the trace. The cause is the innermost Python error,
without what Spark, py4j and the worker's pipe wrap around it. If there is none, it is the innermost Java error.
"""

import importlib
import inspect
import re
import site
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from pyspark import cloudpickle

import penstock
from penstock.kernel.errors import InvalidArgument, LocalError, PenstockError

__all__ = ["Blame", "UserCode", "cause_of"]

WRAPPERS: Final = frozenset(
    {
        "ForeachBatchUserFuncException",
        "Py4JException",
        "Py4JJavaError",
        "PythonException",
        "SparkException",
        "StreamingQueryException",
    }
)
TRACE: Final = "Traceback (most recent call last):"
_FRAME: Final = re.compile(r'^\s+File "([^"]+)", line (\d+), in (.+?)\s*$')
_ERROR: Final = re.compile(r"^(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)(?:: (.*)|:)?$")
_JAVA: Final = re.compile(r"(?:[a-z_]\w*\.)+([A-Z][\w$]*(?:Exception|Error)): (.+)")
_CALLED: Final = re.compile(r"was called from\s+(\S.*?):(\d+)\s*$", re.MULTILINE)  # Spark's own note of a column's line
_STATE: Final = re.compile(r"\s*SQLSTATE: \w+\s*$")
_OPENING: Final = re.compile(r"^\[STREAM_FAILED\].*?exception: ")


class Blame(msgspec.Struct, frozen=True):
    """An error as the user should see it: where in their code (empty: not there), and what."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


class UserCode(msgspec.Struct, frozen=True):
    """The file of a pipeline, and the modules next to it."""

    file: Path | None = None

    @classmethod
    def of(cls, function: Callable[..., Any]) -> "UserCode":
        """Return the code of which a function is a part; that of no file for one from a notebook."""
        code = getattr(inspect.unwrap(function), "__code__", None)
        file = Path(code.co_filename) if code is not None else None
        return cls(file.resolve() if file is not None and file.is_file() else None)

    def has(self, name: str) -> bool:
        """Return True for the user's file, and for modules below its folder that no installation has put there."""
        if self.file is None:
            return False
        path = Path(name)
        if path == self.file:
            return True
        is_near = path.is_absolute() and path.is_relative_to(self.file.parent)
        return is_near and not any(path.is_relative_to(each) for each in _installed())

    def place(self, file: str, line: int, function: str) -> str:
        """Return how a line of the user's is named."""
        assert self.file is not None
        path = Path(file)
        shown = path.relative_to(self.file.parent) if path.is_relative_to(self.file.parent) else path
        return f"{shown}, line {line}" + ("" if function in ("", "<module>") else f", in {function}")

    def cause(self, error: BaseException) -> Blame:
        """Return an error that was caught, with the innermost line of the user's in its trace."""
        what = _named(type(error).__name__, str(error))
        if isinstance(error, SyntaxError) and error.filename and self.has(error.filename):
            return Blame(self.place(error.filename, error.lineno or 0, ""), f"{type(error).__name__}: {error.msg}")
        frames = [each for each in traceback.extract_tb(error.__traceback__) if self.has(each.filename)]
        if not frames:
            return Blame("", what)
        last = frames[-1]
        return Blame(self.place(last.filename, last.lineno or 0, last.name), what)

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Raise an error of the user's code as `InvalidArgument`, with its line. Modules next to it can be imported."""
        with self._importable():
            try:
                yield
            except PenstockError as error:
                cause = self.cause(error)
                if cause.where and isinstance(error, LocalError) and cause.where not in error.message:
                    raise InvalidArgument(f"{cause.where}: {error.message}", next_step=error.next_step) from error
                raise
            except (Exception, SystemExit) as error:
                raise InvalidArgument(str(self.cause(error)), next_step=_next_step(error)) from error

    @contextmanager
    def _importable(self) -> Iterator[None]:
        if self.file is None:
            yield
            return
        folder = str(self.file.parent)
        sys.path.insert(0, folder)
        importlib.invalidate_caches()
        try:
            yield
        finally:
            sys.path.remove(folder)
            self._send_by_value()

    def _send_by_value(self) -> None:
        """Have the user's modules travel to Spark's workers, which cannot import them by name."""
        for module in list(sys.modules.values()):
            if self.has(getattr(module, "__file__", None) or ""):
                cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def cause_of(text: str, code: UserCode) -> Blame:
    """Return the innermost error in the text of an exception of Spark's."""
    return _from_python(text, code) or _from_java(text, code)


def _from_python(text: str, code: UserCode) -> Blame | None:
    found, frames, is_inside = None, list[tuple[str, int, str]](), False
    for line in text.splitlines():
        if line.rstrip().endswith(TRACE):
            frames, is_inside = [], True
            continue
        if not is_inside or line.startswith((" ", "\t")) or not line.strip():
            frame = _FRAME.match(line) if is_inside else None
            if frame is not None:
                frames.append((frame[1], int(frame[2]), frame[3]))
            continue
        is_inside = False
        error = _ERROR.match(line.strip())
        if error is not None and error[1] not in WRAPPERS:
            own = [each for each in frames if code.has(each[0])]
            found = Blame(code.place(*own[-1]) if own else "", _named(error[1], error[2] or ""))
    return found


def _from_java(text: str, code: UserCode) -> Blame:
    said = [_STATE.sub("", line.strip()) for line in text.splitlines() if not line.strip().startswith("at ")]
    errors = [each for line in said for each in _each_java(line) if each[0] not in WRAPPERS]
    called = [each for each in _CALLED.findall(text) if code.has(each[0])]
    where = code.place(called[0][0], int(called[0][1]), "") if called else ""
    if errors:
        return Blame(where, _named(*errors[-1]))
    first = next((line for line in said if line), text.strip())
    return Blame(where, _OPENING.sub("", first))


def _each_java(line: str) -> Iterator[tuple[str, str]]:
    """Yield the errors of a line: each one may have the next in its message."""
    while (match := _JAVA.search(line)) is not None:
        yield match[1], match[2]
        line = match[2]


def _named(name: str, message: str) -> str:
    first = next((line.strip() for line in message.splitlines() if line.strip()), "")
    first = _STATE.sub("", first)
    return f"{name}: {first}" if first else name


def _next_step(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"pip install {error.name.partition('.')[0]}, or put the module next to the file"
    return "correct the line, and give the command again"


def _installed() -> tuple[Path, ...]:
    """Return the folders of modules that the user did not write: Python, installed packages, Penstock."""
    if not _folders:
        named = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
        mine = [str(Path(each).resolve()) for each in penstock.__path__]
        _folders.extend(Path(each) for each in {*named, *mine, *site.getsitepackages(), site.getusersitepackages()})
    return tuple(_folders)


_folders: list[Path] = []
