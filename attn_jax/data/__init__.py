"""Data: every data set as a TFDS builder, vocabularies, and batches of few shapes."""
