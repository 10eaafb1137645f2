"""Commands for the quorum log, its processes and local clusters."""
