"""The services of a lake member, one per group of requests."""
