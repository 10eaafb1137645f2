"""Parts that sources, sinks and pipelines share: rows, schemas, offsets and options."""
