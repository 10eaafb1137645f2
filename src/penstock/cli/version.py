"""`penstock version`: the versions of Penstock, Python and the main packages."""

import platform

from penstock.cli.noun import InSession, noun
from penstock.kernel.version import VERSION

__all__ = ["app"]

app = noun(
    "version",
    "Print the versions of Penstock, Python and the main packages.",
    try_this=("penstock version", "penstock version --output json"),
)


@app.default
def version(*, session: InSession) -> None:
    """Print the version of Penstock, of Python and of the system."""
    data = {
        "penstock": VERSION,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }
    session.emit(data, *(f"{name:9} {value}" for name, value in data.items()))
