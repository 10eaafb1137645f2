"""Links between the nodes and operators of one shard."""
