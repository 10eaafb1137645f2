"""How a process listens and dials, and how configured values become options."""
