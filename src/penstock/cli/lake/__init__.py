"""Commands for the lake."""
