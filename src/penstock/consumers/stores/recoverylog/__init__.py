"""The I/O of recovery logs: a store's files are recorded into a journal, and the next process rebuilds them from it."""
