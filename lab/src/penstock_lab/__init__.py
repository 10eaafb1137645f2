"""The lab: simulator, explorers, benchmarks and the demo. It tests Penstock and is not part of it."""
