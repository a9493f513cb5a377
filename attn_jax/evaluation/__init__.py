"""Evaluation: metrics, their significance, and all measurements of a model."""
