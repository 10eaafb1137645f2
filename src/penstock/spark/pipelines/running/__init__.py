"""Run the flows of a pipeline, follow their progress, and backfill their history."""
