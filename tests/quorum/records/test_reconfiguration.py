import pytest
from tests.quorum.core.cluster import member, members

from penstock.kernel.errors import PreconditionFailed
from penstock.quorum.records.member import Ensemble, majority
from penstock.quorum.records.messages import Change, ChangeOp
from penstock.quorum.records.reconfiguration import fencing_ensemble, final_ensemble, validate

SWAP = Change(ChangeOp.SWAP, member("B"), member("D"))
EXPAND = Change(ChangeOp.EXPAND, None, member("D"))
CONTRACT = Change(ChangeOp.CONTRACT, member("B"), None)
SELF_SWAP = Change(ChangeOp.SWAP, member("B"), member("B", "i2"))


@pytest.mark.parametrize(
    ("change", "final", "fencing"),
    [
        (None, members("ABC"), members("ABC")),
        (SWAP, members("ACD"), members("ABCD")),
        (EXPAND, members("ABCD"), members("ABCD")),
        (CONTRACT, members("AC"), members("ABC")),
        (SELF_SWAP, (*members("AC"), member("B", "i2")), (*members("ABC"), member("B", "i2"))),
    ],
)
def test_final_and_fencing_ensembles(change: Change | None, final: Ensemble, fencing: Ensemble) -> None:
    assert final_ensemble(members("ABC"), change) == final
    assert final_ensemble(final, change) == final, "done is done"
    assert fencing_ensemble(members("ABC"), change) == fencing


@pytest.mark.parametrize("change", [SWAP, EXPAND, CONTRACT, SELF_SWAP])
def test_a_change_which_fits(change: Change) -> None:
    validate(members("ABC"), member("A"), change)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (Change(ChangeOp.CONTRACT, member("A"), None), "never removed"),
        (Change(ChangeOp.CONTRACT, member("X"), None), "not a member"),
        (Change(ChangeOp.EXPAND, None, member("C")), "already"),
        (Change(ChangeOp.EXPAND, None, member("C", "i2")), "already"),
        (Change(ChangeOp.SWAP, member("B"), member("B")), "own place"),
        (Change(ChangeOp.SWAP, member("B"), None), "other nodes"),
        (Change(ChangeOp.CONTRACT, None, None), "other nodes"),
    ],
)
def test_a_change_which_does_not_fit(change: Change, why: str) -> None:
    with pytest.raises(PreconditionFailed, match=why):
        validate(members("ABC"), member("A"), change)


@pytest.mark.parametrize("size", range(1, 8))
@pytest.mark.parametrize("change", ["swap", "expand", "contract"])
def test_commit_quorums_of_prepare_meet_every_fence_quorum_of_the_final_ensemble(size: int, change: str) -> None:
    """I22: all who vote while a change is prepared are members of the final ensemble, so numbers decide."""
    final = {"swap": size, "expand": size + 1, "contract": size - 1}[change]
    if final:
        assert majority(size) + majority(final) > final
