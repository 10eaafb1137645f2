"""Audit a stored tree: its root lists exactly the files of its nodes and leaves, and each has the right content."""

from collections import Counter

from tests.lake.core.committed.shelf import Tree, tree_of

from penstock.lake.core.committed.leaves.node import Leaves
from penstock.lake.core.committed.leaves.root import Root, nodes_of
from penstock.lake.core.committed.metarange import EMPTY, TreeAddress
from penstock.lake.member.committed import TreeOptions, Trees
from penstock.plumbing.objects import ObjectStore

__all__ = ["audited"]


async def audited(store: ObjectStore, namespace: str, options: TreeOptions, address: TreeAddress) -> Tree:
    """Return the entries of a tree of format 3, read from a cold cache, after the audit."""
    if address.id == EMPTY.id:
        return {}
    async with Trees(store, namespace, options) as trees:
        root = await trees.files.open(address)
        assert isinstance(root, Root)
        root.nodes.check()
        each = await trees.files.leaves_of_each(root.nodes)
        uses = [dict(Counter(leaves.frame["pack"])) for leaves in each]
        said = [{use["pack"]: use["leaves"] for use in node} for node in root.nodes.frame["uses"]]
        assert said == uses
        leaves = await trees.files.leaves(root.nodes)
        leaves.check()
        assert root.files == {*leaves.frame["pack"], *root.nodes.frame["pack"]}
        assert root.written.keys() == root.files
        assert nodes_of(Leaves(leaves.frame), options.leaf_cut)["id"].equals(root.nodes.frame["id"])
        fetched = await trees.files.fetch_parts(leaves)
        return tree_of(fetched.entries())
