"""Models: parameters (Flax NNX modules used as plain pytrees) around the mathematics."""
