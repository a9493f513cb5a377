"""Evaluation: how good hypotheses are, in NumPy."""
