"""Plumbing: wire, write-ahead log, object stores, HTTP, configuration. It knows no system."""
