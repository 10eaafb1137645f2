"""Epochs: one for each pipeline that was ever built. Design: journals.md J1.

An epoch is the KeySpace revision at which its primary read its Route, and a number for the pipelines which this process
built at that revision. It is unique: at one revision a Route names one primary, and a process which was restarted holds
another lease, so it reads its Route at a higher revision.
"""

import msgspec

from penstock.kernel.ids import Revision

__all__ = ["NO_EPOCH", "PipelineEpoch"]


class PipelineEpoch(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """Epochs compare by revision first, then by number.

    >>> PipelineEpoch(Revision(7), 1) < PipelineEpoch(Revision(7), 2) < PipelineEpoch(Revision(9), 1)
    True
    """

    revision: Revision
    n: int

    def __str__(self) -> str:
        return f"{self.revision}.{self.n}"


NO_EPOCH = PipelineEpoch(Revision(0), 0)
