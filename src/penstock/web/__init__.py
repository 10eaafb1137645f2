"""Web pages for people."""
