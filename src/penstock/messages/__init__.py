"""Messages: UUIDs, framings, publishing and sequencing. Design: exactly-once.md."""
