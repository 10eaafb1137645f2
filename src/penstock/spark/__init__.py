"""Spark sources, sinks, pipelines and maintenance jobs."""
