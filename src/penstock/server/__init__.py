"""The processes: roles, `penstock up`, the local cluster, and the configured session they share."""
