"""Decoding: search with a step function, and alignments from attention weights."""
