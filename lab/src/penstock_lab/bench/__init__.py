"""Benchmarks: each answers one question, next to a peer measured in the same run."""
