"""Framings: where one message of a journal ends and the next begins, and where its UUID lies."""
