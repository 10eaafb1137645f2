"""Committed data: ranges and metaranges as sorted Parquet. Equal content has equal ids, whatever led to it."""
