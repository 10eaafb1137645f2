"""Ports: the only ways out of a role. A composition root hands them in; nothing below reaches for them."""
