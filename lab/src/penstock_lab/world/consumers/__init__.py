"""The world of consumers: shipped workers and brokers, and a store that is a database of the world."""
