"""What a word of a text is, wherever words are counted together with other tools."""

SPACES = " \t"


def words_of(text: str) -> list[str]:
    """The words of a text, which are what stands between ASCII spaces and tabs.

    Aligners cut there. Python's `split` also cuts at no-break spaces and others, which would move
    the numbers of all later words.
    """
    return [word for word in text.replace("\t", " ").split(" ") if word]
