"""Training: the loss, the optimiser, a pure step, the loop around it and its checkpoints."""
