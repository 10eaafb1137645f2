"""Clients of the quorum log and of its operators."""
