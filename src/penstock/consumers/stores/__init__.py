"""Stores of consumers, and the interface that an application implements."""
