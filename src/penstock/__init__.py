"""Penstock: a replicated, transactional log that fills a versioned data lake, exactly once."""

__all__ = ["__version__"]

__version__ = "0.1.0.dev0"
