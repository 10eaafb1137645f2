"""Journals for real processes: spools on disk, fragments in object stores, and the broker which serves them."""
