"""`penstock down`: end what `penstock up` runs in a data folder."""

import os
import signal
import time
from typing import Annotated, Final

from penstock.cli.durations import duration
from penstock.cli.noun import InSession, noun
from penstock.kernel.errors import DeadlineExceeded, NotFound

__all__ = ["app"]

app = noun(
    "down",
    "Stop the server that penstock up runs in the data folder. The data stays.",
    try_this=("penstock down", "penstock down --set data.folder=/srv/penstock"),
)
LOOK_S: Final = 0.05


@app.default
def run(
    *,
    timeout: Annotated[float, duration("Give up after this time, e.g. 30s.")] = 60.0,
    session: InSession,
) -> None:
    """Stop the server that `penstock up` runs in the data folder.

    Returns when everything is stored and the ports are free. The data stays.
    """
    from penstock.plumbing.process.running import is_held, running_in

    folder = session.effective.config.data.folder
    found = running_in(folder)
    if found is None:
        raise NotFound(f"no server is running in {folder}", next_step="penstock up")
    os.kill(found.pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout
    while is_held(folder):
        if time.monotonic() > deadline:
            raise DeadlineExceeded(
                f"process {found.pid} did not stop within {timeout:g} s",
                next_step=f"kill -9 {found.pid} (acknowledged data is safe)",
            )
        time.sleep(LOOK_S)
    session.say(f"stopped; the data stays in {folder}")
