"""Staging areas: uncommitted changes as runs, and one index over them."""
