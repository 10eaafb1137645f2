"""The journals' world: brokers and clients as we ship them."""
