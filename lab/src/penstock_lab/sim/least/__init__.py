"""Journals that need fewer than R members, in the simulator: checks, mutants, workload."""
