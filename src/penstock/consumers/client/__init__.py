"""Definitions, status and control of consumer shards."""
