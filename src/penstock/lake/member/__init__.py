"""The lake's members in the real world: their queue, their store, and the service on top."""
