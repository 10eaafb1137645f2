"""The KeySpace for real processes: embedded in the data folder, or etcd, with one interface."""

from penstock.keyspace.shell.lease_keeper import LeaseKeeper
from penstock.keyspace.shell.mirror import KeySpaceMirror
from penstock.keyspace.shell.opening import open_keyspace
from penstock.keyspace.shell.port import KeySpace, Watch

__all__ = ["KeySpace", "KeySpaceMirror", "LeaseKeeper", "Watch", "open_keyspace"]
