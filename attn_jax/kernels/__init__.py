"""Functions whose derivative, layout or fusion is written by hand, each with a plain form.

A function `plain_x` computes what `x` computes as a reader would write it, and leaves the rest to
JAX and XLA. Which of the two a model runs is the value `Forms` of its modules.
"""
