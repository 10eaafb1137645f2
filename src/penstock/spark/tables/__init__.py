"""Tables of the lake in Spark: reads, commits, staged files, and jobs over trees."""
