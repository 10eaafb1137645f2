"""Records of the lake that clients, members and Spark share."""
