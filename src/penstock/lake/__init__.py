"""The lake: branches, staging, commits and merges. Design: queue-based-staging.md."""
