"""Decoding: search with a step function, and forced decoding."""
