"""Peers: other systems, started on this machine for the time of a benchmark. One that is not installed is missing."""
