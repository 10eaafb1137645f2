"""Committed data in an object store: trees are read, built, compared and merged, in threads, with a local cache."""

from penstock.lake.member.committed.options import TreeOptions
from penstock.lake.member.committed.trees import MergeOutcome, Trees

__all__ = ["MergeOutcome", "TreeOptions", "Trees"]
