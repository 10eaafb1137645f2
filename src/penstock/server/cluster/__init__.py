"""A cluster of real processes on one machine: for trying, for fault drills, for tests."""
