"""Decoding: search over a step function, and what a model attends to."""
