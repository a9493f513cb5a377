"""How a model is trained: values that options hold, of losses, optimizers, precision and order."""
