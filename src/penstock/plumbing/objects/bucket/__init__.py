"""Buckets behind obstore: S3, GCS, Azure and memory."""
