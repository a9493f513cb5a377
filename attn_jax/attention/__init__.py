"""The mathematics of attention: pure functions of one sentence."""
