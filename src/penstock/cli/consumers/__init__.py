"""Commands for consumers and their shards."""
