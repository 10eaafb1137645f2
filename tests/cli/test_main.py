import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.cli.terminal import Golden, Penstock, transcript

from penstock import __version__
from penstock.cli.main import nouns
from penstock.kernel.errors import ErrorRecord


def real(*arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    """`penstock` as a process of its own."""
    environment = {**os.environ, "COLUMNS": "80", **settings}
    command = [sys.executable, "-m", "penstock", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)


MISUSE = [
    "erors list",
    "errors explian config",
    "errors explain",
    "errors explain wal-corupt",
    "bench wire --repeats many",
    "bench wire --repeats 0",
    "bench wire --repeat 3",
    "bench wire extra words",
    "--output yaml version",
    "version --outptu json",
    "config check --set wire",
    "config check --set wire.listn=a:1",
    "config keys nothing",
]


def test_misuse_says_what_is_meant_and_exits_2(penstock: Penstock, golden: Golden) -> None:
    text = transcript(penstock, MISUSE)
    assert text.count("[2]\n") == len(MISUSE)
    golden("misuse", text)


@pytest.mark.parametrize("command", MISUSE)
def test_a_refusal_prints_nothing_on_stdout_and_has_a_next_step(penstock: Penstock, command: str) -> None:
    outcome = penstock(*command.split())
    assert outcome.stdout == ""
    happened, following = outcome.stderr.splitlines()  # these commands only read, so no line tells the outcome
    assert happened.startswith("error: ")
    assert following.startswith("Next: penstock ")


def test_in_json_a_refusal_is_a_record(penstock: Penstock) -> None:
    outcome = penstock("errors", "explain", "nothing-like-it", "--output", "json")
    assert (outcome.status, outcome.stdout) == (2, "")
    record = msgspec.json.decode(outcome.stderr, type=ErrorRecord)
    assert record.code == "invalid-argument"
    assert record.next_step == "penstock errors list"
    parsing = penstock("--output", "json", "errors", "explian")
    assert msgspec.json.decode(parsing.stderr, type=ErrorRecord).code == "invalid-argument"


@pytest.mark.parametrize(
    "arguments",
    [["--output", "json", "version"], ["version", "--output", "json"], ["version", "--output=json"]],
    ids=" ".join,
)
def test_global_flags_stand_anywhere(penstock: Penstock, arguments: list[str]) -> None:
    assert msgspec.json.decode(penstock(*arguments).stdout)["penstock"] == __version__


def test_the_version_is_quick_to_ask_for(penstock: Penstock) -> None:
    assert penstock("--version").stdout == f"{__version__}\n"


@pytest.fixture
def defect(pond: Path) -> str:
    (pond / "pond.py").write_text('QUESTION = "?"\ndef run(recorder, options):\n    return 1 / 0\n')
    return "pond"


def test_what_nobody_foresaw_is_one_clear_line_and_the_way_to_the_trace(penstock: Penstock, defect: str) -> None:
    outcome = penstock("bench", defect)
    assert outcome.status == 1
    happened, _, following = outcome.stderr.splitlines()
    assert "a defect in Penstock, ZeroDivisionError: division by zero (" in happened
    assert happened.endswith("pond.py:3)")
    assert "--debug" in following
    assert "Traceback" not in outcome.stderr


def test_debug_shows_the_trace(penstock: Penstock, defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Traceback" in penstock("bench", defect, "--debug").stderr
    monkeypatch.setenv("PENSTOCK_DEBUG", "1")
    assert "Traceback" in penstock("bench", defect).stderr
    monkeypatch.setenv("PENSTOCK_DEBUG", "0")
    assert "Traceback" not in penstock("bench", defect).stderr


def test_a_defect_is_a_record_too(penstock: Penstock, defect: str) -> None:
    record = msgspec.json.decode(penstock("bench", defect, "--output", "json").stderr, type=ErrorRecord)
    assert record.code == "internal"
    assert record.written.value == "unknown"


def test_python_m_penstock_is_penstock() -> None:
    done = real("errors", "explain", "config", "--output", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert msgspec.json.decode(done.stdout)["code"] == "config"


def test_a_terminal_that_cannot_spell_a_sign_is_no_reason_to_fail() -> None:
    done = real("config", "example", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "s3://bucket/prefix?region=?" in done.stdout


def test_ctrl_c_ends_it_with_130_and_without_a_trace(tmp_path: Path) -> None:
    waits = tmp_path / "waits.py"
    waits.write_text(
        'import time\nQUESTION = "?"\n\n\ndef run(recorder, options):\n'
        '    recorder.progress("waiting")\n    time.sleep(60)\n'
    )
    code = (
        "import signal, sys, penstock_lab.bench\nfrom penstock.cli.main import run\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # shells let background processes ignore it
        f"penstock_lab.bench.__path__.append({str(tmp_path)!r})\nsys.exit(run(['bench', 'waits']))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("bench waits: waiting")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "")


def test_what_a_benchmark_and_its_processes_print_is_not_among_the_data(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(
        'import subprocess\nQUESTION = "?"\n\n\ndef run(recorder, options):\n'
        '    print("by itself")\n    subprocess.run(["echo", "by a child"], check=True)\n'
    )
    code = (
        "import sys, penstock_lab.bench\nfrom penstock.cli.main import run\n"
        f"penstock_lab.bench.__path__.append({str(tmp_path)!r})\nsys.exit(run(['bench', 'loud', '--output', 'json']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert msgspec.json.decode(done.stdout)["bench"] == "loud"
    assert sorted(done.stderr.splitlines()) == ["by a child", "by itself"]


def test_a_broken_pipe_is_quiet() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "penstock", "errors", "list"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


HEAVY = {
    "asyncio",
    "grpc",
    "msgspec",
    "numpy",
    "obstore",
    "prometheus_client",
    "pyarrow",
    "pyspark",
    "structlog",
    "uvloop",
}


LISTED = "import sys\nfrom penstock.cli.main import run\nfor one in {}: run(one)\nprint(*sys.modules, file=sys.stderr)"


def modules_after(*commands: list[str]) -> set[str]:
    """Return the modules that are loaded after the commands ran in one process."""
    code = LISTED.format(list(commands))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stderr.split())


def test_the_first_page_loads_nothing_heavy() -> None:
    loaded = modules_after(["--help"], ["--version"])
    assert "cyclopts" in loaded
    assert not loaded & HEAVY
    assert not [name for name in loaded if name.startswith(("penstock.plumbing", "penstock_lab"))]


def test_no_noun_loads_what_only_a_server_needs() -> None:
    loaded = modules_after(*([noun, "--help"] for noun in nouns()))
    assert "penstock_lab.commands.bench" in loaded
    assert not loaded & {"grpc", "numpy", "obstore", "pyarrow", "pyspark"}
