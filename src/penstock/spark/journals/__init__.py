"""Journals in Spark: sources, sinks and the plan of a read."""
