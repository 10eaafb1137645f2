"""Spools on disk: the files that hold the content of one replica."""
