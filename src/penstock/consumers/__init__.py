"""Consumers: applications that process each committed message exactly once."""
