"""The four tokens that every vocabulary begins with."""

PAD, UNK, BOS, EOS = range(4)  # filler, unknown, begin and end of sentence, in every tokenizer

SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")  # how they are written, in the order of ids

UNK_SURFACE = "⁇"  # what a reader sees in the place of an unknown piece


def token_labels(size: int) -> list[str]:
    """A string for each id, for engines that read strings: special pieces, then numbers."""
    return [*SPECIAL_PIECES, *map(str, range(len(SPECIAL_PIECES), size))]
