"""The KeySpace for real processes: embedded in the data folder, or etcd, behind one port."""

from penstock.runtime.keyspace.lease_keeper import LeaseKeeper
from penstock.runtime.keyspace.mirror import KeySpaceMirror
from penstock.runtime.keyspace.opening import open_keyspace
from penstock.runtime.keyspace.port import KeySpace, Watch

__all__ = ["KeySpace", "KeySpaceMirror", "LeaseKeeper", "Watch", "open_keyspace"]
