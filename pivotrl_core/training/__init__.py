"""Training: the loops, the trainable policy, the optimiser, checkpoints with exact resume."""
