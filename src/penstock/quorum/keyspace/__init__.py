"""A KeySpace on a quorum log: the port of `keyspace/` on the machine of shard `keyspace`."""
