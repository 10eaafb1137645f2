"""The KeySpace: a local mirror of the linearizable store that says who serves what."""
