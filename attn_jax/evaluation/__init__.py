"""Evaluation: how good hypotheses and alignments are, in NumPy."""
