"""Training: the loss, the optimizer, a pure step, the loop around it and its checkpoints."""
