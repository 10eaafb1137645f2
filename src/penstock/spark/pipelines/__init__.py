"""Pipelines: flows from journals to tables and back."""
