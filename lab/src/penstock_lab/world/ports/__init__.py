"""Simulated ports, each with the faults that a document allows it. Each passes the suite of the real one."""
