"""Consumers: shards, transactions, stores and recovery logs. Design: exactly-once.md."""
