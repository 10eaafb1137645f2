"""The HTTP edge: one small server for all our HTTP, what its sites are written with, and a client.

Nothing is imported here, so that a client never loads the server.
"""
