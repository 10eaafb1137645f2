"""`penstock errors`: what an error code means, and what to do next."""

import difflib
from typing import Annotated, Any

from cyclopts import Parameter

from penstock.cli.help import examples
from penstock.cli.noun import InSession, noun
from penstock.kernel.errors import InvalidArgument, PenstockError
from penstock.server.error_guide import error_kinds, guide
from penstock.server.output import make_table

__all__ = ["app", "as_data"]

app = noun(
    "errors",
    "What an error code means, and what to do next.",
    try_this=("penstock errors list", "penstock errors explain config"),
)

_YES_NO = {True: "yes", False: "no"}


def as_data(kind: type[PenstockError]) -> dict[str, Any]:
    """Return the full description of a kind of error."""
    explained = guide(kind.code)
    return {
        "code": kind.code,
        "name": kind.__name__,
        "meaning": _meaning(kind),
        "cause": explained.cause,
        "next_step": explained.next_step,
        "fault": kind.fault.value,
        "written": kind.written.value,
        "retryable": kind.retryable,
    }


def _meaning(kind: type[PenstockError]) -> str:
    if kind is PenstockError:
        return "An error of a kind this version does not know."
    return (kind.__doc__ or "").partition("\n")[0]


@app.command(
    name="list", help_epilogue=examples("penstock errors list", "penstock errors list --output json | jq -r '.[].code'")
)
def list_errors(*, session: InSession) -> None:
    """List every error code: who is at fault, whether anything was written, whether a retry may help."""
    kinds = [as_data(kind) for kind in error_kinds()]
    rows = [[one["code"], one["fault"], one["written"], _YES_NO[one["retryable"]], one["meaning"]] for one in kinds]
    session.emit(kinds, make_table(["code", "at fault", "written", "retry", "meaning"], rows))


def _codes(_context: Any) -> dict[str, str]:
    return {kind.code: guide(kind.code).cause for kind in error_kinds()}


@app.command(
    help_epilogue=examples("penstock errors explain config", "penstock errors explain wal-corrupt --output json")
)
def explain(
    code: Annotated[str, Parameter(help="The code, as `errors list` and `--output json` show it.", completer=_codes)],
    /,
    *,
    session: InSession,
) -> None:
    """Explain one error code: how it comes about, and what to do next."""
    kinds = {kind.code: kind for kind in error_kinds()}
    if code not in kinds:
        near = difflib.get_close_matches(code, kinds, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InvalidArgument(f"no error has the code {code}{hint}", next_step="penstock errors list")
    data = as_data(kinds[code])
    session.emit(
        data,
        f"{data['code']}: {data['meaning']}",
        "",
        data["cause"],
        f"At fault: {data['fault']}. Written: {data['written']}. Retry: {_YES_NO[data['retryable']]}.",
        f"Next: {data['next_step']}",
    )
