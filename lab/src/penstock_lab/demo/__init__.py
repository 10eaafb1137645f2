"""The demo: real processes, real faults, an audit."""
