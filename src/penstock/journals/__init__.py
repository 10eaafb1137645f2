"""Journals: replicated, transactional byte logs."""
