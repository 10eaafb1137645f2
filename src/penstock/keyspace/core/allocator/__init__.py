"""The allocator: gives every item its members, and takes none away before others can serve in its place."""

from penstock.keyspace.core.allocator.allocator import Allocator
from penstock.keyspace.core.allocator.layout import Layout, MemberId
from penstock.keyspace.core.allocator.policy import Capacity, Demand, Policy
from penstock.keyspace.core.allocator.steps import AllocationBatch
from penstock.keyspace.core.allocator.suspicion import Suspicions, leader_of, suspicion_key

__all__ = [
    "AllocationBatch",
    "Allocator",
    "Capacity",
    "Demand",
    "Layout",
    "MemberId",
    "Policy",
    "Suspicions",
    "leader_of",
    "suspicion_key",
]
