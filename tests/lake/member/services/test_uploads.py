"""Addresses of uploads: bound to a path of one life of a branch, and telling their link epoch."""

import pytest

from penstock.kernel.errors import InvalidArgument
from penstock.lake.member.services.uploads import LinkSigner, data_address, link_epoch_of
from penstock.plumbing.ports.ports import SystemChance

CHANCE = SystemChance()


def test_an_address_tells_its_link_epoch() -> None:
    address = data_address(7, CHANCE)
    assert (link_epoch_of(address), data_address(7, CHANCE) != address) == (7, True)
    for wrong in ("", "data/7/x", "data/00000007/../x", "other/00000007/x", "data/00000007/a b"):
        with pytest.raises(InvalidArgument):
            link_epoch_of(wrong)


def test_a_signature_is_good_for_one_path_of_one_branch_only() -> None:
    signer = LinkSigner("secret")
    signed = signer.sign("branch-1", "a/b", data_address(1, CHANCE))
    signer.check("branch-1", "a/b", signed)
    assert link_epoch_of(signed) == 1
    changed = signed.replace("00000001", "00000002")
    for instance, path, address in (
        ("branch-2", "a/b", signed),
        ("branch-1", "a/c", signed),
        ("branch-1", "a/b", changed),
        ("branch-1", "a/b", ""),
    ):
        with pytest.raises(InvalidArgument, match="not given out"):
            signer.check(instance, path, address)
    with pytest.raises(InvalidArgument):
        LinkSigner("another secret").check("branch-1", "a/b", signed)
