"""Journals: replicated, transactional byte logs. Design: transactional-appends.rst."""
