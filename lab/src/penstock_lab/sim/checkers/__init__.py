"""Checkers: what must hold in a whole world, counted from what nodes hold, send and say, not from what they believe."""
