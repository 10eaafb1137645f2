"""Commits and how they are named: records and ids, log, merge base, ref expressions. Pure: who asks loads commits."""
