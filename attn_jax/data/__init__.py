"""Data: text of the user and data sets of TFDS, vocabularies, and batches of few shapes."""
