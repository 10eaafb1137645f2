"""The staging state machine: branches with their staging areas, driven by one queue of records. Design: lake.md."""
