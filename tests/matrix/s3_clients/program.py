"""A program of one S3 client: its steps, and the place where the gateway serves. It runs in the clients' environment.

Each step is a function; its docstring is the row of the table that the documentation shows.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Final

__all__ = ["BUCKET", "ENDPOINT", "KEY", "REGION", "ROOT", "SECRET", "Step", "main"]

ENDPOINT: Final = os.environ.get("S3_ENDPOINT", "")
KEY: Final = os.environ.get("AWS_ACCESS_KEY_ID", "")
SECRET: Final = os.environ.get("AWS_SECRET_ACCESS_KEY", "")
BUCKET: Final = os.environ.get("S3_BUCKET", "")
REGION: Final = "us-east-1"
ROOT: Final = f"{BUCKET}/main"

Step = Callable[[], None]


def main(*steps: Step) -> None:
    """Run all steps and print a line of JSON for each."""
    for step in steps:
        row = {"step": (step.__doc__ or step.__name__).strip().rstrip("."), "error": ""}
        try:
            step()
        except Exception as error:
            traceback.print_exc()
            row["error"] = f"{type(error).__name__}: {error}"[:500]
        print(json.dumps(row))
    sys.stdout.flush()
    os._exit(0)  # at an ordinary end, threads of native clients abort the process now and then
