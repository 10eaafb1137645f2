"""Clients of journals."""
