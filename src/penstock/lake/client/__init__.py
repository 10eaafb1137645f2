"""Clients of the lake."""
