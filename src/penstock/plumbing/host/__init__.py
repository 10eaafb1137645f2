"""The host of state machines: events in, effects out, in order."""
