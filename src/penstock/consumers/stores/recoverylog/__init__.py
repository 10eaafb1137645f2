"""Recovery logs at work: a store's files are recorded into a journal, and built again from it by whoever comes next."""
