"""The special tokens at the beginning of every vocabulary."""

PAD, UNK, BOS, EOS = range(4)  # ids of padding, unknown word, begin and end of sentence
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
