"""Records of the quorum log: entries, messages, metadata, and the events and effects of its machines."""
