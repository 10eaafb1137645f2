"""Tables of databases, written by Spark exactly once."""
