"""The ids that every vocabulary begins with."""

PAD, UNK, BOS, EOS = range(4)  # no word, an unknown one, begin and end of sentence
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
