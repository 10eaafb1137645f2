"""Recovery logs: a journal of what a store did to its files, from which another process builds them again."""
