"""The quorum log: a small, strongly ordered log that survives any minority."""
