"""Merge trees: splice them by reference, decide single paths, re-parent commits that lost a race."""
