import sys
from pathlib import Path

import pytest
import structlog
from tests.cli.terminal import Penstock

from penstock.kernel.errors import ConfigError
from penstock.server.session import Session

pytestmark = pytest.mark.usefixtures("penstock")


def test_flags_become_configuration_with_their_spelling() -> None:
    session = Session(settings=("wire.listen=a:1", "wire.token=a=b"), log_level="debug")
    assert str(session.effective.config.wire.listen) == "a:1"
    assert session.effective.config.wire.token is not None
    assert session.effective.config.wire.token.reveal() == "a=b"
    assert str(session.effective.origins["log.level"]) == "--log-level"


def test_a_setting_without_a_value_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected KEY=VALUE"):
        Session(settings=("wire.listen",)).effective  # noqa: B018


def test_the_configuration_is_read_once(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text('[log]\nlevel = "error"\n')
    session = Session(config_file=file)
    assert session.effective.config.log.level == "error"
    file.unlink()
    assert session.effective.config.log.level == "error"


@pytest.mark.parametrize(
    ("session", "heard"),
    [(Session(), ["info", "warning"]), (Session(log_level="error"), [])],
    ids=["as configured", "chosen"],
)
def test_logs_go_to_stderr_and_obey_the_level(
    session: Session, heard: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    session.start_logs()
    structlog.get_logger().info("an event")
    structlog.get_logger().warning("an event")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert [level for level in ("info", "warning") if f'"level":"{level}"' in captured.err] == heard


def test_a_quiet_command_logs_warnings_unless_told_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    for session in (Session(), Session(log_level="info")):
        session.start_logs(quiet=True)
        structlog.get_logger().info("an event")
    assert capsys.readouterr().err.count("an event") == 1


def test_secrets_of_the_configuration_are_masked_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    Session(settings=("wire.token=hunter2hunter2",)).start_logs()
    structlog.get_logger().warning("connecting to http://me:hunter2hunter2@host")
    assert "hunter2" not in capsys.readouterr().err


def test_talk_and_data_do_not_mix(capsys: pytest.CaptureFixture[str]) -> None:
    session = Session("json")
    session.say("working [on it]")
    session.emit({"done": True}, "done")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ('{"done":true}\n', "working [on it]\n")


def test_a_broken_configuration_does_not_stop_what_needs_none(penstock: Penstock) -> None:
    Path("penstock.toml").write_text("[nonsense")
    assert penstock("errors", "explain", "config").status == 0
    assert penstock("config", "check").status == 2
    assert "penstock.toml" in penstock("config", "show").stderr
    assert sys.stdout is not None
