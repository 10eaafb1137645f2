"""The explorer: every interleaving of a small world, run on the very cores the server runs. See `world.py`."""
