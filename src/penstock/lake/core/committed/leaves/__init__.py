"""Format 3 of committed data: leaves, nodes and roots by content, packs by place."""
