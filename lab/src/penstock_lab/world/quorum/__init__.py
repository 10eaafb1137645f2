"""The world of the quorum log: nodes, operators and clients as we ship them."""
