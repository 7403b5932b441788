"""The four tokens that every vocabulary begins with."""

PAD, UNK, BOS, EOS = range(4)
"""Filler, unknown piece, begin and end of sentence: the same ids in every tokenizer."""

SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")
"""How they are written, in the order of their ids."""

UNK_SURFACE = "⁇"
"""What a reader sees in the place of an unknown piece."""


def token_labels(size: int) -> list[str]:
    """A string for each id, for engines that read strings: special pieces, then numbers."""
    return [*SPECIAL_PIECES, *map(str, range(len(SPECIAL_PIECES), size))]
