"""Sequencers: they decide for each message whether it is new, a duplicate, or uncommitted."""
