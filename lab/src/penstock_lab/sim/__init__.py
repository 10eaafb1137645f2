"""The simulator: runs the same cores in one deterministic world with faults."""
