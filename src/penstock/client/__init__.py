"""The client: the async API, and the same API blocking."""
