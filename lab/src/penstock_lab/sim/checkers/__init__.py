"""Checkers: invariants of a whole world, computed from the nodes' stores, messages and answers, not from their
beliefs.
"""
