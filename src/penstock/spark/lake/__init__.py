"""The lake in Spark: tables, staged files, and jobs over trees."""
