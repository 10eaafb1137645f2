import pytest
from tests.cli.terminal import Penstock


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("confg show", "no command is named confg; did you mean config?"),
        ("zzzz", "no command is named zzzz; there are "),
        ("version --outptu json", "no flag is named --outptu; did you mean --output?"),
        ("config show --chnged", "no flag is named --chnged; did you mean --changed?"),
        ("config show --zzzzzzz", "no flag is named --zzzzzzz"),
        ("version once more", "nothing takes once more"),
        ("config shw", 'Unknown command "shw". Did you mean "show"?'),
    ],
)
def test_what_was_probably_meant(penstock: Penstock, command: str, said: str) -> None:
    outcome = penstock(*command.split())
    assert outcome.status == 2
    assert outcome.stderr.startswith(f"error: {said}")


def test_the_next_step_is_the_page_of_the_command(penstock: Penstock) -> None:
    assert penstock("errors", "explain").stderr.endswith("Next: penstock errors explain --help\n")
    assert penstock("zzzz").stderr.endswith("Next: penstock --help\n")
