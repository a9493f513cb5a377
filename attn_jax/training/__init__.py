"""Training: a pure step, the loop around it, and its checkpoints."""
