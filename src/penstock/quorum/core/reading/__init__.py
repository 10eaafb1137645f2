"""Reads: linearizable rounds, local reads, and the fate of entries."""
