"""Commands about machines: run them, look at them, upgrade them."""
