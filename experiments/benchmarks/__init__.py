"""Benchmarks: this project and its peers on the same inputs, interleaved in one run."""
