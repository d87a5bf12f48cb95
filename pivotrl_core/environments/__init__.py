"""Real multi-turn environments: for in-domain evaluation, for end-to-end RL, and for expert trajectories."""
