"""The lake: branches, staging, commits and merges over an object store."""
