"""The state of a broker, for people and machines: metrics, health checks, explanations."""
