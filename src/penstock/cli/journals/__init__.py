"""Commands for journals."""
