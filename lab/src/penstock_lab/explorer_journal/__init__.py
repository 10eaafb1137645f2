"""The journal core in a world of single steps: for named schedules, for aimed walks, and for the exhaustive search."""
