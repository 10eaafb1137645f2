"""`penstock`: the nouns there are, the flags all of them share, and what an exit status means.

Exit status: 0 done, 1 refused or failed, 2 misuse (a wrong command line or configuration), 75 a flow whose sink another
query has, 130 interrupted. Data goes to stdout, talk to stderr. A new noun is one file in this folder and one line in
NOUNS; it is imported when it is used, so that `--help` stays quick.
"""

import inspect
import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NoReturn

from cyclopts import App, CycloptsError, Parameter

from penstock.cli.noun import GLOBAL_FLAGS, noun
from penstock.cli.renamed import current
from penstock.cli.writing import writes_data
from penstock.kernel.version import VERSION
from penstock.server.session import OutputFormat, Session

__all__ = ["LAB_NOUNS", "NOUNS", "command_tree", "main", "nouns", "run"]

# noun → where it is, and its line in `penstock --help`
NOUNS: Final = {
    "up": ("penstock.cli.machines.up:app", "Every role in one process: broker, quorum node, operator, lake."),
    "down": ("penstock.cli.machines.down:app", "End what penstock up runs in the data folder."),
    "server": ("penstock.cli.machines.server:app", "Run one machine of a cluster: all its roles in one process."),
    "status": (
        "penstock.cli.machines.status:app",
        "Show the machines of a cluster, their health, and what to do next.",
    ),
    "doctor": ("penstock.cli.machines.doctor:app", "Ask the running machines for their problems."),
    "fsck": ("penstock.cli.machines.fsck:app", "Look for damaged files. It needs no server, and only reads."),
    "cluster": (
        "penstock.cli.quorum.cluster:app",
        "A real multi-process cluster on this machine, for trying and for drills.",
    ),
    "quorum": ("penstock.cli.quorum.quorum:app", "The quorum log: its shards, their leaders and their ensembles."),
    "journals": ("penstock.cli.journals.journals:app", "Journals: their specs, their content, their fragments."),
    "shards": (
        "penstock.cli.consumers.shards:app",
        "The shards of consumers: who runs them, how far they are, why one failed.",
    ),
    "consumer": ("penstock.cli.consumers.consumer:app", "Run a consumer application, exactly once."),
    "broker": ("penstock.cli.journals.broker:app", "Run one broker of journals."),
    "node": ("penstock.cli.quorum.node:app", "Run one node of the quorum log."),
    "operator": ("penstock.cli.quorum.operator:app", "Run one operator of the quorum log."),
    "lake": ("penstock.cli.lake.lake:app", "The lake: its server, repositories, branches, commits and merges."),
    "pipeline": (
        "penstock.cli.pipelines.pipeline:app",
        "Pipelines: journals into the lake and back, by Spark, exactly once.",
    ),
    "config": ("penstock.cli.config:app", "Show, check and explain the configuration."),
    "errors": ("penstock.cli.errors:app", "What an error code means, and what to do next."),
    "completion": ("penstock.cli.completion:app", "Print the script that completes commands in your shell."),
    "version": ("penstock.cli.version:app", "Print the versions of Penstock, Python and the main packages."),
}

# the nouns of the lab, a package of its own
LAB_NOUNS: Final = {
    "bench": ("penstock_lab.commands.bench:app", "Measure Penstock next to its peers."),
    "demo": ("penstock_lab.demo.demo:app", "See it work: real processes, real faults, an audit."),
    "sim": ("penstock_lab.commands.sim:app", "Run the protocols in a deterministic world with faults."),
}

DONE: Final = 0
REFUSED: Final = 1
MISUSE: Final = 2
TAKEN: Final = 75
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141


def build() -> App:
    """The program's command tree, with nothing but names and help lines loaded."""
    app = noun(
        "penstock",
        "A replicated, transactional log that fills a versioned data lake, exactly once.",
        version=VERSION,
        try_this=(
            "penstock up                           every role in one process",
            "penstock bench list                   which questions the benchmarks answer",
            "penstock config show                  what is in force, and who said so",
            "penstock errors explain wal-corrupt   what an error means, and what to do",
            'eval "$(penstock completion bash)"    complete commands with Tab',
        ),
        result_action="return_value",
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
    )
    for name, (place, line) in nouns().items():
        app.command(place, name=name, help=line)
    if not has_lab():
        for name in LAB_NOUNS:
            app.command(_needs_lab(name), name=name, show=False)
    return app


def nouns() -> dict[str, tuple[str, str]]:
    """Return the nouns of this installation: with the lab, also those of the lab."""
    return NOUNS | LAB_NOUNS if has_lab() else NOUNS


def has_lab() -> bool:
    """Tell whether penstock-lab is installed, without loading it."""
    return find_spec("penstock_lab") is not None


def _needs_lab(name: str) -> Callable[..., None]:
    def refuse(*_: Annotated[str, Parameter(allow_leading_hyphen=True)]) -> None:
        from penstock.kernel.errors import ConfigError

        raise ConfigError(f"penstock {name} needs penstock-lab", next_step="pip install penstock-lab")

    return refuse


def command_tree() -> App:
    """The same tree with the global flags on it: for completion and the reference page."""
    return _Launcher(build()).app


def main() -> NoReturn:
    """The program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot spell a sign is no reason to fail
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit status. Every failure ends here, in words."""
    launcher = _Launcher(build())
    try:
        status = launcher(arguments)
        sys.stdout.flush()
    except CycloptsError as error:
        from penstock.cli.misuse import explain_misuse

        return launcher.fail(explain_misuse(error, launcher.app, nouns()), MISUSE)
    except KeyboardInterrupt:
        return INTERRUPTED
    except ModuleNotFoundError as error:
        refusal = launcher.without_extra(error)
        return launcher.fail(refusal, _status_of(refusal))
    except BrokenPipeError:
        # The reader of our output has seen enough. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except Exception as error:
        return launcher.fail(error, _status_of(error))
    return status


class _Launcher:
    """Parses the global flags, anywhere on the line, then runs their command."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.session = Session(debug=_debug_wanted())
        self._tokens: tuple[str, ...] = ()
        self._refusal: Exception | None = None
        app.meta.group_parameters = GLOBAL_FLAGS
        app.meta.suppress_keyboard_interrupt = False  # `run` says what its status is
        app.meta.default(self._launch)

    def __call__(self, arguments: Sequence[str]) -> int:
        try:
            arguments, notes = current(arguments)
        except Exception as error:
            self._refusal, notes = error, []  # raised in `_launch`, which knows the output format
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
        result = self.app.meta(arguments)
        return result if isinstance(result, int) else DONE

    def fail(self, error: BaseException, status: int) -> int:
        from penstock.server.output import print_error

        command = self._command()
        writes = writes_data(command.split()[1:])
        print_error(error, as_json=self.session.wants_json, debug=self.session.debug, command=command, writes=writes)
        return status

    def without_extra(self, error: ModuleNotFoundError) -> Exception:
        """Return the error that names the extra of a module which is not installed."""
        from penstock.kernel.extras import missing_extra

        return missing_extra(error, self._command()) or error

    def _command(self) -> str:
        return " ".join(["penstock", *self.app.parse_commands(self._tokens)[0]])

    def _launch(
        self,
        *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
        output: Annotated[OutputFormat, Parameter(help="How data is printed.")] = "text",
        config: Annotated[
            Path | None, Parameter(help="The configuration file. Default: penstock.toml here.", metavar="FILE")
        ] = None,
        settings: Annotated[
            tuple[str, ...],
            Parameter(name="--set", help="Set a configuration key.", metavar="KEY=VALUE", show_default=False),
        ] = (),
        log_level: Annotated[
            Literal["debug", "info", "warning", "error"] | None,
            Parameter(help="The least severe event that is logged (to stderr).", metavar="LEVEL", show_choices=False),
        ] = None,
        debug: Annotated[bool, Parameter(help="Show the trace when something fails. Or PENSTOCK_DEBUG=1.")] = False,
    ) -> Any:
        self.session = Session(
            output, config_file=config, settings=settings, log_level=log_level, debug=debug or _debug_wanted()
        )
        self._tokens = tokens
        if self._refusal is not None:
            raise self._refusal
        command, bound, injected = self.app.parse_args(tokens)
        if command.__module__.startswith("penstock"):  # a help page needs no extra
            from penstock.cli.needs import check_extra

            check_extra(self.app.parse_commands(tokens)[0])
        return _call(command, *bound.args, **bound.kwargs, **dict.fromkeys(injected, self.session))


def _call(command: Callable[..., Any], *positional: Any, **named: Any) -> Any:
    result = command(*positional, **named)
    if inspect.iscoroutine(result):
        from penstock.plumbing.process.run import run as run_async

        return run_async(result)
    return result


def _status_of(error: Exception) -> int:
    from penstock.kernel.errors import ConfigError, InvalidArgument, PreconditionFailed

    if isinstance(error, PreconditionFailed) and "flow" in error.details:
        return TAKEN
    return MISUSE if isinstance(error, InvalidArgument | ConfigError) else REFUSED


def _debug_wanted() -> bool:
    return os.environ.get("PENSTOCK_DEBUG", "") not in ("", "0")
