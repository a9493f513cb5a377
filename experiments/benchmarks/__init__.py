"""Benchmarks: this project and its peers on the same inputs, in one run, in turn."""
