"""Records of journals: names, specs, fragments, heads, routes, and the messages between brokers."""
