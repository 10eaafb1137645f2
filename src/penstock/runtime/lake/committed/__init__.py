"""Committed data in an object store: trees are read, built, compared and merged, in threads, with a local cache."""

from penstock.runtime.lake.committed.options import TreeOptions
from penstock.runtime.lake.committed.trees import MergeOutcome, Trees

__all__ = ["MergeOutcome", "TreeOptions", "Trees"]
