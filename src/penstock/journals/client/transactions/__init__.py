"""Transactions: messages to several journals, all of them or none."""
