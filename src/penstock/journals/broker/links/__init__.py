"""Replication streams between brokers."""
