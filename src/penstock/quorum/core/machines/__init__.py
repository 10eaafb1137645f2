"""State machines: the port, the Applier between log and machine, and the machines that a node runs by name."""
