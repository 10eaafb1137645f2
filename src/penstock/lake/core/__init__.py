"""The core of the lake: pure state machines and tables."""
