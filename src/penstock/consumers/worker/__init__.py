"""The worker process of a consumer group: it runs shards."""
