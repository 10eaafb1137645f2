"""Garbage collection and retention in a lake member."""
