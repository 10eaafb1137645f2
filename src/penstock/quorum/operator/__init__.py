"""The operator process: it keeps the metadata of each shard and holds elections."""
