import platform

import msgspec
from tests.cli.terminal import Penstock

from penstock import __version__


def test_the_version_and_what_it_runs_on(penstock: Penstock) -> None:
    data = msgspec.json.decode(penstock("version", "--output", "json").stdout)
    assert data["penstock"] == __version__
    assert data["python"].endswith(platform.python_version())
    assert penstock("version").stdout.splitlines()[0] == f"penstock  {__version__}"
