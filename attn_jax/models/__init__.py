"""Models: Flax NNX modules, used as plain pytrees of parameters, around the pure functions."""
