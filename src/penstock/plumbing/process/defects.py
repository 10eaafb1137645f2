"""Defects: exceptions that are no `PenstockError`. One ends its request, never the role. Design: integrity.md D20.

    except Exception as error:
        raise defect("lake member", error, request="…") from error

What always holds: each is counted in `penstock_defects_total` and logged once, with its trace and the request's id.
"""

from penstock.kernel.errors import InternalError, Written
from penstock.plumbing.process import metrics
from penstock.plumbing.process.logs import get_logger

__all__ = ["DEFECTS", "defect"]

log = get_logger()

DEFECTS = metrics.counter(
    "defects_total", "Exceptions that ended a request because of a defect in Penstock. The log has each.", ["role"]
)


def defect(role: str, error: BaseException, *, request: str, written: Written = Written.UNKNOWN) -> InternalError:
    """Count and log an exception; return the error that its request ends with."""
    DEFECTS.labels(role).inc()
    log.error("request ended by a defect", role=role, request=request, exc_info=error)
    return InternalError(
        f"a defect of Penstock ended this request: {type(error).__name__}; its log says more under {request}",
        written=written,
    )
