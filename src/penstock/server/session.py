"""A session: one run of `penstock`, with what its global flags said and where its output goes.

Data goes to stdout, in the form `--output` chose; talk (progress, notes, errors) goes to stderr. What a command does
not use is not loaded: the configuration is read when first asked for, and rich when first printed with.
"""

import os
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from penstock.plumbing.config import Effective, FlagValue
    from penstock.plumbing.process.health import Health

__all__ = ["OutputFormat", "Session"]

OutputFormat = Literal["text", "json"]


class Session:
    """Passed to every verb."""

    def __init__(
        self,
        output: OutputFormat = "text",
        *,
        config_file: Path | None = None,
        settings: tuple[str, ...] = (),
        log_level: str | None = None,
        debug: bool = False,
    ) -> None:
        self.output = output
        self.debug = debug
        self._config_file = config_file
        self._settings = settings
        self._log_level = log_level

    @cached_property
    def health(self) -> "Health":
        """The health checks of the roles that this run starts."""
        from penstock.plumbing.process.health import Health

        return Health()

    @property
    def wants_json(self) -> bool:
        return self.output == "json"

    @cached_property
    def effective(self) -> "Effective":
        """The configuration in force, with the origin of each value."""
        from penstock.plumbing.config import load

        return load(self._flags(), os.environ, self._config_file)

    def start_logs(self, *, quiet: bool = False) -> None:
        """Send the log to stderr. A verb which runs more than itself calls this first.

        A quiet one shows warnings and errors only, unless the user chose a level.
        """
        from penstock.plumbing.config import ConfigSource, LogSection, Secret, known_keys
        from penstock.plumbing.process.logs import start_logs

        log = self.effective.config.log
        if quiet and self.effective.origins["log.level"].source is ConfigSource.DEFAULT:
            log = LogSection(level="warning", format=log.format)
        values = (self.effective.value(name) for name in known_keys())
        start_logs(log, secrets=[one for one in values if isinstance(one, Secret)], when_needed=quiet)

    def emit(self, data: Any, *renderables: "RenderableType") -> None:
        """Print data: as one JSON value, or as what people read."""
        if self.wants_json:
            from penstock.server.output import write_json

            write_json(data, sys.stdout)
        else:
            from penstock.server.output import write_text

            write_text(self.stdout, *renderables)

    def emit_verbatim(self, data: Any, text: str) -> None:
        """Print data whose text is for a file or a shell: as it is, whatever the width."""
        if self.wants_json:
            self.emit(data)
        else:
            sys.stdout.write(text)

    def say(self, message: str) -> None:
        """Write a message for people to stderr, so that it never mixes with data."""
        self.stderr.print(message, highlight=False, markup=False)

    @cached_property
    def stdout(self) -> "Console":
        from penstock.server.output import make_console

        return make_console(sys.stdout)

    @cached_property
    def stderr(self) -> "Console":
        from penstock.server.output import make_console

        return make_console(sys.stderr)

    def _flags(self) -> "list[FlagValue]":
        from penstock.kernel.errors import ConfigError
        from penstock.plumbing.config import FlagValue

        flags = []
        for setting in self._settings:
            name, equals, value = setting.partition("=")
            if not equals:
                raise ConfigError(
                    f"--set {setting}: expected KEY=VALUE, like --set log.level=debug", next_step="penstock config keys"
                )
            flags.append(FlagValue(name.strip(), value, f"--set {name.strip()}"))
        if self._log_level is not None:
            flags.append(FlagValue("log.level", self._log_level, "--log-level"))
        return flags
